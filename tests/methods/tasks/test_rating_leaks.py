"""The rating task: no rating that is not for training is seen, and none sees itself."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.contracts import Batch
from fedgraft.domains.ratings.shards import RatingShard
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.tasks.rating import Rating, RatingData
from helpers.rating_shards import (
    ENCODERS,
    known_of,
    lively,
    predicted,
    random_shard,
    rerated,
    shard_of,
    trained,
    trained_on,
)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 5))])
def test_held_out_ratings_are_seen_by_nothing(name, seed):
    task, shard = Rating(ENCODERS[name], folds=4), random_shard(seed)
    other = rerated(shard, np.flatnonzero(shard.split != 0), seed)
    data, blind = task.prepare(shard, {}), task.prepare(other, {})
    assert trained_on(data) == trained_on(blind)
    model = lively(task)
    for split in ("validation", "test"):
        assert known_of(data.held_out[split]) == known_of(blind.held_out[split])
        assert predicted(model, data.held_out[split]) == predicted(model, blind.held_out[split])
    for block in task.blocks(data):
        losses = [task.loss(model, prepared, Batch(block), None).detach() for prepared in (data, blind)]
        assert torch.equal(*losses)
    assert trained(task, shard) == trained(task, other)


def test_held_out_ratings_are_seen_by_no_answer():
    task, shard = Rating(GCN()), random_shard(3)
    other = rerated(shard, np.flatnonzero(shard.split != 0))
    asked = {"user": np.array(["u0", "u1", "newcomer"]), "item": np.array(["i0", "i5", "i1"])}
    model = lively(task)
    answers = [task.predict(model, each, {}, asked) for each in (shard, other)]
    assert all((answers[0][name] == answers[1][name]).all() for name in answers[0])


def test_the_validation_score_does_not_depend_on_test_ratings():
    task, shard = Rating(GCN()), random_shard(1)
    other = rerated(shard, np.flatnonzero(shard.split == 2))
    model = lively(task)
    with torch.no_grad():
        sums = [task.evaluate(model, task.prepare(each, {})) for each in (shard, other)]
    assert sums[0]["validation"] == sums[1]["validation"]
    assert sums[0]["test"] != sums[1]["test"]


def check_blind_to_itself(task: Rating, shard: RatingShard, row: int) -> None:
    """Changing one training rating changes no bit of what it is predicted from, nor of its whole fold."""
    data, other = task.prepare(shard, {}), task.prepare(rerated(shard, [row]), {})
    assert data.fold.tolist() == other.fold.tolist(), "who is in which fold must not tell values"
    assert data.place.tolist() == other.place.tolist()
    example = int(np.flatnonzero(shard.rows("train") == row)[0])
    number = int(data.fold[example])
    assert known_of(data.folds[number]) == known_of(other.folds[number])
    model = lively(task)
    assert predicted(model, data.folds[number]) == predicted(model, other.folds[number])
    changed = np.flatnonzero(data.folds[number].rating.numpy() != other.folds[number].rating.numpy())
    assert changed.tolist() == [data.place[example]], "only its own label"
    for elsewhere in set(range(len(data.folds))) - {number}:
        assert known_of(data.folds[elsewhere]) != known_of(other.folds[elsewhere]), "others do learn from it"


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("walk", [1, 2, 3])
def test_a_training_rating_is_not_seen_by_its_own_prediction(name, walk):
    shard = random_shard(walk)
    for row in shard.rows("train")[::3]:
        check_blind_to_itself(Rating(ENCODERS[name], folds=3, walk=walk), shard, int(row))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    users=st.integers(1, 8),
    items=st.integers(1, 8),
    density=st.floats(0.05, 1.0),
    links=st.integers(0, 20),
    folds=st.integers(2, 12),
    walk=st.integers(1, 3),
)
def test_no_leak_in_any_shard(seed, users, items, density, links, folds, walk):
    shard = random_shard(seed, users, items, density, links)
    task = Rating(ENCODERS["gat"], folds=folds, walk=walk)
    check_blind_to_itself(task, shard, int(shard.rows("train")[0]))
    blind = rerated(shard, np.flatnonzero(shard.split != 0), seed)
    assert trained_on(task.prepare(shard, {})) == trained_on(task.prepare(blind, {}))


def test_a_training_rating_whose_users_and_items_all_touch_is_not_seen_through_them():
    # Everybody rates everything and trusts everybody: every order of influence there can be.
    users = items = 4
    rows = [(u, i, 1 + (u + 2 * i) % 5, 0) for u in range(users) for i in range(items)]
    trust = [(a, b) for a in range(users) for b in range(users) if a != b]
    shard = shard_of(rows, users, items, trust)
    for row in range(len(rows)):
        check_blind_to_itself(Rating(ENCODERS["gat"], folds=4), shard, row)


@pytest.mark.parametrize("share", ["users", "effects"])
@pytest.mark.parametrize("seed", range(4))
def test_what_users_do_elsewhere_holds_nothing_of_the_rating_that_is_predicted(seed, share):
    task = Rating(ENCODERS["gat"], folds=3, share=share)
    shards = [random_shard(seed + number) for number in range(3)]

    def prepared(own: RatingShard) -> RatingData:
        clients = [own, *shards[1:]]
        told = task.telling.combine({number: task.telling.statistics(shard) for number, shard in enumerate(clients)})
        return task.prepare(own, told[0])

    data, held_out = prepared(shards[0]), np.flatnonzero(shards[0].split != 0)
    assert trained_on(prepared(rerated(shards[0], held_out))) == trained_on(data)
    for row in shards[0].rows("train")[::4]:
        number = int(data.fold[np.flatnonzero(shards[0].rows("train") == row)[0]])
        other = prepared(rerated(shards[0], [row]))
        assert known_of(other.folds[number]) == known_of(data.folds[number])
    blind = [shards[0], *(rerated(shard, np.flatnonzero(shard.split != 0)) for shard in shards[1:])]
    told = [
        task.telling.combine({k: task.telling.statistics(own) for k, own in enumerate(each)})
        for each in (shards, blind)
    ]
    assert told[0][0]["codes"].tolist() == told[1][0]["codes"].tolist(), "held-out ratings are published by nobody"
