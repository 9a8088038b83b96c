"""Canaries among examples: wrongly labelled ones, of which a coin leaves some out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Indices, randomness
from fedgraft.experiment.attacking.guesses import audited_task, check_enough, losses_of
from fedgraft.experiment.storage.finished_run import FinishedRun


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
