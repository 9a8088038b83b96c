"""Logistic regression on columns of edges: columns tell, ends do not."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.baselines.edge_logistic import EdgeLogistic
from helpers.toy_edges import ToyEdges


def test_columns_tell_and_nothing_else_does() -> None:
    shards = ToyEdges(edges=600, clients=2).load(1)
    plain = [replace(shard, columns=shard.columns[:, :0]) for shard in shards]
    told = [replace(shard, columns=(shard.label + 0.1)[:, None].astype(np.float32)) for shard in shards]
    assert EdgeLogistic().score(told)["test"] == 1.0
    label = np.concatenate([shard.label[shard.rows("test")] for shard in shards])
    frequent = np.bincount(np.concatenate([shard.label[shard.rows("train")] for shard in shards])).argmax()
    assert EdgeLogistic().score(plain)["test"] == pytest.approx((label == frequent).mean())


def test_numbers_and_options_are_one_line() -> None:
    shards = ToyEdges(edges=200, clients=2).load(1)
    numbers = [replace(shard, classes=(), label=shard.label.astype(np.float64)) for shard in shards]
    with pytest.raises(InputError, match="baseline 'edge_logistic' is for classes; labels are numbers"):
        EdgeLogistic().score(numbers)
    with pytest.raises(InputError, match=r"EdgeLogistic\.strengths must be at least one number, each > 0"):
        EdgeLogistic(strengths=())
