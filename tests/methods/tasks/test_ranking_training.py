"""The ranker learns: tastes, what features tell of new items, and real films."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fedgraft.contracts import Batch
from fedgraft.engine.training import Optimizer, Training
from fedgraft.methods.baselines.popularity import Popularity
from fedgraft.methods.data.catalogue import Catalogue
from fedgraft.methods.data.ml100k import ML100K
from fedgraft.methods.tasks.ranking import Ranking
from fedgraft.nn.flat_model import FlatModel
from helpers.ranking_shards import ranking_shard
from helpers.stages import staged


def trained(shard, epochs, batch=512, rate=0.02, decay=0.1, **options):
    """The task, the data and a model that was trained at one place; a small one by default."""
    task = Ranking(**staged("ranking", {"width": 16, "hidden": 16, "loss.negatives": 64, **options})).fitted([shard])
    data = task.prepare(shard, {})
    flat = FlatModel(task.model(torch.Generator().manual_seed(1)))
    optimizer = Optimizer(Training(optimizer="adamw", learning_rate=rate, second_moment=0.99, weight_decay=decay), flat)
    optimizer.reset(rate)
    g = np.random.default_rng(1)
    flat.module.train()
    for _ in range(epochs):
        order = g.permutation(task.examples(data))
        for rows in np.split(order, range(batch, len(order), batch)):
            flat.gradient.zero_()
            task.loss(flat.module, data, Batch(rows, seed=int(g.integers(2**31))), None).mean().backward()
            optimizer.step()
    return task, data, flat.module.eval()


def scored(task, data, model):
    with torch.no_grad():
        return task.measures(task.evaluate(model, data)["test"])


@pytest.fixture(scope="module")
def made():
    return Catalogue(users=200, items=100, count=5000, clients=1).load(1)[0]


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"loss.name": "margin", "tied": False}, marks=pytest.mark.slow)],
    ids=["softmax", "margin"],
)
def test_it_learns_tastes_and_knows_nothing_at_the_start(made, options):
    task, data, model = trained(made, 0, **options)
    assert scored(task, data, model)["auc"] == pytest.approx(0.5, abs=0.03)
    popular = Popularity().score([made])["test"]
    assert scored(*trained(made, 10, **options))["auc"] > popular + 0.02


def test_features_tell_of_items_that_nobody_has_taken():
    made = Catalogue(users=200, items=100, count=5000, clients=1, noise=0.1).load(1)[0]
    new = np.arange(100) % 4 == 0
    split = np.where(new[made.item], 2, 0).astype(np.int8)
    rows = list(zip(made.user, made.item, split, strict=True))
    found = {}
    for name, features in {"with": made.features, "without": {}}.items():
        shard = ranking_shard(rows, 200, 100, features=features)
        task, data, model = trained(shard, 10, tied=False)
        scores = task._scores(model, data, np.arange(200))[:, new]
        taken = np.zeros((200, 100), bool)
        taken[made.user, made.item] = True
        above = [
            (row[its][:, None] > row[~its]).mean()
            for row, its in zip(scores, taken[:, new], strict=True)
            if 0 < its.sum() < its.size
        ]
        found[name] = float(np.mean(above))
    assert found["without"] < 0.56
    assert found["with"] > found["without"] + 0.1


def test_answers_are_the_best_items_that_a_user_has_not(made):
    task, data, model = trained(made, 1)
    asked = task.questions([made], {"users": pd.DataFrame({"user": made.user_ids[[4, 2, 4]], "k": [3, 5, 1]})})[0]
    found = task.predict(model, made, {}, asked.asked)
    assert asked.rows.tolist() == [0] * 3 + [1] * 5 + [2]
    assert found["rank"].tolist() == [1, 2, 3, 1, 2, 3, 4, 5, 1]
    assert found["item"][0] == found["item"][-1]
    scores = task._scores(model, data, np.array([4]))[0]
    had = set(made.item[made.user == 4].tolist())
    best = [item for item in np.argsort(-scores, kind="stable") if item not in had][:3]
    assert found["item"][:3].tolist() == made.item_ids[best].tolist()
    assert found["score"][:3].tolist() == pytest.approx(scores[best].tolist())
    if len(made.titles):
        assert found["title"][:3].tolist() == made.titles[best].tolist()


@pytest.mark.data
@pytest.mark.slow
def test_movielens_beats_popularity_after_three_passes(data_root: Path):
    task = Ranking()
    shards = ML100K(root=str(data_root / "ml-100k")).load(1)
    pooled = task.pooled(shards)
    found = scored(
        *trained(pooled, 3, batch=1024, rate=0.007, decay=0.3, width=64, hidden=64, **{"loss.negatives": 128})
    )
    assert found["auc"] > 0.91
    assert found["ndcg_at_50"] > 0.27
