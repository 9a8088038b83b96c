import numpy as np

from fedgraft.methods.baselines.typed_majority import TypedMajority
from fedgraft.methods.baselines.typed_own_majority import TypedOwnMajority
from helpers.typed_graphs import typed_graph

EDGES = {("paper", "author"): [(0, 0), (1, 0), (2, 0)]}


def part(label, split):
    return typed_graph(EDGES, label=label, split=split)


def test_worked_example() -> None:
    shards = [part([1, 1, 0], [0, 2, 1]), part([0, 0, 0], [0, 0, 2])]
    # The first client says 1: wrong on its validation node, right on its test node. The second says 0, rightly. One
    # class for all would be 0.
    assert TypedOwnMajority().score(shards) == {"validation": 0.0, "test": 1.0}
    assert TypedMajority().score(shards) == {"validation": 1.0, "test": 0.5}


def test_a_client_without_training_nodes_says_what_all_say() -> None:
    shards = [part([1, 0, 1], [1, 2, 2]), part([1, 1, -1], [0, 0, -1])]
    assert TypedOwnMajority().score(shards) == {"validation": 1.0, "test": 0.5}


def test_of_equally_frequent_classes_the_first_and_nan_of_nothing() -> None:
    found = TypedOwnMajority().score([part([1, 0, 0], [0, 0, 2])])
    assert found["test"] == 1.0
    assert np.isnan(found["validation"])
