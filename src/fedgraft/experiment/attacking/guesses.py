"""How well losses tell who was in training, and canaries among examples: wrongly labelled ones."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from fedgraft.contracts import Batch, Indices, randomness
from fedgraft.contracts.abilities.auditing import AuditedTask
from fedgraft.contracts.task import example_losses
from fedgraft.engine.plan import Plan
from fedgraft.errors import InputError
from fedgraft.experiment.storage.finished_run import FinishedRun

Floats = NDArray[np.float64]

LEAST: Final = 6
"""Canaries below which nothing is refuted, whatever is guessed."""


def audited_task(plan: Plan, kind: str) -> AuditedTask[Any]:
    """Return the plan's task. Raises `InputError` for one whose examples have no classes to change."""
    if (audited := plan.task.ability(AuditedTask)) is None:
        raise InputError(f"--kind {kind} is for tasks whose examples have one class each, such as node and graph.")
    return audited


def losses_of(plan: Plan, module: torch.nn.Module, shard: Any, shared: Any, rows: Indices, label: Indices) -> Floats:
    """Return a model's losses of some examples of a client, with these labels, float64 [rows], in their order."""
    task = audited_task(plan, "membership")
    others = np.setdiff1d(task.labelled(shard, "train").rows, rows)
    nothing = np.zeros(len(others), bool)
    probe = task.marked(shard, others, np.zeros(len(others), np.int64), nothing)
    probe = task.marked(probe, rows, label, np.ones(len(rows), bool))
    data = plan.task.prepare(probe, shared)
    with torch.no_grad():
        found = plan.task.loss(module.eval(), data, Batch(np.arange(len(rows))), None)
    losses = np.empty(len(rows))
    losses[np.argsort(rows, kind="stable")] = example_losses(found).numpy(force=True)
    return losses


def check_enough(canaries: int) -> None:
    """Raise `InputError` for so few canaries that nothing is refuted, whatever is guessed."""
    if canaries < LEAST:
        raise InputError(f"--kind canaries needs {LEAST} canaries; of this run {canaries} could be some.")


def area(positive: Floats, negative: Floats) -> float:
    """Return the probability that one of the first is above one of the second, ties counting half; 0.5 without any."""
    if not (len(positive) and len(negative)):
        return 0.5
    ranks = rankdata(np.concatenate([positive, negative]))[: len(positive)]
    return float((ranks.sum() - len(positive) * (len(positive) + 1) / 2) / (len(positive) * len(negative)))


@dataclass(frozen=True)
class Marked:
    """A run's data with canaries.

    Args:
        trained: a shard for each client, without those that were left out: what is trained on.
        whole: the same with all canaries: what the attacker knows.
        rows: {client with canaries: int64 [n], their rows}; all arrays of canaries are in this order.
        labels: {client: int64 [n], their wrong labels}.
        inside: bool [canaries], who was not left out.
    """

    trained: list[Any]
    whole: list[Any]
    rows: dict[int, Indices]
    labels: dict[int, Indices]
    inside: NDArray[np.bool_]


def marked_examples(run: FinishedRun, count: int) -> Marked:
    """Return canaries of a run: training examples with, of all other classes, the one that it finds least likely.

    At most half of all training examples, and not all of any client: who has none left would be missed in sums.
    """
    task, shards = audited_task(run.plan, "canaries"), list(run.shards)
    g = randomness.generator(run.experiment.seed, "canaries")
    told = [task.labelled(shard, "train") for shard in shards]
    sizes = [len(each.rows) for each in told]
    spared = [int(g.integers(size)) if size else -1 for size in sizes]
    places = [(client, at) for client, size in enumerate(sizes) for at in range(size) if at != spared[client]]
    chosen = g.choice(len(places), min(count, sum(sizes) // 2, len(places)), replace=False)
    check_enough(len(chosen))
    coins = g.random(len(chosen)) < 0.5
    rows, labels, inside, whole = {}, {}, [], list(shards)
    for client in sorted({places[at][0] for at in chosen.tolist()}):
        mine = np.array([places[at][0] == client for at in chosen.tolist()])
        at = np.array([places[each][1] for each in chosen[mine].tolist()])
        rows[client] = told[client].rows[at]
        labels[client] = _unlikely(run, client, rows[client], told[client].label[at], told[client].classes)
        whole[client] = task.marked(shards[client], rows[client], labels[client], np.ones(len(at), bool))
        shards[client] = task.marked(shards[client], rows[client], labels[client], coins[mine])
        inside.append(coins[mine])
    return Marked(shards, whole, rows, labels, np.concatenate(inside))


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
