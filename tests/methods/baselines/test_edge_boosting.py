"""Boosted trees on edges: what came before an edge at its target tells, and one client has what one place has."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft.domains.labels.numbers import Numbers
from fedgraft.errors import InputError
from fedgraft.methods.baselines.edge_boosting import EdgeBoosting
from helpers.toy_edges import ToyEdges

QUICK = {"rates": (0.1,), "leaves": (7,), "trees": 20}


def test_whom_others_called_bad_is_called_so_again() -> None:
    shards = ToyEdges().load(1)
    label = np.concatenate([shard.label[shard.split == 2] for shard in shards])
    assert EdgeBoosting(**QUICK).score(shards)["test"] > max(label.mean(), 1 - label.mean()) + 0.05


def test_numbers_are_told_by_regression() -> None:
    """Of a number that a column has, but for noise, trees tell most; the mean tells nothing."""
    shards = [replace(each, label=50 + 9.0 * each.columns[:, 0], classes=()) for each in ToyEdges().load(1)]
    label = np.concatenate([shard.label[shard.split == 2] for shard in shards])
    assert EdgeBoosting(**QUICK).score(shards)["test"] < 0.5 * label.std(), "RMSE"
    better = EdgeBoosting(**QUICK).judged(shards, Numbers(judged="r2"))
    assert 0.7 < better["test"] < 1
    flat = [replace(each, label=np.full(len(each.label), 3.0)) for each in shards]
    assert EdgeBoosting(**QUICK).score(flat) == {"validation": 0, "test": 0}


@pytest.mark.parametrize("options", [{"rates": ()}, {"leaves": (1,)}, {"trees": 0}])
def test_what_does_not_fit_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=rf"EdgeBoosting\.{next(iter(options))}"):
        EdgeBoosting(**options)
