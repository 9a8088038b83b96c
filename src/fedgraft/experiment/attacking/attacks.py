"""All attacks on a run, by name."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Indices
from fedgraft.engine.plan import Plan
from fedgraft.errors import InputError, require, unknown
from fedgraft.experiment.attacking.canaries import client_canaries, gradient_canaries, summed_canaries
from fedgraft.experiment.attacking.guesses import LEAST, Floats, Marked, area, audited_task, losses_of, marked_examples
from fedgraft.experiment.attacking.listening import here
from fedgraft.experiment.attacking.updates import inversion, labels
from fedgraft.experiment.running.loops import running
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.secrets.canaries import best_lower_bound, canaries_for, most_refuted, numbers_of_guesses

KINDS: Final = ("labels", "inversion", "membership", "canaries")
"""What is tried: the first two on the updates of a first round, the others on the trained model."""


def canaries(run: FinishedRun, count: int = 600) -> dict[str, Any]:
    """Train the run's recipe again with canaries, and guess which of them had a part in it.

    A coin decides for each canary whether it is left out. Where sums hold noise, who guesses knows all data, each
    round's model and each round's sum, as the server does: a canary is a wrongly labelled example, a client, or a unit
    of statistics that are added up. Without noise the model alone is read: a canary is a wrongly labelled example, of
    all other classes with the one that the stored run takes for the least likely, and small losses are guessed to be of
    those that were in training.

    Source: Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training Run", NeurIPS 2023.
    Differs: guesses from sums are the best linear ones (`evidence`); there each is by its own canary's part alone.

    Args:
        run: with its clients' data here.
        count: of canaries, >= 6; at most half of the training examples, or all clients.

    Returns:
        as of `verdict`, and "read": what was, such as "30 sums".

    Raises `InputError` for too few canaries, and for a task without classes where there is no noise.
    """
    require(count >= LEAST, "--canaries", f">= {LEAST}", count)
    from threadpoolctl import threadpool_limits

    odds = bool(run.plan.summed) or run.plan.collection.claims  # losses are none
    with threadpool_limits(1):  # of many small products: more threads wait for each other
        scores, inside, read = _guessed(run, count)
    return {"read": read, **verdict(scores, inside, run.plan.privacy.delta, _claim(run), odds)}


def _guessed(run: FinishedRun, count: int) -> tuple[Floats, NDArray[np.bool_], str]:
    """Return scores of canaries, large for who was in, who was, and what was read."""
    privacy = run.plan.privacy
    if run.plan.summed:
        inside, scores = summed_canaries(run, count)
        return scores, inside, "1 sum of statistics"
    if privacy.of_examples:
        marked, scores, sums = gradient_canaries(run, count)
        return scores, marked.inside, f"{sums} sums of gradients"
    if run.plan.collection.claims:
        inside, scores, sums = client_canaries(run, count)
        return scores, inside, f"{sums} sums of updates"
    marked = marked_examples(run, count)
    return -_losses(run, marked), marked.inside, "the model"


def _losses(run: FinishedRun, marked: Marked) -> Floats:
    """Train the recipe on some data, and return the losses of the model that it keeps, of each canary."""
    with running(here(run.experiment), marked.trained) as (loop, _):
        state = loop.run(loop.start(), lambda state, row: None)
    model = run.plan.build_model()
    model.load(state.best_model)
    found = [
        losses_of(
            run.plan,
            model.module,
            run.shards[client],
            run.memory(client).get("shared", {}),
            rows,
            marked.labels[client],
        )
        for client, rows in marked.rows.items()
    ]
    return np.concatenate([np.zeros(0), *found])


def _claim(run: FinishedRun) -> float | None:
    claim = run.run_folder.summary().get("privacy")
    return claim["epsilon"] if claim else None


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


def attacked(run: FinishedRun, kinds: Sequence[str] = KINDS, count: int = 600) -> dict[str, dict[str, Any]]:
    """Return {kind of attack: what came of it}; `count` is the number of canaries.

    Raises `InputError` for a kind that is none, for one that the run has nothing for, and for a run whose task has no
    classes.
    """
    require(len(kinds) > 0, "--kind", f"of {', '.join(KINDS)}", "none")
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind of attack", kind, KINDS)
    found: dict[str, dict[str, Any]] = {}
    for kind in _fitting(run.plan, tuple(kinds)):
        if kind == "canaries":
            found[kind] = canaries(run, count)
        else:
            found[kind] = {"labels": labels, "inversion": inversion, "membership": membership}[kind](run)
    return found


def _fitting(plan: Plan, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return those that a plan has something for; all that were asked for must be among them, unless all were."""
    fitting: tuple[str, ...] = KINDS
    why = ""
    if plan.summed and not plan.connected:
        fitting, why = ("canaries",), "no model of this run leaves a client, but statistics do"
    elif plan.privacy.central:
        fitting, why = ("membership", "canaries"), "the server of this run is trusted, and may see single updates"
    if kinds == KINDS:
        return fitting
    if set(kinds) - set(fitting):
        raise InputError(f"{why}: --kind must be {' or '.join(fitting)}.")
    return kinds


def membership(run: FinishedRun) -> dict[str, Any]:
    """Return how well the kept model's losses tell training examples from test examples.

    Source: Yeom et al., "Privacy Risk in Machine Learning", CSF 2018: who was in training has the smaller loss.

    Returns:
        {"members", "others": how many; "auc": probability that a member has a smaller loss than another, 0.5 = nothing
        is told; "advantage": most difference of the rates of right and wrong guesses}.
    """
    task = audited_task(run.plan, "membership")
    inside: list[Floats] = []
    outside: list[Floats] = []
    for number, shard in enumerate(run.shards):
        module, shared = run.answering_model(number), run.memory(number).get("shared", {})
        for split, found in (("train", inside), ("test", outside)):
            told = task.labelled(shard, split)
            if len(told.rows):
                found.append(losses_of(run.plan, module, shard, shared, told.rows, told.label))
    members, others = (np.concatenate([np.zeros(0), *found]) for found in (inside, outside))
    ends = np.concatenate([members, others])
    rates = [(members <= end).mean() - (others <= end).mean() for end in np.unique(ends)] if len(ends) else [0.0]
    return {
        "members": len(members),
        "others": len(others),
        "auc": area(-members, -others),
        "advantage": float(max(0.0, *rates)),
    }
