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

from fedgraft.domains.examples import Examples, check_numbers, last_of
from fedgraft.domains.keyed_split import Hashes, joined, named
from fedgraft.errors import InputError, require
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
