import logging
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.contracts.randomness import generator
from fedgraft.domains.ratings.dealing import make_shards
from fedgraft.domains.ratings.shards import (
    PARTITIONS,
    Ratings,
    category_bounds,
    drop_repeats,
    partition_by_category,
    split,
)
from fedgraft.errors import InputError


def table(rows: list[tuple[int, int, int, float]], trust: list[tuple[int, int]] = (), **more: object) -> Ratings:
    user, item, category, rating = (np.array(column) for column in zip(*rows, strict=True))
    return Ratings(
        user=user,
        item=item,
        category=category,
        rating=rating.astype(np.float32),
        trust=np.array(trust, np.int64).reshape(-1, 2).T,
        users=1 + max(int(user.max()), *(max(link) for link in trust), 0),
        items=int(item.max()) + 1,
        categories=int(category.max()) + 1,
        scale=(1.0, 5.0),
        **more,
    )


def spread(categories: int, each: int = 20) -> Ratings:
    """`each` ratings of every category by 30 users, no pair twice."""
    n = categories * each
    rows = np.arange(n)
    return table([(int(r % 30), int(r), int(r // each), 1.0 + r % 5) for r in rows], trust=[(0, 1), (1, 2), (5, 29)])


# --- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": np.array([0, 2])}, r"Ratings.user must be within 0\.\.1; got \(0, 2\)"),
        ({"item": np.array([0])}, "Ratings.item must be as long as the 2 ratings; got 1"),
        ({"category": np.array([-1, 0])}, r"Ratings.category must be within 0\.\.0"),
        ({"client": np.array([0])}, "Ratings.client must be as long as the 2 ratings; got 1"),
        ({"trust": np.array([[0], [2]])}, r"Ratings.trust must be within 0\.\.1; got \(0, 2\)"),
        ({"trust": np.zeros((3, 2), np.int64)}, r"Ratings.trust must be of shape \[2, m\]; got \(3, 2\)"),
        ({"scale": (5.0, 1.0)}, "Ratings.scale must be two numbers, the lower one first"),
        ({"scale": (2.0, 5.0)}, r"Ratings.rating must be within the scale 2\.\.5; got \(1.0, 4.0\)"),
        ({"rating": np.zeros(0, np.float32)}, "Ratings.rating must be at least one rating"),
    ],
)
def test_ratings_name_what_is_wrong(change: dict[str, object], message: str) -> None:
    good = table([(0, 0, 0, 1.0), (1, 1, 0, 4.0)])
    with pytest.raises(InputError, match=message):
        replace(good, **change)


# --- duplicates -----------------------------------------------------------------------------------------------------


def test_the_last_of_repeated_ratings_stands_whatever_its_category() -> None:
    found = drop_repeats(table([(0, 0, 0, 1.0), (1, 0, 0, 2.0), (0, 0, 1, 5.0)], trust=[(0, 0), (0, 1), (0, 1)]))
    assert found.rating.tolist() == [2.0, 5.0]
    assert found.category.tolist() == [0, 1]
    assert found.trust.tolist() == [[0], [1]]
    assert found.notes == (
        "1 repeated ratings of one item by one user left out; the last row stands.",
        "1 trust links of users to themselves left out.",
        "1 repeated trust links left out.",
    )
    assert drop_repeats(found).notes == found.notes


def test_a_pair_may_recur_at_another_client_that_the_data_name() -> None:
    rows = [(0, 0, 0, 1.0), (0, 0, 0, 2.0), (0, 0, 0, 3.0)]
    found = drop_repeats(table(rows, client=np.array([0, 1, 1])))
    assert found.rating.tolist() == [1.0, 3.0]
    assert found.client is not None
    assert found.client.tolist() == [0, 1]


# --- partition ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("categories", [27, 28])
@pytest.mark.parametrize(
    ("clients", "partition", "bounds"),
    [
        (10, "average", (2, 3)),
        (10, "skewed", (2, 4)),
        (10, "extreme", (1, 5)),
        (5, "average", (5, 6)),
        (5, "skewed", (4, 8)),
        (5, "extreme", (2, 10)),
        (20, "average", (1, 2)),
        (20, "skewed", (1, 3)),
        (20, "extreme", (1, 4)),
    ],
)
def test_bounds_for_ciao_and_epinions(categories: int, clients: int, partition: str, bounds: tuple[int, int]) -> None:
    assert category_bounds(categories, clients, partition) == bounds


@given(st.integers(1, 60), st.data(), st.sampled_from(PARTITIONS), st.integers(0, 10**6))
def test_every_category_goes_to_exactly_one_client_within_the_bounds(
    categories: int, data: st.DataObject, partition: str, seed: int
) -> None:
    clients = data.draw(st.integers(1, categories))
    ratings = spread(categories, each=1)
    dealt = partition_by_category(ratings, clients, partition, generator(seed, "partition"))
    assert len(dealt) == clients
    assert sorted(np.concatenate(dealt).tolist()) == list(range(categories))
    low, high = category_bounds(categories, clients, partition)
    assert all(low <= len(ids) <= high for ids in dealt)
    again = partition_by_category(ratings, clients, partition, generator(seed, "partition"))
    assert [ids.tolist() for ids in dealt] == [ids.tolist() for ids in again]


def test_extreme_spreads_wider_than_average() -> None:
    whole = spread(28, 1)
    sizes = {
        partition: np.std(
            [[len(ids) for ids in partition_by_category(whole, 10, partition, generator(s, "p"))] for s in range(20)]
        )
        for partition in PARTITIONS
    }
    assert sizes["average"] < sizes["skewed"] < sizes["extreme"]


def test_more_clients_than_categories() -> None:
    with pytest.raises(InputError, match=r"clients must be at most 3, the number of categories, .* got 4"):
        make_shards(spread(3), 4, "average", seed=0)


def test_unknown_partition_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"got 'averge'\. Did you mean 'average'\?"):
        make_shards(spread(3), 2, "averge", seed=0)


# --- split ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "counts"),
    [(1, [1, 0, 0]), (5, [5, 0, 0]), (6, [4, 1, 1]), (10, [8, 1, 1]), (25, [21, 2, 2]), (1000, [800, 100, 100])],
)
def test_split_is_eight_to_one_to_one(n: int, counts: list[int]) -> None:
    assert np.bincount(split(n, generator(0, "split")), minlength=3).tolist() == counts


@given(st.lists(st.integers(0, 8), min_size=1, max_size=80), st.integers(0, 10**6))
def test_every_group_keeps_a_training_rating(groups: list[int], seed: int) -> None:
    found = split(len(groups), generator(seed, "split"), (0.2, 0.4, 0.4), np.array(groups))
    assert set(np.array(groups)[found == 0]) == set(groups)


def test_split_of_nothing() -> None:
    with pytest.raises(InputError, match="an empty client cannot train"):
        split(0, generator(0, "split"))


def test_split_shares_must_sum_to_one() -> None:
    with pytest.raises(InputError, match="shares must be three numbers"):
        split(10, generator(0, "split"), (0.8, 0.1, 0.2))


# --- shards ---------------------------------------------------------------------------------------------------------


def test_worked_example_of_two_shops() -> None:
    rows = [(0, 4, 0, 1.0), (2, 3, 0, 2.0), (2, 1, 1, 3.0)] + [(1, 5 + k, 1, 4.0) for k in range(6)]
    ratings = table(rows, trust=[(0, 2), (2, 1), (0, 1)], category_names=("Books", "Music"))
    shards = sorted(make_shards(ratings, 2, "average", seed=3), key=lambda shard: shard.name)
    books, music = shards
    assert (books.name, music.name) == ("Books", "Music")
    assert books.users.tolist() == [0, 2]
    assert books.items.tolist() == [3, 4]
    assert books.user.tolist() == [0, 1]
    assert books.item.tolist() == [1, 0]
    assert books.trust.tolist() == [[0], [1]], "0 -> 2; user 1 does not occur among books"
    assert music.users.tolist() == [1, 2]
    assert music.trust.tolist() == [[1], [0]], "2 -> 1"
    assert books.split.tolist() == [0, 0]
    assert np.bincount(music.split).tolist() == [5, 1, 1]
    assert music.n_categories == 2
    assert set(music.category.tolist()) == {1}


def test_shards_are_the_ratings_again() -> None:
    ratings = spread(12)
    shards = make_shards(ratings, 5, "extreme", seed=1)
    seen = np.concatenate([np.stack([s.users[s.user], s.items[s.item], s.category, s.rating]) for s in shards], axis=1)
    whole = np.stack([ratings.user, ratings.item, ratings.category, ratings.rating])
    assert sorted(seen.T.tolist()) == sorted(whole.T.tolist())
    for shard in shards:
        rows = np.concatenate([shard.rows(name) for name in ("train", "validation", "test")])
        assert sorted(rows.tolist()) == list(range(len(shard.rating)))
        assert set(shard.category[shard.rows("train")]) == set(shard.category), "each category has a training rating"
        assert pickle.loads(pickle.dumps(shard)).split.tolist() == shard.split.tolist()


def test_equal_seeds_give_equal_shards_and_others_do_not() -> None:
    first, again, other = (make_shards(spread(12), 4, "average", seed) for seed in (1, 1, 2))
    assert [s.split.tolist() for s in first] == [s.split.tolist() for s in again]
    assert [s.split.tolist() for s in first] != [s.split.tolist() for s in other]


def test_given_clients() -> None:
    n = 20
    ratings = replace(spread(1, n), client=np.arange(n) % 2, client_names=("north", "south"))
    north, south = make_shards(ratings, None, "given", seed=0)
    assert (north.name, south.name) == ("north", "south")
    assert north.users[north.user].tolist() == list(range(0, 20, 2))
    assert len(south.rating) == 10
    with pytest.raises(InputError, match=r"clients must be 2, as many as the data name; got 3"):
        make_shards(ratings, 3, "given", seed=0)
    with pytest.raises(InputError, match="Client 'west' is empty"):
        make_shards(replace(ratings, client_names=("north", "south", "west")), None, "given", seed=0)
    with pytest.raises(InputError, match="partition='given' needs data that name each rating's client"):
        make_shards(spread(2), None, "given", seed=0)


def test_too_few_ratings_to_hold_any_out() -> None:
    with pytest.raises(InputError, match=r"No client has a validation rating: .* the largest has 5"):
        make_shards(spread(1, 5), 1, "average", seed=0)


def test_notes_are_told(caplog: pytest.LogCaptureFixture) -> None:
    ratings = replace(spread(2), notes=("Something was left out.",))
    with caplog.at_level(logging.WARNING, "fedgraft.data"):
        make_shards(ratings, 2, "average", seed=0)
    assert caplog.messages == ["Something was left out."]


def test_unknown_split_names_the_nearest() -> None:
    shard = make_shards(spread(2), 2, "average", seed=0)[0]
    with pytest.raises(InputError, match="Did you mean 'validation'"):
        shard.rows("valid")
