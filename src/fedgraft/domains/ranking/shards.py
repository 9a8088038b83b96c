"""A client's interactions with the items of a catalogue that all clients know."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import SPLITS
from fedgraft.wire.layouts import Array

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ItemLists:
    """A list of items for each user, one after the other.

    Args:
        pointers: int64 [users + 1], where each user's list begins; the last is n.
        items: int64 [n], numbers of items, ascending in each list.
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
        """Return the lists of some users, one after the other, int64."""
        counts = self.counts[users]
        starts = self.pointers[users] - np.cumsum(counts) + counts
        places: Ids = np.arange(counts.sum()) + np.repeat(starts, counts)
        return self.items[places]


@dataclass(frozen=True, eq=False)
class RankingShard:
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

    @property
    def users(self) -> int:
        """int, number of the client's users."""
        return len(self.user_ids)

    @property
    def items(self) -> int:
        """int, number of items in the catalogue."""
        return len(self.item_ids)

    def rows(self, split: str) -> Ids:
        """Return the positions of a split's interactions, int64."""
        return np.flatnonzero(self.split == SPLITS.index(split))

    def lists(self, split: str) -> ItemLists:
        """Return the items of each user in a split."""
        rows = self.rows(split)
        return ItemLists.make(self.user[rows], self.item[rows], self.users)
