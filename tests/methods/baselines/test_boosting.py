"""Boosted trees on aggregates: what edges carry tells, and what does not fit is refused."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from fedgraft.domains.edge_data.edge_rows import both_ways
from fedgraft.domains.labels.metric_classes import MetricClasses
from fedgraft.domains.nodes.base.shards import NodeShard, cut
from fedgraft.errors import InputError
from fedgraft.methods.baselines.boosting import Boosting
from helpers.toy_nodes import whole

NODES = 400


def banks(clients: int = 1) -> Sequence[NodeShard]:
    """Each fifth account got one transfer of a large amount among those of small ones; features tell nothing."""
    g = np.random.default_rng(0)
    label = np.arange(NODES) % 5 == 0
    target = np.tile(np.arange(NODES), 4)
    source = (target + g.integers(1, NODES, len(target))) % NODES
    amounts = g.uniform(1, 2, (len(target), 1)).astype(np.float32)
    amounts[:NODES][label] = 9
    pointers, senders, rows = both_ways(np.stack([source, target]), amounts, NODES, directed=True)
    split = np.random.default_rng(1).permutation(NODES) % 3
    graph = whole([(0, 1)], label.astype(int), split)
    features = g.normal(size=(NODES, 2)).astype(np.float32)
    graph = replace(graph, features=features, pointers=pointers, senders=senders, edge_rows=rows)
    return cut(graph, np.arange(NODES) // 7 % clients, [f"bank {k}" for k in range(clients)])


def test_the_largest_amount_tells() -> None:
    assert Boosting().score(banks()) == {"validation": 1.0, "test": 1.0}


def test_one_place_has_all_nodes_whatever_their_clients() -> None:
    quick = Boosting(rates=(0.1,), leaves=(7,), trees=20)
    assert quick.score(banks(3)) == pytest.approx(quick.score(banks()), abs=0.02)


def test_any_metric_chooses_the_trees() -> None:
    labels = MetricClasses(names=("normal", "fraud"), judged="average_precision", positive_class="fraud")
    assert Boosting(trees=20).judged(banks(3), labels) == pytest.approx({"validation": 1.0, "test": 1.0})


def test_one_class_in_training_is_what_is_said() -> None:
    (shard,) = banks()
    alone = replace(shard, split=np.where((shard.split == 0) & (shard.label == 1), -1, shard.split).astype(np.int8))
    assert Boosting().probabilities(alone).tolist() == [[1.0, 0.0]] * NODES


@pytest.mark.parametrize("options", [{"rates": ()}, {"rates": (0.0,)}, {"leaves": (1,)}, {"trees": 0}])
def test_what_does_not_fit_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=rf"Boosting\.{next(iter(options))}"):
        Boosting(**options)
