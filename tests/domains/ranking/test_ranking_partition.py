"""Portions by hand, users dealt whole, and the split."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft.domains.ranking.shards import (
    Interactions,
    deal_users,
    make_shards,
    merge_shards,
    portions,
    reached,
    split_rows,
)
from fedgraft.errors import InputError


def data(users: int = 60, items: int = 40, seed: int = 0) -> Interactions:
    """Users with 1 to 20 interactions each."""
    g = np.random.default_rng(seed)
    counts = g.integers(1, 21, users)
    item = np.concatenate([g.choice(items, count, replace=False) for count in counts])
    names = [np.array([f"{word}{k}" for k in range(count)]) for word, count in (("u", users), ("i", items))]
    return Interactions(np.repeat(np.arange(users), counts), item, *names)


def test_portions_by_hand() -> None:
    assert portions(3, "exponential", 0.25) == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert portions(3, "linear", 0.5) == pytest.approx([4 / 9, 3 / 9, 2 / 9])
    assert portions(4, "uniform", 0.1) == pytest.approx([1 / 4] * 4)
    assert portions(1, "exponential", 0.1).tolist() == [1.0]


@pytest.mark.parametrize("partition", ["exponential", "linear"])
@pytest.mark.parametrize("ubi", [0.0146, 0.1172, 1.0])
def test_portions_have_the_balance_that_is_asked_for(partition: str, ubi: float) -> None:
    shares = portions(8, partition, ubi)
    assert shares.sum() == pytest.approx(1)
    assert shares.min() / shares.max() == pytest.approx(ubi)
    assert (np.diff(shares) <= 1e-12).all(), "client 0 has most"


def test_users_stay_whole_and_sizes_meet_their_portions() -> None:
    counts = np.random.default_rng(0).integers(20, 400, 900)
    shares = portions(8, "exponential", 0.0146)
    for seed in range(5):
        client = deal_users(counts, shares, np.random.default_rng(seed))
        sizes = np.bincount(client, counts, 8)
        assert np.abs(sizes - np.floor(shares * counts.sum())).max() < 60
        assert sizes.min() / sizes.max() == pytest.approx(0.0146, rel=0.02)


@pytest.mark.parametrize("clients", [1, 2, 5])
def test_every_client_gets_a_user_however_few_there_are(clients: int) -> None:
    counts = np.array([1000, 3, 2, 1, 1])
    client = deal_users(counts, portions(clients, "exponential", 0.01), np.random.default_rng(1))
    assert set(client) == set(range(clients))


def test_one_user_closes_the_gap() -> None:
    # 12 interactions, 4 for client 1: whatever the order, whole users of 5, 4 and 3 come nearest as 4.
    for seed in range(6):
        client = deal_users(np.array([5, 4, 3]), np.array([2 / 3, 1 / 3]), np.random.default_rng(seed))
        assert int(np.array([5, 4, 3])[client == 1].sum()) in (3, 4)


def test_split_is_a_tenth_each_and_everybody_trains() -> None:
    whole = data(users=200)
    split = split_rows(whole.user, np.random.default_rng(0))
    n = len(split)
    assert np.bincount(split).tolist() == [n - 2 * round(n / 10), round(n / 10), round(n / 10)]
    assert set(whole.user[split == 0]) == set(range(200))


def test_split_by_time_takes_the_latest() -> None:
    user = np.repeat(np.arange(4), 10)
    time = np.arange(40, dtype=np.float64)[::-1]
    split = split_rows(user, np.random.default_rng(0), time)
    assert np.flatnonzero(split == 2).tolist() == [0, 1, 2, 3]
    assert np.flatnonzero(split == 1).tolist() == [4, 5, 6, 7]


def test_the_first_of_a_user_is_for_training_even_if_it_is_late() -> None:
    split = split_rows(np.array([0] * 10 + [1] * 2), np.random.default_rng(0), np.arange(12.0))
    assert split.tolist() == [0] * 9 + [1, 0, 2]


def test_few_interactions_fill_every_part_that_they_can() -> None:
    for n, parts in ((1, {0}), (2, {0}), (5, {0}), (6, {0, 1, 2})):
        assert set(split_rows(np.zeros(n, np.int64), np.random.default_rng(0))) == parts


def test_the_split_is_the_same_for_every_partition() -> None:
    def splits(clients: int, partition: str) -> set[tuple[str, int, int]]:
        shards = make_shards(data(), clients, partition, 0.2, seed=3)
        rows = [zip(s.user_ids[s.user].tolist(), s.item.tolist(), s.split.tolist(), strict=True) for s in shards]
        return {row for each in rows for row in each}

    assert splits(1, "uniform") == splits(4, "exponential") == splits(6, "linear")


def test_merged_shards_are_the_whole_set() -> None:
    whole, shards = data(), make_shards(data(), 4, "linear", 0.2, seed=0)
    merged = merge_shards(shards)
    pairs = {(str(merged.user_ids[u]), int(i)) for u, i in zip(merged.user, merged.item, strict=True)}
    assert pairs == {(f"u{u}", int(i)) for u, i in zip(whole.user, whole.item, strict=True)}
    assert merged.users == 60
    assert 0 < reached(shards) < 0.5
    assert len(set(merged.user_ids)) == 60, "nobody is at two clients"
    assert [shard.name for shard in shards] == ["client 0", "client 1", "client 2", "client 3"]


@pytest.mark.parametrize(
    ("clients", "partition", "ubi", "message"),
    [
        (61, "linear", 0.5, "clients must be at most 60, the number of users; got 61"),
        (0, "linear", 0.5, "clients must be >= 1; got 0"),
        (2, "linear", 0.0, r"ubi must be in \(0, 1\].*; got 0.0"),
        (2, "linear", 1.5, r"ubi must be in \(0, 1\].*; got 1.5"),
        (2, "expo", 0.5, r"partition must be one of .* Did you mean 'exponential'\?"),
        (2, "given", 0.5, "partition='given' needs data that name each user's client"),
    ],
)
def test_wrong_options(clients: int, partition: str, ubi: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_shards(data(), clients, partition, ubi, seed=0)


def test_clients_that_the_data_name() -> None:
    named = replace(data(), client=np.arange(60) % 2, client_names=("north", "south"))
    north, south = make_shards(named, None, "given", 1.0, seed=0)
    assert (north.name, south.name, north.users, south.users) == ("north", "south", 30, 30)
    with pytest.raises(InputError, match="clients must be 2, as many as the data name; got 3"):
        make_shards(named, 3, "given", 1.0, seed=0)
    with pytest.raises(InputError, match="Client 'west' is empty: it needs at least one user"):
        make_shards(replace(named, client_names=("north", "south", "west")), None, "given", 1.0, seed=0)


def test_a_part_without_interactions() -> None:
    with pytest.raises(InputError, match="No interaction is for validation: of 3 in all"):
        make_shards(Interactions(np.arange(3), np.arange(3), *[np.array(["a", "b", "c"])] * 2), 1, "linear", 1.0, 0)
