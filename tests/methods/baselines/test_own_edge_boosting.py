"""Boosted trees on edges at each client: it does not know what came before at a target elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.baselines.edge_boosting import EdgeBoosting
from fedgraft.methods.baselines.own_edge_boosting import OwnEdgeBoosting
from helpers.toy_edges import ToyEdges

QUICK = {"rates": (0.1,), "leaves": (7,), "trees": 20}


def test_one_client_has_what_one_place_has() -> None:
    shards = ToyEdges(clients=1).load(1)
    assert OwnEdgeBoosting(**QUICK).score(shards) == EdgeBoosting(**QUICK).score(shards)


def test_several_clients_have_less() -> None:
    shards = ToyEdges(nodes=80, edges=2000, clients=8).load(1)
    assert OwnEdgeBoosting(**QUICK).score(shards)["test"] < EdgeBoosting(**QUICK).score(shards)["test"]


def test_a_client_without_training_edges_says_how_frequent_classes_are() -> None:
    shards = ToyEdges().load(1)
    shards = [replace(each, split=np.where(each.split == 0, -1, each.split).astype(np.int8)) for each in shards[:1]]
    shards += ToyEdges().load(1)[1:]
    assert 0 < OwnEdgeBoosting(**QUICK).score(shards)["test"] < 1
    numbers = [replace(each, label=50 + 9.0 * each.columns[:, 0], classes=()) for each in shards]
    told, every = (OwnEdgeBoosting(**QUICK).score(part)["test"] for part in (numbers, numbers[1:]))
    assert every < told < 9.5, "the mean of all is worse than what trees tell, and no more than the spread off"


@pytest.mark.parametrize("options", [{"rates": ()}, {"leaves": (1,)}, {"trees": 0}])
def test_what_does_not_fit_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=rf"OwnEdgeBoosting\.{next(iter(options))}"):
        OwnEdgeBoosting(**options)
