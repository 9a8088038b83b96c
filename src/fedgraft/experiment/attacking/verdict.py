"""What scores of canaries refute, and what they could have refuted at most."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Indices
from fedgraft.experiment.attacking.guesses import Floats, area
from fedgraft.secrets.canaries import best_lower_bound, canaries_for, most_refuted, numbers_of_guesses


def guesses_of(scores: Floats, count: int, odds: bool) -> tuple[Indices, NDArray[np.bool_]]:
    """Return of which canaries the coins are guessed, int64 [count], and the guesses, bool [count]: True for in.

    Coins have no part in it. Of odds the surest are taken, and a sign is a guess. Of other scores half of the guesses
    are the largest, which are in, and half the smallest.

    Args:
        scores: float64 [canaries], large for who was in.
        count: guesses, even, at most as many as canaries.
        odds: whether scores are logs of odds.
    """
    if odds:
        surest = np.argsort(-np.abs(scores), kind="stable")[:count]
        return surest, scores[surest] > 0
    order = np.argsort(-scores, kind="stable")
    ends = np.concatenate([order[: count // 2], order[len(order) - count // 2 :]])
    return ends, np.arange(count) < count // 2


def verdict(
    scores: Floats, inside: NDArray[np.bool_], delta: float, claim: float | None, odds: bool = True
) -> dict[str, Any]:
    """Guess coins of canaries by scores, and count what is right.

    Several numbers of guesses are tried and corrected for. They follow from the number of canaries alone.

    Args:
        scores: float64 [canaries], large for who was in.
        inside: bool [canaries], who was: drawn by fair coins.
        delta: of the claim, or 0.
        claim: epsilon; None for none.
        odds: as of `guesses_of`.

    Returns:
        {"canaries"; "auc": the probability that one that was in has the larger score, 0.5 = nothing is told; "guesses"
        and "correct": of the number of guesses that refutes most; "tried": how many numbers were; "epsilon": that is
        refuted with 95 % confidence; "most": that would be if all guesses were right; "claim"; "enough": canaries of
        which a perfect attack would refute the claim, None where none do or there is no claim}.
    """
    canaries, tried = len(scores), []
    for count in numbers_of_guesses(canaries):
        guessed, coins = guesses_of(scores, count, odds)
        tried.append((int((inside[guessed] == coins).sum()), count))
    epsilon, place = best_lower_bound(tried, canaries, delta)
    return {
        "canaries": canaries,
        "auc": area(scores[inside], scores[~inside]),
        "guesses": tried[place][1],
        "correct": tried[place][0],
        "tried": len(tried),
        "epsilon": epsilon,
        "most": most_refuted(canaries, delta),
        "claim": claim,
        "enough": None if claim is None else canaries_for(claim, delta),
    }
