import numpy as np
import pytest

from fedgraft.domains.ratings.biases import ITEM_SHRINKAGES, USER_SHRINKAGES, pool, tune_biases
from fedgraft.errors import InputError
from fedgraft.methods.data.shops import Shops


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"users": 1}, "Shops.users must be >= 2; got 1"),
        ({"items": 5}, r"Shops.items must be >= 20 \(categories\); got 5"),
        ({"categories": 0}, "Shops.categories must be >= 1; got 0"),
        ({"clients": 21}, r"Shops.clients must be 1\.\.20 \(categories\); for 21, say data.categories=21 .*; got 21"),
        ({"clients": 0}, "Shops.clients must be >= 1; got 0"),
        ({"links": -1}, "Shops.links must be >= 0; got -1"),
        ({"count": 10**7}, r"Shops.count must be 20\.\.1500000; got 10000000"),
        ({"circles": 0}, r"Shops.circles must be 1\.\.2000 \(users\); got 0"),
        ({"homophily": 1.5}, r"Shops.homophily must be in \[0, 1\]; got 1.5"),
        ({"own": -0.1}, r"Shops.own must be in \[0, 1\]; got -0.1"),
        ({"taste": -1.0}, "Shops.taste must be >= 0; got -1.0"),
        ({"noise": -1.0}, "Shops.noise must be >= 0; got -1.0"),
        ({"partition": "even"}, "Shops.partition must be one of"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Shops(**options)  # type: ignore[arg-type]


def test_sizes_are_what_was_asked_for() -> None:
    ratings = Shops().ratings(0)
    assert len(ratings.rating) == 40_000
    assert (ratings.users, ratings.items, ratings.categories) == (2000, 3000, 20)
    pairs = ratings.user * ratings.items + ratings.item
    assert len(np.unique(pairs)) == len(pairs)
    assert set(np.unique(ratings.rating)) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert ratings.rating.mean() == pytest.approx(4, abs=0.3)
    assert 12_000 < ratings.trust.shape[1] <= 16_000
    assert set(ratings.category) == set(range(20))


def test_smallest_shops() -> None:
    shards = Shops(users=8, items=4, categories=2, links=0, count=8, circles=1, clients=1).load(0)
    assert len(shards[0].rating) == 8


def test_few_users_and_items_get_most_ratings_and_tastes_overlap_shops() -> None:
    ratings = Shops().ratings(0)
    for ids, count in ((ratings.user, 2000), (ratings.item, 3000)):
        sorted_counts = np.sort(np.bincount(ids, minlength=count))[::-1]
        assert sorted_counts[: count // 5].sum() > 0.5 * len(ids)
    shards = Shops().load(0)
    visits = np.bincount(np.concatenate([shard.users for shard in shards]), minlength=2000)
    assert np.median(visits) >= 3


def test_biases_beat_the_mean_and_friends_know_more_than_biases() -> None:
    data = Shops()
    ratings, shards = data.ratings(1), data.load(1)
    rows = pool(shards)
    train = rows.split == 0
    mean = float(rows.rating[train].mean())
    flat = rows.rmse(np.full(len(rows.rating), mean))["test"]
    biases = tune_biases(rows, mean, USER_SHRINKAGES, ITEM_SHRINKAGES, sweeps=10)
    assert biases.scores["test"] < flat - 0.05

    # What a graph model can find: friends' mean residual in the category, over training ratings only.
    prediction = mean + biases.user_bias[rows.user] + biases.item_bias[rows.item]
    category = np.concatenate([shard.category for shard in shards])
    cell = (rows.user * data.categories + category)[train]
    shape = (data.users, data.categories)
    residual = np.bincount(cell, (rows.rating - prediction)[train], data.users * data.categories).reshape(shape)
    number = np.bincount(cell, minlength=data.users * data.categories).reshape(shape)
    source, target = ratings.trust
    friends_residual, friends_number = np.zeros(shape), np.zeros(shape)
    np.add.at(friends_residual, source, residual[target])
    np.add.at(friends_number, source, number[target])
    friends = friends_residual / (friends_number + 5)
    assert rows.rmse(prediction + friends[rows.user, category])["test"] < biases.scores["test"] - 0.005
