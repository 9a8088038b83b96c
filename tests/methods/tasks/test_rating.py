"""The rating task: what is known of a rating before it is predicted, by hand and in general."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from fedgraft.contracts import Batch
from fedgraft.domains.ratings.features import NODE_WIDTH, PAIR_WIDTH, Known, node_features, pair_features
from fedgraft.domains.ratings.graph import RatingGraph, edge_width
from fedgraft.domains.ratings.shards import merge_shards
from fedgraft.errors import InputError
from fedgraft.methods.data.shops import Shops
from fedgraft.methods.models.gat import GAT
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.tasks.rating import Rating
from helpers.rating_shards import ENCODERS, HAND, lively, random_shard, shard_of


def hand_known() -> Known:
    """Mean 4; with two pseudo-ratings, user 0 is half a star above it and user 1 below; items make no difference."""
    known = Known(HAND, np.arange(5), user_bias_shrinkage=2.0, item_bias_shrinkage=1.0)
    mean, users, items = known.biases
    assert mean == 4
    assert users.tolist() == [0.5, -0.5, 0]
    assert items.tolist() == [0, 0, 0]
    return known


def test_features_of_a_pair_by_hand():
    # User 2 trusts user 0, who gave item 0 five stars, and is trusted by user 1, who gave it three.
    found = pair_features(hand_known(), np.array([2]), np.array([0]), np.array([0]))
    assert found.shape == (1, PAIR_WIDTH)
    residuals = [0.5, 0.5, -0.5, -0.5, 0.0]
    overall = np.mean(np.square(residuals))
    expected = [
        0,  # user 2's bias
        0,  # item 0's bias
        0,  # what user 2 thinks of category 0 beyond biases
        0.5 * np.log(2),  # one rating there
        0,  # the category: 0.5, -0.5 and 0
        0.25 * np.log(4) - 2,  # three ratings: items 0, 0 and 2
        0.5 * np.log(2) - 1.5,  # user 2 has one rating
        0.7 * np.log(3) - 0.7,  # item 0 has two
        3 * (math.sqrt((0 + 5 * overall) / (1 + 5)) - math.sqrt(overall)),
        3 * (math.sqrt((0.5 + 3 * overall) / (2 + 3)) - math.sqrt(overall)),
        5 * 0.5 / (1 + 5),  # the bias of user 0, whom user 2 trusts
        5 * -0.5 / (1 + 5),  # the bias of user 1, who trusts user 2
        0.4 * np.log(2) - 1,
        0.4 * np.log(2) - 1,
        2 * (5 - 4 - 0.5) / (1 + 1),  # user 0 gave this very item five stars, half of it habit
        np.log(2),
        2 * (3 - 4 + 0.5) / (1 + 1),  # user 1 gave it three, half of it habit
        np.log(2),
        0,  # raters of item 0: biases 0.5 and -0.5
        0,  # items of user 2
        3 * ((0 + 5 * 0.4) / (1 + 5) - 0.4),  # two of five ratings are top, none of user 2's
        3 * ((1 + 3 * 0.4) / (2 + 3) - 0.4),  # one of item 0's two
        0,  # nobody gave two stars or less
        0,
        0,  # the client's mean is 4, the usual one
        0,
        0,
    ]
    np.testing.assert_allclose(found[0], expected, atol=1e-6)


def test_features_of_nodes_by_hand():
    found = node_features(hand_known())
    assert found.shape == (6, NODE_WIDTH)
    overall = 0.2
    spread = 3 * (math.sqrt((0.5 + 5 * overall) / (2 + 5)) - math.sqrt(overall))
    best = 3 * ((2 + 5 * 0.4) / (2 + 5) - 0.4)
    np.testing.assert_allclose(
        found[0], [1, 0, 0.4 * np.log(2) - 1, 0.5 * np.log(3) - 1, 1, spread, best, 0, 0], atol=1e-6
    )
    assert found[3:, :2].tolist() == [[0, 1]] * 3


def test_the_graph_by_hand():
    view = RatingGraph(HAND, walk=1).view(hand_known())
    edges = dict(zip(zip(view.graph.rows.tolist(), view.graph.columns.tolist(), strict=True), range(14), strict=True))
    assert len(edges) == 14  # five ratings and two trust links, both ways
    # Item 0 is node 3. User 0 has edges of weight 5, 5 and 1, item 0 of weight 5 and 3.
    rating = view.edges[edges[0, 3]].tolist()
    assert rating == pytest.approx([2 * math.sqrt(5 / 11), 2 * math.sqrt(5 / 8), 0.5, 0])
    assert view.norm[edges[0, 3]] == pytest.approx(1 / math.sqrt(3 * 2))
    trust = view.edges[edges[2, 0]].tolist()  # user 2 has 4 + 1 + 1
    assert trust == pytest.approx([2 * math.sqrt(1 / 6), 2 * math.sqrt(1 / 11), 0, 1])


def test_a_rating_that_is_not_known_is_absent_from_the_graph_in_every_sense():
    graph = RatingGraph(HAND, walk=2)
    view = graph.view(Known(HAND, np.array([1, 2, 3, 4])))
    rows, columns = view.graph.rows, view.graph.columns
    gone = ((rows == 0) & (columns == 3)) | ((rows == 3) & (columns == 0))
    assert gone.sum() == 2
    assert view.norm[gone].tolist() == [0, 0]
    assert view.edges[gone].abs().sum() == 0
    assert (view.norm[~gone] > 0).all()
    assert view.norm[(rows == 3) & (columns == 1)] == pytest.approx(1 / math.sqrt(1 * 3)), "item 0 lost a neighbour"


@pytest.mark.parametrize("scale", [(0.0, 1.0), (-2.0, 2.0), (0.0, 10.0), (1.0, 100.0)])
def test_features_mean_the_same_on_every_scale(scale):
    low, high = scale
    stretched = low + (HAND.rating - 1) / 4 * (high - low)
    shard = dataclasses.replace(HAND, rating=stretched.astype(np.float32), scale=scale)
    here, there = (Known(each, np.arange(5)) for each in (HAND, shard))
    pairs = np.arange(3), np.array([1, 2, 0]), np.array([1, 0, 0])
    np.testing.assert_allclose(pair_features(there, *pairs), pair_features(here, *pairs), atol=1e-4)
    np.testing.assert_allclose(node_features(there), node_features(here), atol=1e-4)
    ours, theirs = RatingGraph(HAND, 2).view(here), RatingGraph(shard, 2).view(there)
    np.testing.assert_allclose(theirs.edges[:, :4], ours.edges[:, :4], atol=1e-4)
    assert torch.equal(ours.norm, theirs.norm)


@pytest.mark.parametrize("name", ENCODERS)
def test_training_starts_from_the_biases_exactly(name):
    task, shard = Rating(ENCODERS[name], folds=3), random_shard(0)
    data, model = task.prepare(shard, {}), task.model(torch.Generator().manual_seed(0))
    for pairs in [*data.folds, *data.held_out.values()]:
        assert torch.equal(model(pairs), pairs.base)


@pytest.mark.parametrize("name", ENCODERS)
def test_the_loss_is_the_same_with_and_without_embeddings_computed_before(name):
    task = Rating(ENCODERS[name], folds=3)
    data, model = task.prepare(random_shard(0), {}), lively(task)
    for block in task.blocks(data):
        draw = Batch(block[:2])
        encoded = task.encode(model, data, block)
        assert torch.equal(task.loss(model, data, draw, encoded), task.loss(model, data, draw, None))


def test_the_loss_of_an_example_is_its_squared_error():
    task, shard = Rating(ENCODERS["gcn"], folds=3), random_shard(0)
    data, model = task.prepare(shard, {}), lively(task)
    block = task.blocks(data)[1]
    example = block[1]
    prediction = float(model(data.folds[1]).detach()[data.place[example]])
    truth = float(shard.rating[shard.rows("train")[example]])
    loss = task.loss(model, data, Batch(np.array([example])), None)
    assert loss.tolist() == pytest.approx([(prediction - truth) ** 2])


def test_scores_are_of_predictions_clipped_to_the_scale():
    task, shard = Rating(ENCODERS["gcn"], folds=3), random_shard(0)
    data, model = task.prepare(shard, {}), task.model(torch.Generator())
    with torch.no_grad():
        model.out.bias += 100
        sums = task.evaluate(model, data)
    truth = shard.rating[shard.rows("test")].astype(np.float64)
    assert sums["test"] == {"squared_error": pytest.approx(np.square(5 - truth).sum()), "count": len(truth)}


def test_sums_of_clients_add_up_to_the_score_of_all():
    task, shards = Rating(ENCODERS["gcn"], folds=3), [random_shard(0), random_shard(1, users=12)]
    model, errors, total = lively(task), [], {"squared_error": 0.0, "count": 0.0}
    for shard in shards:
        data = task.prepare(shard, {})
        with torch.no_grad():
            sums = task.evaluate(model, data)["validation"]
            pairs = data.held_out["validation"]
            errors.append((model(pairs).clamp(1, 5) - pairs.rating).double())
        total = {name: total[name] + sums[name] for name in total}
    assert task.score(total) == pytest.approx(float((torch.cat(errors) ** 2).mean().sqrt()))
    assert math.isnan(task.score({"squared_error": 0.0, "count": 0.0}))


def test_describes_shares_of_labels():
    task = Rating(ENCODERS["gcn"])
    assert task.describe(task.prepare(HAND, {})) == {
        "label_0": 0.0,
        "label_1": 0.0,
        "label_2": 0.4,
        "label_3": 0.2,
        "label_4": 0.4,
    }


UNUSUAL = {
    "one rating": shard_of([(0, 0, 4, 0)], 1, 1),
    "one training rating and a test rating": shard_of([(0, 0, 4, 0), (1, 0, 2, 2)], 2, 1),
    "no training rating": shard_of([(0, 0, 4, 1), (1, 0, 2, 2)], 2, 1),
    "no trust links": random_shard(0, links=0),
    "no held-out ratings": dataclasses.replace(random_shard(0), split=np.zeros_like(random_shard(0).split)),
    "a user without training ratings": shard_of([(0, 0, 4, 0), (0, 1, 3, 0), (1, 0, 2, 2)], 2, 2, [(0, 1), (1, 0)]),
    "fewer ratings than folds": shard_of([(0, 0, 4, 0), (0, 1, 3, 0), (1, 0, 2, 0)], 2, 2),
    "all ratings equal": shard_of([(u, i, 3, 0) for u in range(3) for i in range(3)], 3, 3),
    "a scale that starts at zero": shard_of(
        [(u, i, (u + i) % 2, i % 3) for u in range(4) for i in range(4)], 4, 4, (), (0, 1)
    ),
}


@pytest.mark.parametrize("shrinkage", [0.0, 2.0])
@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_clients_train_and_score_with_finite_numbers(case, name, shrinkage):
    task = Rating(ENCODERS[name], folds=10, user_shrinkage=shrinkage, item_shrinkage=shrinkage)
    shard, model = UNUSUAL[case], lively(Rating(ENCODERS[name]))
    data = task.prepare(shard, {})
    assert task.examples(data) == (shard.split == 0).sum()
    assert sorted(np.concatenate([[], *task.blocks(data)]).tolist()) == list(range(task.examples(data)))
    assert all(math.isfinite(share) for share in task.describe(data).values())
    for block in task.blocks(data):
        task.loss(model, data, Batch(block), task.encode(model, data, block)).mean().backward()
        assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    with torch.no_grad():
        sums = task.evaluate(model, data)
    assert sums["test"]["count"] == (shard.split == 2).sum()
    assert all(math.isfinite(value) for split in sums.values() for value in split.values())
    answer = task.predict(model, shard, {}, {"user": shard.user_ids[:1], "item": shard.item_ids[:1]})
    low, high = shard.scale
    assert low <= answer["rating"][0] <= high


def test_where_no_rating_is_known_the_middle_of_the_scale_is_the_start():
    data = Rating(ENCODERS["gcn"]).prepare(UNUSUAL["one rating"], {})
    assert data.folds[0].base.tolist() == [3]


def test_attention_keeps_gradients_finite_where_a_node_has_lost_all_its_edges():
    task = Rating(GAT())
    data, model = task.prepare(UNUSUAL["fewer ratings than folds"], {}), lively(task)
    for block in task.blocks(data):
        (1e6 * task.loss(model, data, Batch(block), None)).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_shards_are_pooled_into_one_client_with_everybodys_ratings():
    shards = [dataclasses.replace(HAND, name="a"), dataclasses.replace(HAND, name="b", items=np.array([2, 5, 9]))]
    merged = Rating(GCN()).pooled(shards)
    assert merged.items.tolist() == [0, 1, 2, 5, 9]
    assert len(merged.rating) == 10
    assert merged.item[5:].tolist() == [2, 3, 2, 3, 4]
    assert merged.trust.T.tolist() == [[1, 2], [2, 0]], "a link that both know is one"


def test_merging_keeps_every_rating_with_its_split():
    shards = Shops(users=60, items=80, categories=4, links=200, count=600, clients=3).load(1)
    merged = merge_shards(shards)

    def rows(shard):
        values = shard.user_ids[shard.user], shard.item_ids[shard.item], shard.rating, shard.split, shard.category
        return list(zip(*(value.tolist() for value in values), strict=True))

    assert sorted(rows(merged)) == sorted(row for shard in shards for row in rows(shard))


@pytest.mark.parametrize("name", ENCODERS)
def test_the_default_model_is_small(name):
    encoder = {"gcn": GCN(), "gat": GAT()}[name]
    model = Rating(encoder).model(torch.Generator())
    assert sum(parameter.numel() for parameter in model.parameters()) <= 16_000
    assert edge_width(2) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "Rating.folds must be >= 2; got 1"),
        ({"hidden": 0}, "Rating.hidden must be >= 1; got 0"),
        ({"walk": 0}, "Rating.walk must be >= 1; got 0"),
        ({"user_shrinkage": -1.0}, "Rating.user_shrinkage must be >= 0; got -1.0"),
        ({"item_shrinkage": -1.0}, "Rating.item_shrinkage must be >= 0; got -1.0"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        Rating(GCN(), **options)
