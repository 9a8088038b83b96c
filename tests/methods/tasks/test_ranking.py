"""The task by hand: leave-one-out, draws, scores, errors."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgraft.contracts import Batch
from fedgraft.contracts.task import example_losses
from fedgraft.contracts.values import Losses
from fedgraft.domains.ranking.ranker import dependence
from fedgraft.errors import InputError
from fedgraft.methods.data.catalogue import Catalogue
from fedgraft.methods.tasks.ranking import Ranking
from helpers.ranking_shards import ranking_shard
from helpers.stages import staged

ROWS = [(0, 0, 0), (0, 1, 0), (0, 2, 0), (0, 3, 1), (1, 4, 0), (1, 0, 2), (2, 5, 1)]
TEXT = {"text": np.linspace(-1, 1, 12).reshape(6, 2)}
ALL = {"loss.negatives": 0, "loss.dropout": 0.0, "width": 4, "tied": False}
MARGIN = {"loss.name": "margin", "loss.margin": 1.0}


def shard(rows=ROWS, users=3, items=6, **given):
    return ranking_shard(rows, users, items, **given)


def prepared(shard, **options):
    task = Ranking(**staged("ranking", {**ALL, **options})).fitted([shard])
    return task, task.prepare(shard, {})


def model_of(task, seed=1):
    return task.model(torch.Generator().manual_seed(seed)).eval()


def losses(task, model, data, *examples, seed=0):
    return example_losses(task.loss(model, data, Batch(np.array(examples), seed=seed), None))


def linear(task, tables):
    """A model without modalities whose scores are easy: identity and history as given, one factor."""
    model = model_of(task)
    with torch.no_grad():
        for name, values in tables.items():
            getattr(model, name).copy_(torch.tensor(values))
    return model


def test_an_interaction_is_scored_without_itself():
    task, data = prepared(shard([(0, 0, 0), (0, 1, 0)], 1, 3), width=1, factors=1, power=1.0, **MARGIN)
    history = [[1.0], [3.0], [0.0]]
    model = linear(task, {"identity": [[10.0], [20.0], [50.0]], "history": history, "bias": [0.0, 0.0, 0.0]})
    # Item 0 is scored for the user of item 1 alone, 3 * 10, against item 2, 3 * 50; item 1 for 1: 1 * 20 against 50.
    assert losses(task, model, data, 0, 1).tolist() == pytest.approx([150 - 30 + 1, 50 - 20 + 1])


def test_a_user_of_one_interaction_is_ranked_by_biases():
    task, data = prepared(shard([(0, 0, 0)], 1, 3), **MARGIN)
    model = linear(task, {"bias": [1.0, 2.5, -9.0]})
    assert losses(task, model, data, 0).tolist() == pytest.approx([(2.5 - 1 + 1) / 2])


def test_drawn_items_are_never_those_that_the_user_has_in_training():
    task, data = prepared(shard(), **MARGIN)
    with torch.no_grad():
        model = linear(task, {"identity": np.zeros((6, 4)), "bias": [9.0, 9.0, 9.0, 0.0, 0.0, 0.0]})
        assert losses(task, model, data, 0, 1, 2).tolist() == [0, 0, 0]
        # User 1 has item 4 alone: items 0, 1, 2 lack 10, of which 0 is held out, which training does not know.
        assert losses(task, model, data, 3).tolist() == pytest.approx([(3 * 10 + 2 * 1) / 5])


def test_a_step_draws_from_its_seed():
    made = Catalogue(users=40, items=60, count=600, clients=1).load(1)
    task, data = prepared(made[0], **{"loss.negatives": 7})
    drawn = [task._drawn(seed) for seed in (1, 1, 2)]
    assert drawn[0].tolist() == drawn[1].tolist() != drawn[2].tolist()
    assert len(set(drawn[0].tolist())) == 7
    model, torch_before = model_of(task), torch.get_rng_state()
    one, other = (losses(task, model.train(), data, 0, 5, 9, seed=seed) for seed in (1, 2))
    assert not torch.equal(one, other)
    assert torch.equal(torch_before, torch.get_rng_state())


@pytest.mark.parametrize("few", [True, False])
def test_users_are_summed_alike_whether_few_or_all_of_them_take_part(few):
    made = Catalogue(users=300, items=200, count=8000, clients=1).load(1)[0]
    data = prepared(made)[1]
    users = np.array([3, 7, 50]) if few else np.arange(295)
    vectors = torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
    expected = torch.stack([vectors[data.item[data.user == user]].sum(0) for user in users])
    torch.testing.assert_close(data.sums(vectors, users), expected)
    drawn = np.array([5, 0, 17])
    expected = [[bool(((data.user == user) & (data.item == item)).any()) for item in drawn] for user in users]
    assert data.had(users, drawn).tolist() == expected


def test_attention_is_as_wide_as_asked_for():
    given = shard(features=TEXT)
    narrow, wide = (model_of(prepared(given, attention=width)[0]).state_dict() for width in (2, 5))
    differ = {name for name in narrow if narrow[name].shape != wide[name].shape}
    assert differ
    assert all(name.startswith("attention.") for name in differ)


def test_decorrelation_is_a_shared_term():
    task, data = prepared(shard(features=TEXT), decorrelation=0.5)
    model = model_of(task)
    found = task.loss(model, data, Batch(np.array([0, 1])), None)
    assert isinstance(found, Losses)
    plain = replace(task, decorrelation=0.0).loss(model, data, Batch(np.array([0, 1])), None)
    assert torch.equal(found.each, plain)
    expected = 0.5 * dependence(model.items(data.features, 0).channels)
    torch.testing.assert_close(found.shared, expected)


def test_scores_by_hand():
    task, data = prepared(shard(), k=1)
    model = linear(task, {"identity": np.zeros((6, 4)), "bias": [3.0, 0.0, 0.0, 1.0, 0.0, 2.0]})
    found = task.evaluate(model, data)
    # Validation: user 0 ranks 3, 4, 5, its item 3 is above one of two and not first; user 2 ranks all, its item 5 is
    # above four of five and second. Test: user 1 ranks all but 4, its item 0 first.
    assert found["validation"] == pytest.approx({"users": 2, "auc": 0.5 + 0.8, "ndcg": 0, "recall": 0})
    assert found["test"] == pytest.approx({"users": 1, "auc": 1, "ndcg": 1, "recall": 1})
    assert task.measures(found["validation"]) == pytest.approx({"auc": 0.65, "ndcg_at_1": 0, "recall_at_1": 0})
    assert task.score(found["validation"]) == pytest.approx(0.65)


def test_parts_of_the_users_score_as_all_at_once(monkeypatch):
    made = Catalogue(users=50, items=40, count=700, clients=1).load(1)[0]
    task, data = prepared(made)
    model = model_of(task)
    whole = task.evaluate(model, data)
    monkeypatch.setattr("fedgraft.methods.tasks.ranking.SCORED", 300)
    parts = task.evaluate(model, data)
    for split in whole:
        assert parts[split] == pytest.approx(whole[split])


def test_pooled_users_of_one_id_stay_two():
    task, _ = prepared(shard())
    pooled = task.pooled([shard(), shard(name="other")])
    assert pooled.users == 6
    assert task.examples(task.prepare(pooled, {})) == 8


def test_the_catalogue_and_its_features_must_be_those_of_the_model():
    with pytest.raises(InputError, match=r"Clients 'shop' and 'mall' must have one catalogue, in one order\."):
        Ranking().fitted([shard(), shard(items=7, name="mall")])
    with pytest.raises(InputError, match=r"RankingShard\('mall'\)\.features must be .*\{'text': 2\}; got \{\}\."):
        Ranking().fitted([shard(features=TEXT), shard(name="mall")])
    wide = {"text": np.zeros((6, 3))}
    with pytest.raises(InputError, match=r"of the model's modalities and widths, \{'text': 2\}; got \{'text': 3\}\."):
        Ranking().fitted([shard(features=TEXT)]).prepare(shard(features=wide), {})
    with pytest.raises(InputError, match=r"item_ids must be the 6 items of the model; got 7\."):
        Ranking().fitted([shard()]).prepare(shard(items=7), {})


def test_a_user_who_has_every_item_is_told():
    rows = [(0, 0, 0), (0, 1, 2), (1, 0, 0)]
    with pytest.raises(InputError, match=r"user 'u0' has every one of the 2 items; none is left to rank\."):
        Ranking().fitted([shard(rows, 2, 2)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 10, "factors": 4}, r"Ranking\.width must be >= 1 and a multiple of the 4 factors; got 10\."),
        ({"power": 2.0}, r"Ranking\.power must be in \[0, 1\]; got 2\.0\."),
        ({"factors": 1, "decorrelation": 0.1}, r"Ranking\.factors must be >= 2 where they are decorrelated; got 1\."),
        ({"k": 0}, r"Ranking\.k must be >= 1; got 0\."),
    ],
)
def test_errors_name_the_option(options, message):
    with pytest.raises(InputError, match=message):
        Ranking(**options)
