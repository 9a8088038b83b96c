import numpy as np

from fedgraft.domains.nodes.base.shards import cut
from fedgraft.methods.baselines.node_majority import NodeMajority
from fedgraft.methods.baselines.own_majority import OwnMajority
from helpers.toy_nodes import whole

OWNER = np.array([0, 0, 0, 1, 1, 1])


def scores(label, split, baseline=None):
    return (baseline or OwnMajority()).score(cut(whole(label=label, split=split), OWNER, ("a", "b")))


def test_worked_example() -> None:
    # The first client trains on class 1 and says 1: right on its test node. The second trains on 0 and says 0: wrong on
    # its validation node and right on its test node. One class for all would be 0, and right on one test node of two.
    label, split = [1, 1, -1, 0, 0, 1], [0, 2, -1, 0, 2, 1]
    assert scores(label, split) == {"validation": 0.0, "test": 1.0}
    assert scores(label, split, NodeMajority()) == {"validation": 0.0, "test": 0.5}


def test_a_client_without_training_nodes_says_what_all_say() -> None:
    # Only the second client trains, on two nodes of class 1: the first says 1, too.
    assert scores([1, 0, 1, 1, 1, -1], [1, 2, 2, 0, 0, -1]) == {"validation": 1.0, "test": 0.5}


def test_of_equally_frequent_classes_the_first_and_nan_of_nothing() -> None:
    found = scores([1, 0, 0, 1, 1, -1], [0, 0, 1, 0, 1, -1])
    assert found["validation"] == 1.0
    assert np.isnan(found["test"])
