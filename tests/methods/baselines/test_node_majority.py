import numpy as np

from fedgraft.domains.nodes.base.shards import cut
from fedgraft.methods.baselines.node_majority import NodeMajority
from helpers.toy_nodes import whole

OWNER = np.array([0, 0, 0, 1, 1, 1])


def test_worked_example() -> None:
    graph = whole(label=[1, 0, 0, 1, 1, -1], split=[0, 1, 0, 0, 2, -1])
    # Classes 1, 0 and 1 train, two of them at different clients: all get 1, right on none of 1 and 1 of 1.
    assert NodeMajority().score(cut(graph, OWNER, ("a", "b"))) == {"validation": 0.0, "test": 1.0}


def test_of_equally_frequent_classes_the_first() -> None:
    graph = whole(label=[1, 0, 0, 1, 0, -1], split=[0, 0, 1, 1, 1, -1])
    found = NodeMajority().score(cut(graph, OWNER, ("a", "b")))
    assert found["validation"] == 2 / 3
    assert np.isnan(found["test"])
