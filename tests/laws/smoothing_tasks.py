"""Laws of tasks whose answers are bettered after training, over the edges between clients too."""

from typing import Any

import numpy as np
import torch

from fedgraft.contracts.abilities.smoothing import Means, SmoothingTask
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine import boundary_codec
from fedgraft.testing.laws import Laws, expect
from fedgraft.testing.tasks import TaskCase

LAWS: Laws[TaskCase] = Laws()


@LAWS.having(SmoothingTask)
def a_boundary_is_one_that_can_be_told(case: TaskCase) -> None:
    """Tell of edges to nodes that others have, as the server reads them."""
    if (task := _smoothing(case)) is None:
        return
    boundaries = [task.boundary(case.set_up(client)) for client in range(len(case.shards))]
    for client, boundary in enumerate(boundaries):
        again = boundary_codec.decode(boundary_codec.encode(boundary), client)
        for name in ("nodes", "counts", "owner", "place"):
            same = np.array_equal(getattr(again, name), getattr(boundary, name))
            expect(same, f"{name} of a boundary must come back", getattr(again, name), getattr(boundary, name))
        own = np.array([other.own for other in boundaries])
        expect((boundary.owner < len(boundaries)).all(), "owners must be clients", boundary.owner)
        expect((boundary.place < own[boundary.owner]).all(), "places must be nodes of the owner", boundary.place)


@LAWS.having(SmoothingTask)
def rows_lie_between_minus_one_and_one(case: TaskCase) -> None:
    """Tell one row per node of the boundary after every hop, float32 in [-1, 1]."""
    if (task := _smoothing(case)) is None:
        return
    data, answers = _answered(task, case)
    nodes = len(task.boundary(data).nodes)
    means: list[Means] = []
    for _ in range(task.hops):
        rows = task.told(data, answers, means)
        fit = rows.shape == (nodes, task.row_width) and rows.dtype == np.float32
        expect(fit, f"rows must be float32 {(nodes, task.row_width)}", rows.dtype, rows.shape)
        expect(np.abs(rows).max(initial=0) <= 1 + 1e-5, "rows must lie in [-1, 1]", np.abs(rows).max(initial=0))
        means.append(Means(rows, np.ones(nodes, bool)))


@LAWS.having(SmoothingTask)
def the_first_choice_scores_as_the_model_does(case: TaskCase) -> None:
    """Leave answers alone by the first choice, and tell of every choice how many examples it gains and loses."""
    if (task := _smoothing(case)) is None:
        return
    data, answers = _answered(task, case)
    layer = task.hop_layer([task.hop_sums(data, answers, [])])
    tallies = task.tallies(data, answers, [], layer)
    fit = tallies.shape == (task.choices, 2) and tallies.dtype == np.uint32
    expect(fit, f"tallies must be uint32 [{task.choices}, 2]", tallies.dtype, tallies.shape)
    expect(not tallies[0].any(), "the first choice gains and loses nothing beside itself", tallies[0])
    expect(not task.choice_text(0), "what leaves answers alone has no words", task.choice_text(0))
    with torch.no_grad():
        plain = case.task.evaluate(case.drawn(data), data)
    for split in SCORED_SPLITS:
        sums = task.evaluate_smoothed(data, answers, [], layer, 0)[split]
        expect(sums.keys() == set(case.task.sums), "sums must be those of `evaluate`", list(sums))
        expect(case.task.score(sums) == case.task.score(plain[split]), "the first choice must score alike", split)


@LAWS.having(SmoothingTask)
def what_is_fitted_has_the_shapes_that_are_told(case: TaskCase) -> None:
    """Tell sums over training examples, and make a layer of those of all clients, float32 of their layouts."""
    if (task := _smoothing(case)) is None:
        return
    data, answers = _answered(task, case)
    sums = task.hop_sums(data, answers, [])
    for arrays, layout in ((sums, task.sums_layout), (task.hop_layer([sums, sums]), task.layer_layout)):
        told = {name: (str(array.dtype), array.shape) for name, array in arrays.items()}
        expect(told == {spec.name: (spec.dtype, spec.shape) for spec in layout}, f"arrays must be {layout}", told)
        expect(all(np.isfinite(array).all() for array in arrays.values()), "numbers must be finite", arrays)


def _smoothing(case: TaskCase) -> SmoothingTask[Any, Any] | None:
    """Return the case's task if it smooths answers, else None."""
    task = case.task.ability(SmoothingTask)
    return task if task and task.hops else None


def _answered(task: SmoothingTask[Any, Any], case: TaskCase) -> tuple[Any, Any]:
    """A client's data, and what a model says."""
    data = case.set_up()
    with torch.no_grad():
        return data, task.answers(case.drawn(data), data)
