"""Interactions of users with the items of a catalogue that all clients know: of a whole data set, and of one client.

Rules, the same for every source:
    Positives    every interaction counts, whatever its rating; a pair of user and item counts once, as it came last.
    Occurrence   a user occurs if it has an interaction; an item, if the catalogue names it.
    Negatives    what a user has no interaction with; so nobody may have every item.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.data import Clients, Purpose
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.values import SPLITS
from fedgraft.domains.dealing import by_key
from fedgraft.domains.examples import Examples, check_numbers, last_of
from fedgraft.domains.keyed_split import Hashes, furthest, joined, named, split_all
from fedgraft.domains.notes import tell
from fedgraft.errors import InputError, require, require_one_of
from fedgraft.wire.layouts import Array

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ItemLists:
    """A list of items for each user, one after the other: int64 [n], numbers of items, ascending in each list.

    `pointers` are int64 [users + 1], where each user's list begins; the last is n.
    """

    pointers: Ids
    items: Ids

    @classmethod
    def make(cls, user: Ids, item: Ids, users: int) -> "ItemLists":
        """Return the lists of pairs (user, item) in any order; `users` counts also those without an item."""
        pointers = np.zeros(users + 1, np.int64)
        np.cumsum(np.bincount(user, minlength=users), out=pointers[1:])
        return cls(pointers, item[np.lexsort((item, user))])

    @property
    def counts(self) -> Ids:
        """int64 [users], length of each list."""
        return np.diff(self.pointers)

    def of(self, users: Ids) -> Ids:
        """Return the lists of some users, one after the other, int64 [n]."""
        counts = self.counts[users]
        starts = self.pointers[users] - np.cumsum(counts) + counts
        places: Ids = np.arange(counts.sum()) + np.repeat(starts, counts)
        return self.items[places]


@dataclass(frozen=True, eq=False)
class RankingShard(Examples):
    """One client's own users and their interactions, and the catalogue.

    Users belong to one client. The catalogue, its order of items and its features are the same at every client.

    Args:
        name: of the client.
        user: int64 [n], the user of each interaction, counted from 0 at this client; pairs are distinct.
        item: int64 [n], its item, counted from 0 in the catalogue.
        split: int8 [n], 0 training, 1 validation, 2 test.
        user_ids: str [users], original ids.
        item_ids: str [items], original ids.
        features: {modality: float32 [items, width]}; {} where nothing is known of items but their ids.
        titles: str [items], for people to read; empty where there are none.
    """

    name: str
    user: Ids
    item: Ids
    split: NDArray[np.int8]
    user_ids: Array
    item_ids: Array
    features: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    titles: Array = field(default_factory=lambda: np.zeros(0, np.str_))

    def __post_init__(self) -> None:
        _check_pairs("RankingShard", self)
        n = len(self.item)
        require(len(self.split) == n, "RankingShard.split", f"as long as the {n} interactions", len(self.split))

    @property
    def users(self) -> int:
        """int, number of the client's users."""
        return len(self.user_ids)

    @property
    def items(self) -> int:
        """int, number of items in the catalogue."""
        return len(self.item_ids)

    def hashes(self) -> Hashes:
        """Return a hash of the ids of each interaction's user and item, uint64 [n]."""
        return joined(named(self.user_ids)[self.user], named(self.item_ids)[self.item])

    def lists(self, split: str) -> ItemLists:
        """Return the items of each user in a split."""
        rows = self.rows(split)
        return ItemLists.make(self.user[rows], self.item[rows], self.users)


@dataclass(frozen=True, eq=False)
class Interactions:
    """A whole data set, before it is dealt to clients.

    Args:
        user: int64 [n], counted from 0; item: int64 [n], likewise; pairs are distinct.
        user_ids: str [users], original ids; item_ids: str [items], likewise.
        features: {modality: float32 [items, width]}.
        titles: str [items], or empty.
        client: int64 [users], where the data name each user's client, else None.
        client_names: one per client where the data name them.
        split: int8 [n], where the data name it, else None.
        time: float64 [n], where interactions are split by time, else None.
        notes: what was left out on the way here, for people to read.
    """

    user: Ids
    item: Ids
    user_ids: Array
    item_ids: Array
    features: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    titles: Array = field(default_factory=lambda: np.zeros(0, np.str_))
    client: Ids | None = None
    client_names: tuple[str, ...] = ()
    split: NDArray[np.int8] | None = None
    time: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()

    def hashes(self) -> Hashes:
        """Return a hash of the ids of each interaction's user and item, uint64 [n]."""
        return joined(named(self.user_ids)[self.user], named(self.item_ids)[self.item])

    def __post_init__(self) -> None:
        _check_pairs("Interactions", self)
        full = np.flatnonzero(np.bincount(self.user, minlength=len(self.user_ids)) == len(self.item_ids))
        if len(full):
            raise InputError(
                f"User {str(self.user_ids[full[0]])!r} has every one of the {len(self.item_ids):,} items "
                f"({len(full)} such users); without an item that a user has not, there is nothing to rank."
            )


def last_of_pairs(user: Ids, item: Ids) -> Ids:
    """Return the rows, int64 [pairs] ascending, of each pair's last interaction."""
    return last_of(user * (int(item.max(initial=0)) + 1) + item)


def merge_shards(shards: Sequence[RankingShard]) -> RankingShard:
    """Return all shards as one client's: the same interactions in the same splits, users client by client."""
    first = shards[0]
    starts = np.cumsum([0, *(shard.users for shard in shards[:-1])])
    return RankingShard(
        name="all clients",
        user=np.concatenate([start + shard.user for start, shard in zip(starts, shards, strict=True)]),
        item=np.concatenate([shard.item for shard in shards]),
        split=np.concatenate([shard.split for shard in shards]),
        user_ids=np.concatenate([shard.user_ids for shard in shards]),
        item_ids=first.item_ids,
        features=first.features,
        titles=first.titles,
    )


def _check_pairs(what: str, data: RankingShard | Interactions) -> None:
    """Raise `InputError` unless interactions are of the users and items that are named, and features of all items."""
    n, items = len(data.item), len(data.item_ids)
    require(n > 0, f"{what}.item", "at least one interaction", n)
    check_numbers(what, {"user": len(data.user_ids), "item": items}, data, n, "interactions")
    require(len(data.titles) in (0, items), f"{what}.titles", f"as many as the {items} items", len(data.titles))
    for modality, rows in data.features.items():
        sound = rows.ndim == 2 and len(rows) == items and rows.shape[1] > 0 and bool(np.isfinite(rows).all())
        allowed = f"finite, one row for each of {items} items and at least one column"
        require(sound, f"{what}.features[{modality!r}]", allowed, rows.shape)


# --- partition --------------------------------------------------------------------------------------------------------


PARTITIONS = ("exponential", "linear", "uniform")
"""Shapes of the portions that clients get."""
HELD_OUT = 0.1
"""Share of all interactions in validation, and in test."""


def check_partition(owner: str, clients: int, partition: str, ubi: float) -> None:
    """Raise `InputError` for options that no data could meet; `owner` ("ML100K") names them in errors."""
    require(clients >= 1, f"{owner}.clients", ">= 1", clients)
    require_one_of(f"{owner}.partition", partition, PARTITIONS)
    require(0 < ubi <= 1, f"{owner}.ubi", "in (0, 1]: the smallest client's share of the largest one's", ubi)


def portions(clients: int, partition: str, ubi: float) -> NDArray[np.float64]:
    """Return the clients' shares of all interactions, float64 [clients], sum 1: client 0 has most, the last one least.

    Of N >= 1 clients, "exponential" is p_i proportional to ubi^(i / (N - 1)), "linear" equal steps from 1 down to ubi,
    and "uniform" all equal, whatever the user balance index `ubi`, smallest by largest, in (0, 1].
    """
    check_partition("portions", clients, partition, ubi)
    step = np.arange(clients) / max(1, clients - 1)
    weights = {"exponential": ubi**step, "linear": 1 - (1 - ubi) * step, "uniform": np.ones(clients)}[partition]
    return np.asarray(weights / weights.sum())


def deal_users(counts: Ids, shares: NDArray[np.float64], g: np.random.Generator) -> Ids:
    """Return the client of each user, int64 [users]; every client gets at least one user.

    Clients are filled from the smallest to the largest. Each takes users in random order while they fit within
    floor(share * interactions), and then the one user that closes the gap best, if one comes nearer. What nobody took
    is the largest client's. `counts` are interactions, int64 [users]; `shares` are float64 [clients], sum 1.
    """
    clients = len(shares)
    require(clients <= len(counts), "clients", f"at most {len(counts)}, the number of users", clients)
    wanted = np.floor(shares * counts.sum()).astype(np.int64)
    left = g.permutation(len(counts))
    smallest_first = np.argsort(wanted, kind="stable").tolist()
    client = np.full(len(counts), smallest_first[-1], np.int64)
    for others, number in zip(range(clients - 1, 0, -1), smallest_first, strict=False):
        candidates = counts[left[: len(left) - others]]
        filled = np.cumsum(candidates)
        taken = int(np.searchsorted(filled, wanted[number], side="right"))
        gap = wanted[number] - (filled[taken - 1] if taken else 0)
        client[left[:taken]] = number
        nearest = taken + int(np.abs(candidates[taken:] - gap).argmin()) if taken < len(candidates) else 0
        if taken < len(candidates) and (not taken or abs(candidates[nearest] - gap) < gap):
            client[left[nearest]] = number
            # Mostly it is the next one, and then nothing need be copied.
            left = left[taken + 1 :] if nearest == taken else np.delete(left[taken:], nearest - taken)
        else:
            left = left[taken:]
    return client


def split_rows(user: Ids, g: np.random.Generator, time: NDArray[np.float64] | None = None) -> NDArray[np.int8]:
    """Return the split of each interaction, int8 [n], as numbers of `SPLITS`: 8:1:1 at random, or by time.

    Validation and test get a tenth each, rounded; training gets the rest, and the first interaction of every user,
    int64 [n]. By time, float64 [n], the last tenth is test and the one before it validation, ties at random.
    """
    order = g.permutation(len(user))
    if time is not None:
        order = order[np.argsort(time[order], kind="stable")]
    free = np.ones(len(user), np.bool_)
    free[np.unique(user[order], return_index=True)[1]] = False
    order = order[free]
    test = min(round(HELD_OUT * len(user)), (len(order) + 1) // 2)
    validation = min(round(HELD_OUT * len(user)), len(order) - test)
    split = np.zeros(len(user), np.int8)
    split[order[len(order) - test - validation :]] = 1
    split[order[len(order) - test :]] = 2
    return split


def split_users_by_hash(data: Interactions, seed: int, owner: Ids) -> NDArray[np.int8]:
    """Return the split of each interaction by the hash of its user and item, int8 [n], 8:1:1, or by time.

    Of every user, int64 [n] in the data, one trains; where all are held out that with the highest hash. `owner` is the
    client of each interaction; where all have too few for each split, no split of the whole is empty.
    """
    if data.time is not None:
        return split_rows(data.user, generator(seed, "split"), data.time)
    rows, held = data.hashes(), (HELD_OUT, HELD_OUT)
    kept = furthest(rows, seed, data.user)
    return split_all(rows, seed, held, owner, kept=kept)


def make_shards(
    data: Interactions, clients: int | None, partition: str, ubi: float, seed: int, split_seed: int | None = None
) -> list[RankingShard]:
    """Return one shard per client; arguments and errors as `deal`."""
    dealt = deal(data, clients, partition, ubi, seed, split_seed)
    return [dealt.make(client) for client in range(len(dealt.names))]


def deal(
    data: Interactions, clients: int | None, partition: str, ubi: float, seed: int, split_seed: int | None = None
) -> Clients[RankingShard]:
    """Return clients with shards dealt and split by `seed`; the notes of `data` go to the log.

    The partition is one of `PARTITIONS`, or "given" to use `data.client`: then `clients` is None. The user balance
    index `ubi` is not used with "given" and "uniform". With a `split_seed` the split is by the hash of users and items.
    """
    tell(data.notes)
    if partition == "given":
        client, names = _given(data, clients)
    else:
        shares = portions(clients or 0, partition, ubi)
        counts = np.bincount(data.user, minlength=len(data.user_ids))
        client, names = deal_users(counts, shares, generator(seed, "partition")), _names(len(shares))
    split = data.split
    if split is None and split_seed is None:
        split = split_rows(data.user, generator(seed, "split"), data.time)
    elif split is None:
        split = split_users_by_hash(data, split_seed or 0, client[data.user])
    for number, name in enumerate(SPLITS):
        if not (split == number).any():
            raise InputError(f"No interaction is for {name}: of {len(split):,} in all, every part needs one.")
    return Clients(names, _Dealt(data, client, names, split).shard)


def site_shard(data: Interactions, purpose: Purpose) -> RankingShard:
    """Return one client with all of the data, split as the data say or by itself; the notes of `data` go to the log."""
    tell(data.notes)
    split = data.split
    if split is None:
        split = split_users_by_hash(data, purpose.split_seed or 0, np.zeros_like(data.user))
    return _Dealt(data, np.zeros(len(data.user_ids), np.int64), [purpose.name], split).shard(0)


def reached(shards: list[RankingShard]) -> float:
    """Return the user balance index of shards: smallest by largest number of interactions, in (0, 1]."""
    sizes = [len(shard.item) for shard in shards]
    return min(sizes) / max(sizes)


def _given(data: Interactions, clients: int | None) -> tuple[Ids, list[str]]:
    if data.client is None:
        raise InputError("partition='given' needs data that name each user's client; these do not.")
    names = list(data.client_names)
    require(clients is None or clients == len(names), "clients", f"{len(names)}, as many as the data name", clients)
    return data.client, names


def _names(clients: int) -> list[str]:
    return [f"client {number:0{len(str(clients - 1))}d}" for number in range(clients)]


class _Dealt:
    """A whole data set, sorted so that a client's part of it is found without a look at all others'.

    `client` is int64 [users], and every client has an interaction; `split` is int8 [n], of each interaction.
    """

    def __init__(self, data: Interactions, client: Ids, names: Sequence[str], split: NDArray[np.int8]) -> None:
        self._data, self._names, self._split = data, names, split
        owner = client[data.user]
        empty = np.bincount(owner, minlength=len(names)) == 0
        if empty.any():
            raise InputError(
                f"Client {names[int(empty.argmax())]!r} is empty: it needs at least one user with an interaction."
            )
        self._users, self._of_users = by_key(client, len(names))
        self._rows, self._of_rows = by_key(owner, len(names))

    def shard(self, client: int) -> RankingShard:
        """Return one client's shard."""
        data = self._data
        users = self._users[self._of_users[client] : self._of_users[client + 1]]
        rows = self._rows[self._of_rows[client] : self._of_rows[client + 1]]
        return RankingShard(
            name=self._names[client],
            user=np.searchsorted(users, data.user[rows]),
            item=data.item[rows],
            split=self._split[rows],
            user_ids=data.user_ids[users],
            item_ids=data.item_ids,
            features=data.features,
            titles=data.titles,
        )
