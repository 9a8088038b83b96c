"""Wrong training labels: counts by hand, and what stays right."""

import numpy as np
import pytest

from fedgraft.domains.nodes.base.shards import cut
from fedgraft.methods.data.pyg_nodes import with_wrong_labels
from helpers.toy_nodes import same, whole

NODES, CLIENTS = 200, 10
SPLIT = [node % 4 % 3 for node in range(NODES)]  # half of each client's train, a quarter each validates and tests


def shards():
    graph = whole(label=[node % 3 for node in range(NODES)], split=SPLIT, classes=3)
    return cut(graph, np.arange(NODES) * CLIENTS // NODES, [f"client {k}" for k in range(CLIENTS)])


def test_three_of_ten_clients_have_two_fifths_of_their_training_labels_wrong():
    before, after = shards(), with_wrong_labels(shards(), 0.3, 0.4, seed=1)
    wrong = [one.label != other.label for one, other in zip(before, after, strict=True)]
    assert sorted(int(each.sum()) for each in wrong) == [0] * 7 + [4] * 3  # 0.4 of 10 training nodes
    assert all((shard.split[each] == 0).all() for shard, each in zip(after, wrong, strict=True))
    assert all(set(shard.label) <= {0, 1, 2} for shard in after)


def test_who_they_are_depends_on_the_seed_and_nobody_is_touched_for_none():
    same(with_wrong_labels(shards(), 0.3, 0.4, seed=1), with_wrong_labels(shards(), 0.3, 0.4, seed=1))
    with pytest.raises(AssertionError):
        same(with_wrong_labels(shards(), 0.3, 0.4, seed=1), with_wrong_labels(shards(), 0.3, 0.4, seed=2))
    same(with_wrong_labels(shards(), 0.0, 0.4, seed=1), shards())


def test_all_other_classes_are_drawn():
    after = with_wrong_labels(shards(), 1.0, 1.0, seed=1)
    found = {
        (int(one), int(other))
        for a, b in zip(shards(), after, strict=True)
        for one, other in zip(a.label, b.label, strict=True)
        if one != other
    }
    assert found == {(one, other) for one in range(3) for other in range(3) if one != other}
