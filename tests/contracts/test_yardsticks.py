"""Laws of every yardstick: `fedgraft/methods/yardsticks/*.py`, found by file name; scored on small data of its task."""

import dataclasses
import inspect
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedgraft.contracts.providers import Yardstick
from fedgraft.experiment import discovery
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.data.molecules import Molecules
from fedgraft.methods.data.shops import Shops

NAMES = discovery.names("yardsticks")
RATING = [name for name in NAMES if discovery.find("yardsticks", name).task == "rating"]
GRAPH = [name for name in NAMES if discovery.find("yardsticks", name).task == "graph"]
NODE = [name for name in NAMES if discovery.find("yardsticks", name).task == "node"]
BLOCKS = Blocks(nodes=300, classes=3, clients=3, features=20)
MOLECULES = Molecules(clients=3, graphs=120)
SHOPS = Shops(users=150, items=150, categories=6, links=300, count=2500, clients=3)


@pytest.fixture(params=RATING)
def yardstick(request: pytest.FixtureRequest) -> Yardstick[Any]:
    return discovery.build("yardsticks", "yardstick", {"name": request.param})


@pytest.mark.parametrize("name", NAMES)
def test_is_a_frozen_dataclass_with_a_documented_class(name: str) -> None:
    cls = discovery.find("yardsticks", name)
    assert issubclass(cls, Yardstick)
    assert dataclasses.is_dataclass(cls)
    assert cls.__dataclass_params__.frozen
    assert isinstance(cls.task, str)
    text = inspect.getdoc(cls) or ""
    assert all(f"{field.name}:" in text for field in dataclasses.fields(cls)), "every option is explained"


def test_scores_are_finite_repeatable_and_no_better_than_the_noise(yardstick: Yardstick[Any]) -> None:
    shards = SHOPS.load(0)
    first, again = yardstick.score(shards), yardstick.score(shards)
    assert first == again
    assert set(first) == {"validation", "test"}
    assert all(SHOPS.noise * 0.8 < value < 2 for value in first.values())


def test_test_ratings_change_nothing_but_the_test_score(yardstick: Yardstick[Any]) -> None:
    shards = SHOPS.load(0)
    blind = [
        replace(shard, rating=np.where(shard.split == 2, np.float32(1), shard.rating).astype(np.float32))
        for shard in shards
    ]
    assert yardstick.score(blind)["validation"] == yardstick.score(shards)["validation"]


def test_no_yardstick_is_worse_than_the_global_mean(yardstick: Yardstick[Any]) -> None:
    shards = SHOPS.load(1)
    mean = discovery.build("yardsticks", "yardstick", {"name": "global_mean"}).score(shards)
    assert yardstick.score(shards)["test"] <= mean["test"]


@pytest.fixture(params=GRAPH)
def graph_yardstick(request: pytest.FixtureRequest) -> Yardstick[Any]:
    return discovery.build("yardsticks", "yardstick", {"name": request.param})


def test_accuracies_are_shares_and_repeatable(graph_yardstick: Yardstick[Any]) -> None:
    shards = MOLECULES.load(0)
    first, again = graph_yardstick.score(shards), graph_yardstick.score(shards)
    assert first == again
    assert set(first) == {"validation", "test"}
    assert all(0 <= value <= 1 for value in first.values())


def test_test_labels_change_nothing_but_the_test_score(graph_yardstick: Yardstick[Any]) -> None:
    shards = MOLECULES.load(0)
    blind = [replace(shard, label=np.where(shard.split == 2, 0, shard.label)) for shard in shards]
    assert graph_yardstick.score(blind)["validation"] == graph_yardstick.score(shards)["validation"]


def test_no_yardstick_for_graphs_is_worse_than_the_majority(graph_yardstick: Yardstick[Any]) -> None:
    shards = MOLECULES.load(1)
    majority = discovery.build("yardsticks", "yardstick", {"name": "majority"}).score(shards)
    assert graph_yardstick.score(shards)["test"] >= majority["test"]


@pytest.fixture(params=NODE)
def node_yardstick(request: pytest.FixtureRequest) -> Yardstick[Any]:
    return discovery.build("yardsticks", "yardstick", {"name": request.param})


def test_accuracies_over_nodes_are_shares_and_repeatable(node_yardstick: Yardstick[Any]) -> None:
    shards = BLOCKS.load(0)
    first, again = node_yardstick.score(shards), node_yardstick.score(shards)
    assert first == again
    assert set(first) == {"validation", "test"}
    assert all(0 <= value <= 1 for value in first.values())


def test_test_labels_of_nodes_change_nothing_but_the_test_score(node_yardstick: Yardstick[Any]) -> None:
    shards = BLOCKS.load(0)
    blind = [replace(shard, label=np.where(shard.split == 2, 0, shard.label)) for shard in shards]
    assert node_yardstick.score(blind)["validation"] == node_yardstick.score(shards)["validation"]


def test_nodes_in_no_split_are_not_scored(node_yardstick: Yardstick[Any]) -> None:
    shards = BLOCKS.load(0)
    untested = [
        replace(
            shard,
            label=np.where(shard.split == 2, -1, shard.label),
            split=np.where(shard.split == 2, -1, shard.split).astype(np.int8),
        )
        for shard in shards
    ]
    found = node_yardstick.score(untested)
    assert found["validation"] == node_yardstick.score(shards)["validation"]
    assert np.isnan(found["test"])


def test_no_yardstick_for_nodes_is_worse_than_the_majority(node_yardstick: Yardstick[Any]) -> None:
    shards = BLOCKS.load(1)
    majority = discovery.build("yardsticks", "yardstick", {"name": "node_majority"}).score(shards)
    assert node_yardstick.score(shards)["test"] >= majority["test"]
