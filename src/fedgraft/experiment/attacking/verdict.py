"""What scores of canaries refute, and what they could have refuted at most."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraft.experiment.attacking.guesses import Floats, area
from fedgraft.secrets.canaries import best_lower_bound, canaries_for, most_refuted, numbers_of_guesses


def verdict(scores: Floats, inside: NDArray[np.bool_], delta: float, claim: float | None) -> dict[str, Any]:
    """Guess that the canaries of the largest scores were in, and as many of the smallest not; count what is right.

    Several numbers of guesses are tried and corrected for. They follow from the number of canaries alone.

    Args:
        scores: float64 [canaries], large for who was in.
        inside: bool [canaries], who was: drawn by fair coins.
        delta: of the claim, or 0.
        claim: epsilon; None for none.

    Returns:
        {"canaries"; "auc": the probability that one that was in has the larger score, 0.5 = nothing is told; "guesses"
        and "correct": of the number of guesses that refutes most; "tried": how many numbers were; "epsilon": that is
        refuted with 95 % confidence; "most": that would be if all guesses were right; "claim"; "enough": canaries of
        which a perfect attack would refute the claim, None where none do or there is no claim}.
    """
    canaries, order = len(scores), np.argsort(-scores, kind="stable")
    tried = []
    for guesses in numbers_of_guesses(canaries):
        first, last = order[: guesses // 2], order[canaries - guesses // 2 :]
        tried.append((int(inside[first].sum() + (~inside[last]).sum()), guesses))
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
