"""Own interactions are ranked with every recipe and any number of clients."""

import numpy as np
import pandas as pd
import pytest

from fedgraft.experiment.job import load
from fedgraft.experiment.recipes.discovery import find
from fedgraft.experiment.running.runner import execute

RECIPES = ("graft_ranking", "reputation_ucb")
QUICK = {"runtime.workers": 0, "baselines": ["popularity"]}


def clicks(users=60, items=60, tastes=4):
    """Clicks of users who take most of what is of their taste, by the hand of a seed."""
    g = np.random.default_rng(3)
    odds = g.gumbel(size=(users, items)) + 3.0 * (np.arange(users)[:, None] % tastes == np.arange(items) % tastes)
    user, place = np.nonzero(np.argsort(np.argsort(-odds, axis=1), axis=1) < 8)
    return pd.DataFrame({"user": user, "item": place, "client": np.char.add("shop ", (user // 4 % 3).astype(str))})


def experiment(recipe, **changes):
    data = {"data.name": "interactions", "data.interactions": clicks()}
    return load(recipe, {**data, **QUICK, **{key.replace("__", "."): value for key, value in changes.items()}})


@pytest.mark.parametrize("clients", [1, 3, 10])
@pytest.mark.parametrize("recipe", RECIPES)
def test_any_number_of_clients(recipe, clients):
    summary = execute(experiment(recipe, data__clients=clients, rounds=2))
    assert summary["clients"] == clients
    assert summary["rounds"] == 2


def test_ours_is_above_popularity_and_each_client_alone_where_users_have_tastes():
    summary = execute(experiment("graft_ranking"))
    assert list(summary["test_per_client"]) == ["shop 0", "shop 1", "shop 2"], "a column says who holds what"
    score = summary["test_at_best_validation"]
    assert score > summary["baselines"]["popularity"] + 0.1
    assert score > summary["client_alone"]["test"]


def test_clients_scores_are_those_of_the_kept_model():
    told = experiment("graft_ranking", rounds=3)
    summary, task = execute(told), find("tasks", "ranking")
    users = {shard.name: int((shard.lists("test").counts > 0).sum()) for shard in told.shards()}
    parts = [(users[name], score) for name, score in summary["test_per_client"].items() if users[name]]
    mean = sum(count * score for count, score in parts) / sum(count for count, _ in parts)
    assert task.metric == summary["metric"]
    assert mean == pytest.approx(summary["test_at_best_validation"])


@pytest.mark.data
@pytest.mark.slow
def test_movielens_by_three_clients(data_root):
    data = {"data.name": "ml100k", "data.root": str(data_root / "ml-100k"), "data.clients": 3, "data.features": "none"}
    summary = execute(load("graft_ranking", {**data, **QUICK, "rounds": 2, "training.epochs": 5}))
    assert summary["test_at_best_validation"] > summary["baselines"]["popularity"] + 0.03
