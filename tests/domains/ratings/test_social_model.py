"""The model of tables: who has a row, what attention sees, what training minimises."""

import numpy as np
import pandas as pd
import pytest
import torch

from fedgraft.contracts import Batch
from fedgraft.domains.ratings.social_model import node_rows, pseudo_items
from fedgraft.errors import InputError
from fedgraft.methods.data.shops import Shops
from fedgraft.methods.tasks.rating import Rating
from helpers.rating_shards import ENCODERS, HAND, known_of, lively, random_shard, rerated, shard_of

SHARDS = Shops(users=60, items=80, categories=4, links=200, count=600, clients=3).load(1)


def tabled(relations: bool = False, **options) -> Rating:
    return Rating(ENCODERS["gat"], embeddings=True, relations=relations, folds=3, **options)


def test_rows_are_by_the_ids_that_all_clients_agree_on():
    task = tabled().fitted(SHARDS)
    assert (task.users, task.items) == tuple(
        max(int(ids.max()) for ids in each) + 1 for each in zip(*((s.users, s.items) for s in SHARDS), strict=True)
    )
    shard = SHARDS[1]
    view = task.prepare(shard, {}).held_out["test"].view
    assert view.nodes.tolist() == [*shard.users, *(shard.items + task.users)]
    assert task.fitted(SHARDS) == task
    with pytest.raises(InputError, match=r"task\.users must be \d+, as many as ids; got 5\."):
        tabled(users=5).fitted(SHARDS)


def test_who_is_in_no_table_has_the_row_zero():
    model = tabled(users=2, items=9).model(torch.Generator().manual_seed(0))
    rows, users = model.embeddings(node_rows(HAND, 2, 9, (3, 2)))
    assert users == 3, "users come first, also those without a row"
    assert rows[[2, 5]].abs().max() == 0, "user 2 is beyond the table, item 2 came later"
    torch.testing.assert_close(rows[[0, 1]], model.embeddings.users)
    torch.testing.assert_close(rows[[3, 4]], model.embeddings.items[:2])


def test_a_state_by_hand():
    # One user, who trusts another, rated items 0 and 1; equal scores make attention a mean.
    shard = shard_of([(0, 0, 5, 0), (0, 1, 3, 0), (1, 2, 4, 0)], 2, 3, trust=[(0, 1)])
    for relations in (False, True):
        task = tabled(relations=relations, width=2).fitted([shard])
        model = task.model(torch.Generator().manual_seed(0))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "receiver" in name or "sender" in name or "vectors" in name or "score" in name:
                    parameter.zero_()
                if "linear" in name:
                    parameter.copy_(torch.eye(2))
            nodes = model.encoder(task.prepare(shard, {}).held_out["test"].view)
        users, items = model.embeddings.users, model.embeddings.items
        liked = (items[0] + items[1]) / 2
        expected = (users[1] + liked + users[0]) / 3 if relations else users[0] + liked
        torch.testing.assert_close(nodes[0], expected)
        torch.testing.assert_close(nodes[4], items[2] if relations else items[2] + users[1])


@pytest.mark.parametrize("relations", [False, True])
def test_no_rating_sees_itself(relations):
    shard = random_shard(3)
    task = tabled(relations=relations).fitted([shard])
    data = task.prepare(shard, {})
    for number, fold in enumerate(data.folds):
        inside = shard.rows("train")[data.fold == number]
        after = task.prepare(rerated(shard, inside), {}).folds[number]
        assert known_of(after) == known_of(fold)


def test_pseudo_items_are_not_rated_and_stay_the_same():
    task = tabled(relations=True, pseudo=6).fitted(SHARDS)
    shard = SHARDS[0]
    one, other = (task.prepare(shard, {}).pseudo for _ in range(2))
    assert torch.equal(one, other)
    rows = shard.rows("train")
    rated = set(zip(shard.user[rows].tolist(), shard.items[shard.item[rows]].tolist(), strict=True))
    assert not rated & {(user, int(item)) for user, items in enumerate(one) for item in items}
    everything = shard_of([(0, item, 3, 0) for item in range(3)], 1, 3)
    assert pseudo_items(everything, np.arange(3), 3, 2, np.random.default_rng(0)).shape == (1, 2)


def test_pseudo_labels_are_the_nearest_grades_and_weigh_as_ratings():
    task = tabled(relations=True, pseudo=2).fitted(SHARDS)
    data, model = task.prepare(SHARDS[0], {}), lively(task)
    block = task.blocks(data)[0]
    with torch.no_grad():
        nodes, plain = task.encode(model, data, block), task.loss(model, data, Batch(block), None)
        trained = task.loss(model.train(), data, Batch(block), nodes)
    fold = data.folds[0]
    users = torch.unique(fold.user)
    told = (fold.base[0] + (nodes[users][:, None] * model.embeddings.items[data.pseudo[users]]).sum(2)).detach()
    wrong = (told - told.clamp(1, 5).round()) ** 2
    expected = (plain.sum() + wrong.sum()) / (len(plain) + wrong.numel())
    torch.testing.assert_close(trained.mean(), expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(task.loss(model.eval(), data, Batch(block), None), plain), "scores and probes see ratings alone"


def test_newcomers_are_told_the_mean_and_strangers_nothing():
    task = tabled().fitted(SHARDS)
    model, shard = lively(task), SHARDS[0]
    asked = {"user": np.array(["new"], object), "item": np.array(["new"], object)}
    mean = float(shard.rating[shard.rows("train")].astype(np.float64).mean())
    assert task.predict(model, shard, {"shared": {}}, asked)["rating"] == pytest.approx([mean], abs=1e-5)
    with pytest.raises(InputError, match="has rows for users and items of its run alone; --data fits none"):
        task.predict(model, shard, {}, asked)


def test_questions_go_to_the_shop_that_sells_the_item():
    task = tabled().fitted(SHARDS)
    pairs = pd.DataFrame({"user": SHARDS[2].user_ids[:1], "item": SHARDS[2].item_ids[:1]})
    assert set(task.questions(SHARDS, {"pairs": pairs})) == {2}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"share": "users"}, r"Rating\.share must be one of 'nothing'"),
        ({"width": 0}, r"Rating\.width must be >= 1; got 0\."),
        ({"ridge": -1.0}, r"Rating\.ridge must be >= 0; got -1\.0\."),
        ({"embeddings": False, "relations": True}, r"Rating\.relations must be false without embeddings; got True\."),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(InputError, match=text):
        Rating(**{"encoder": ENCODERS["gcn"], "embeddings": True, **options})
