import numpy as np

from fedgraft.methods.baselines.typed_majority import TypedMajority
from helpers.typed_graphs import typed_graph

EDGES = {("paper", "author"): [(0, 0), (1, 0), (2, 0)]}


def part(label, split):
    return typed_graph(EDGES, label=label, split=split)


def test_worked_example() -> None:
    shards = [part([1, 0, 0], [0, 1, 2]), part([1, 0, 1], [0, 0, 2])]
    # Classes 1, 1 and 0 train: all get 1, right on none of one and on one of two.
    assert TypedMajority().score(shards) == {"validation": 0.0, "test": 0.5}


def test_of_equally_frequent_classes_the_first_and_nan_of_nothing() -> None:
    found = TypedMajority().score([part([1, 0, 0], [0, 0, 2])])
    assert found["test"] == 1.0
    assert np.isnan(found["validation"])
