"""Canaries: a run trained again with wrongly labelled examples, and an epsilon that it does not keep."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Indices, randomness
from fedgraft.errors import require
from fedgraft.experiment.attacking.guesses import Floats, area, audited_task, losses_of
from fedgraft.experiment.attacking.summed_canaries import summed_losses
from fedgraft.experiment.running.baselines import local_runtime
from fedgraft.experiment.running.loops import running
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.secrets.canaries import epsilon_lower_bound

GUESSED: Final = 5
"""One of so many canaries is guessed, as many on either side; how many does not depend on which are right. Ours."""


def canaries(run: FinishedRun, count: int = 600) -> dict[str, Any]:
    """Train the run's recipe again with canaries, and guess from the model which of them it was trained on.

    A canary is a training example with a wrong label: of all others the class that the stored run takes for the least
    likely. A coin decides whether it is trained on; else it is in no split. What has the smallest losses is guessed to
    have been in training. Where statistics are added up, canaries are units of these (`summed_canaries`).

    Source: Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training Run", NeurIPS 2023.

    Args:
        run: with its clients' data here.
        count: of canaries, >= 6; at most half of the training examples.

    Returns:
        {"canaries", "guesses", "correct", "auc", "epsilon": a lower bound with 95 % confidence, at the claim's delta
        or 0; "claim": the epsilon that is claimed, None for none}.
    """
    require(count >= 6, "--canaries", ">= 6", count)
    if run.plan.summed:
        return {**_guessed(*summed_losses(run, count), _delta(run)), "claim": _claim(run)}
    task, experiment, shards = audited_task(run.plan, "canaries"), run.experiment, list(run.shards)
    g = randomness.generator(experiment.seed, "canaries")
    told = [task.labelled(shard, "train") for shard in shards]
    places = [(client, place) for client, each in enumerate(told) for place in range(len(each.rows))]
    chosen = g.choice(len(places), min(count, len(places) // 2), replace=False)
    trained = g.random(len(chosen)) < 0.5
    marks = {}
    for client in sorted({places[at][0] for at in chosen.tolist()}):
        own = [
            (places[at][1], coin) for at, coin in zip(chosen.tolist(), trained, strict=True) if places[at][0] == client
        ]
        place, coins = np.array([each for each, _ in own]), np.array([coin for _, coin in own])
        rows, label = told[client].rows[place], told[client].label[place]
        marks[client] = rows, _unlikely(run, client, rows, label, told[client].classes), coins
        shards[client] = task.marked(shards[client], *marks[client])

    again = replace(experiment, runtime=local_runtime(experiment.runtime), agreement={}, matching={})
    with running(again, shards) as (loop, _):
        state = loop.run(loop.start(), lambda state, row: None)
    model = experiment.plan.build_model()
    model.load(state.best_model)
    losses: list[Floats] = []
    inside: list[NDArray[np.bool_]] = []
    for client, (rows, labels, coins) in marks.items():
        shared = run.memory(client).get("shared", {})
        losses.append(losses_of(run.plan, model.module, run.shards[client], shared, rows, labels))
        inside.append(coins)
    return {**_guessed(np.concatenate(losses), np.concatenate(inside), _delta(run)), "claim": _claim(run)}


def _unlikely(run: FinishedRun, client: int, rows: Indices, label: Indices, classes: int) -> Indices:
    """Return for each row the class that the stored run takes for the least likely, but for its own."""
    module, shared = run.answering_model(client), run.memory(client).get("shared", {})
    losses = np.stack(
        [
            losses_of(run.plan, module, run.shards[client], shared, rows, np.full(len(rows), number))
            for number in range(classes)
        ]
    )
    losses[label, np.arange(len(rows))] = -np.inf
    unlikely: Indices = losses.argmax(0)
    return unlikely


def _guessed(losses: Floats, inside: NDArray[np.bool_], delta: float) -> dict[str, Any]:
    each = len(losses) // (2 * GUESSED)
    order = np.argsort(losses, kind="stable")
    correct = int(inside[order[:each]].sum() + (~inside[order[-each:]]).sum())
    return {
        "canaries": len(losses),
        "guesses": 2 * each,
        "correct": correct,
        "auc": area(-losses[inside], -losses[~inside]),
        "epsilon": epsilon_lower_bound(correct, 2 * each, delta, canaries=len(losses)),
    }


def _delta(run: FinishedRun) -> float:
    return run.plan.privacy.delta if run.plan.privacy.active else 0.0


def _claim(run: FinishedRun) -> float | None:
    claim = run.run_folder.summary().get("privacy")
    return claim["epsilon"] if claim else None
