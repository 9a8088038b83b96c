"""Canaries in sums of gradients: which examples had a part in the sums of all rounds."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fedgraft.contracts import Indices
from fedgraft.contracts.abilities.private import ClippedGradientTask
from fedgraft.engine.client.clipped_gradients import PART
from fedgraft.engine.privacy.private_sums import flat, numbers_of
from fedgraft.experiment.attacking.evidence import Evidence, Weighed
from fedgraft.experiment.attacking.guesses import Floats
from fedgraft.experiment.attacking.listening import Heard, heard, models
from fedgraft.experiment.attacking.marked_examples import Marked, marked_examples
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.wire.layouts import Layout

_Task = ClippedGradientTask[Any, Any]
_WHOLE: Final = 1e12
"""A length to which no gradient is shortened."""


def gradient_canaries(run: FinishedRun, count: int) -> tuple[Marked, Floats, int]:
    """Train a run's recipe again with canaries; return these, a score of each, and how many sums were read.

    Scores are float64 [canaries], large for who was in. They are made of what the server knows and of all clients'
    data with all canaries: who was left out has no other part in them.
    """
    marked = marked_examples(run, count)
    rounds = heard(run.experiment, marked.trained)
    return marked, weighed_gradients(run, marked.whole, marked.rows, rounds).scores, len(rounds)


def weighed_gradients(
    run: FinishedRun, shards: Sequence[Any], rows: dict[int, Indices], rounds: Sequence[Heard]
) -> Weighed:
    """Return what sums of gradients say of some rows: of two explanations, the likelier one.

    Clients may shorten gradients as they should, or not at all; an attack that believes them would miss the latter.

    Args:
        run: its recipe and what clients were told.
        shards: of all clients, with all canaries in training.
        rows: {client: int64 [n], its canaries}.
        rounds: of a training that some canaries had no part in.
    """
    plan, task = run.plan, run.plan.task.ability(ClippedGradientTask)
    assert task is not None, "privacy of examples is for such a task"
    data = {k: plan.task.prepare(shard, run.memory(k).get("shared", {})) for k, shard in enumerate(shards)}
    places = {k: np.searchsorted(shards[k].rows("train"), mine) for k, mine in rows.items()}
    every = {k: np.arange(plan.task.examples(each)) for k, each in data.items()}
    canaries, model = sum(map(len, rows.values())), plan.build_model()
    lengths = plan.privacy.clip, _WHOLE
    found = [Evidence(canaries) for _ in lengths]
    for each, arrays in zip(rounds, models(plan, rounds), strict=True):
        model.load(arrays)
        parts = np.concatenate(
            [_each(task, plan.upload_layout, model.module, data[k], at, k in each.clients) for k, at in places.items()]
        )
        norms = np.linalg.norm(parts, axis=1)
        for evidence, longest in zip(found, lengths, strict=True):
            layout = plan.upload_layout
            total = sum(_summed(task, layout, model.module, data[k], every[k], longest) for k in each.clients)
            shortened = parts * (longest / np.maximum(norms, longest))[:, None]
            evidence.add(shortened, total - flat(each.total, plan.upload_layout))
    return max((evidence.weighed() for evidence in found), key=lambda weighed: weighed.likelihood)


def _each(task: _Task, layout: Layout, module: Any, data: Any, places: Indices, present: bool) -> Floats:
    """Gradients of some training examples downhill, not shortened, float64 [n, numbers]; zero for who is not there."""
    if not present:
        return np.zeros((len(places), numbers_of(layout)))
    found = task.each_gradient(module, data, places)
    return -np.concatenate([found[spec.name].reshape(len(places), -1) for spec in layout], axis=1)


def _summed(task: _Task, layout: Layout, module: Any, data: Any, examples: Indices, longest: float) -> Floats:
    """What a client that follows the protocol adds but for noise, float64 [numbers]."""
    total = np.zeros(numbers_of(layout))
    for at in range(0, len(examples), PART):
        found = task.clipped(module, data, examples[at : at + PART], longest)
        total -= flat(found, layout)
    return total
