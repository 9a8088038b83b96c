"""Boosted trees at each client: it knows its edges to others, and not their labels."""

from dataclasses import replace

import numpy as np
import pytest
from test_boosting import banks

from fedgraft.errors import InputError
from fedgraft.methods.baselines.boosting import Boosting
from fedgraft.methods.baselines.own_boosting import OwnBoosting

QUICK = {"rates": (0.1,), "leaves": (7,), "trees": 20}


def test_each_client_knows_the_edges_of_its_nodes() -> None:
    assert OwnBoosting().score(banks(2)) == pytest.approx({"validation": 1.0, "test": 1.0}, abs=0.02)


def test_one_client_has_what_one_place_has() -> None:
    assert OwnBoosting(**QUICK).score(banks()) == Boosting(**QUICK).score(banks())


def test_a_client_without_training_nodes_says_how_frequent_classes_are() -> None:
    shards = list(banks(2))
    shards[0] = replace(shards[0], split=np.where(shards[0].split == 0, -1, shards[0].split).astype(np.int8))
    judged = shards[0].label[shards[0].split == 2] == 0
    others = [replace(shards[1], split=np.where(shards[1].split == 2, -1, shards[1].split).astype(np.int8))]
    found = OwnBoosting(**QUICK).score([shards[0], *others])
    assert found["test"] == pytest.approx(judged.mean()), "most accounts are normal"


@pytest.mark.parametrize("options", [{"rates": ()}, {"leaves": (1,)}, {"trees": 0}])
def test_what_does_not_fit_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=rf"OwnBoosting\.{next(iter(options))}"):
        OwnBoosting(**options)
