from pathlib import Path

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.baselines.bpr import Bpr, _Pairs
from fedgraft.methods.baselines.popularity import Popularity
from fedgraft.methods.data.catalogue import Catalogue
from fedgraft.methods.data.ml100k import ML100K


def test_it_learns_tastes() -> None:
    shards = Catalogue(users=200, items=100, count=4000, clients=3).load(1)
    assert Bpr(width=16).score(shards)["test"] > Popularity().score(shards)["test"] + 0.02


def test_what_it_begins_with_and_how_long_it_lasts_are_options() -> None:
    shards = Catalogue(users=40, items=40, count=400, clients=2).load(1)
    own = {"width": 4, "epochs": 2, "patience": 1, "batch_size": 64, "penalty": 0.1, "spread": 0.2, "seed": 3}
    score = Bpr(**own).score(shards)
    assert score == Bpr(**own).score(shards)
    for option, other in {"epochs": 1, "batch_size": 8, "penalty": 5.0, "spread": 2.0, "seed": 4}.items():
        assert Bpr(**{**own, option: other}).score(shards) != score, option


def test_other_items_are_never_taken_ones() -> None:
    user, item = np.repeat(np.arange(3), 4), np.array([0, 1, 2, 3, 1, 2, 3, 4, 0, 2, 3, 4])
    asked = np.repeat(np.arange(3), 50)
    drawn = _Pairs(user, item, items=5).others(asked, np.random.default_rng(0))
    assert drawn.tolist() == [4] * 50 + [0] * 50 + [1] * 50


@pytest.mark.parametrize(("name", "value", "allowed"), [("width", 0, ">= 1"), ("learning_rate", 0, "> 0")])
def test_errors_name_the_option(name: str, value: float, allowed: str) -> None:
    with pytest.raises(InputError, match=rf"Bpr\.{name} must be {allowed}; got {value}\."):
        Bpr(**{name: value})


@pytest.mark.data
@pytest.mark.slow
def test_movielens(data_root: Path) -> None:
    shards = ML100K(root=str(data_root / "ml-100k"), features="none").load(1)
    assert Bpr().score(shards)["test"] > 0.925
