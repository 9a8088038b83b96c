"""A client's interactions, ready to train on: what its users have taken, as a matrix and as lists."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.domains.ranking.shards import Ids, ItemLists, RankingShard
from fedgraft.nn.sparse import Sparse

CPU = torch.device("cpu")
MOST = 2
"""A step whose users have less than 1 / MOST of all interactions sums theirs alone: making that matrix costs, too."""


def lists_of(lists: ItemLists, users: Ids) -> ItemLists:
    """Return the lists of some users, int64 [n], who follow each other."""
    ends = lists.pointers[users[0] : users[-1] + 2]
    return ItemLists(ends - ends[0], lists.items[ends[0] : ends[-1]])


@dataclass(frozen=True, eq=False)
class RankingData:
    """A client's own data.

    Args:
        user: int64 [examples], the user of each training interaction; item: int64 [examples], its item.
        taken: each user's training items.
        held_out: {"validation": each user's items, "test": likewise}.
        features: {modality: float32 [items, width]}, on the device of the model.
        items: number of items in the catalogue.
        device: where the model is.
    """

    user: Ids
    item: Ids
    taken: ItemLists
    held_out: Mapping[str, ItemLists]
    features: Mapping[str, Tensor]
    items: int
    device: torch.device = CPU

    @classmethod
    def of(cls, shard: RankingShard) -> "RankingData":
        """Return a shard's data; what it holds of validation and test stays out of all but `held_out`."""
        rows = shard.rows("train")
        features = {name: torch.from_numpy(values) for name, values in shard.features.items()}
        held_out = {split: shard.lists(split) for split in SCORED_SPLITS}
        return cls(shard.user[rows], shard.item[rows], shard.lists("train"), held_out, features, shard.items)

    def to(self, device: torch.device) -> "RankingData":
        """Return the data for a model on another device; made once per device."""
        if device == self.device:
            return self
        if device not in self._moved:
            features = {name: values.to(device) for name, values in self.features.items()}
            self._moved[device] = replace(self, features=features, device=device)
        return self._moved[device]

    @property
    def users(self) -> int:
        """int, number of users, those without a training interaction too."""
        return len(self.taken.pointers) - 1

    @cached_property
    def counts(self) -> Tensor:
        """float32 [users], how many items each has taken."""
        return torch.from_numpy(self.taken.counts.astype(np.float32)).to(self.device)

    def sums(self, vectors: Tensor, users: Ids) -> Tensor:
        """Return the sums of the vectors, float32 [items, width], of what users have taken, float32 [n, width].

        Users are int64 [n], ascending and distinct.
        """
        if MOST * self.taken.counts[users].sum() < len(self.item):
            return self._matrix(users) @ vectors
        summed: Tensor = self._whole @ vectors
        return summed if len(users) == self.users else summed.index_select(0, self.tensor(users))

    def had(self, users: Ids, drawn: Ids) -> NDArray[np.bool_]:
        """Return which of the drawn items, int64 [n] and distinct, users have taken, bool [users, n]."""
        place = np.full(self.items, -1)
        place[drawn] = np.arange(len(drawn))
        column = place[self.taken.of(users)]
        row = np.repeat(np.arange(len(users)), self.taken.counts[users])
        taken = np.zeros((len(users), len(drawn)), np.bool_)
        taken[row[column >= 0], column[column >= 0]] = True
        return taken

    def tensor(self, values: NDArray[np.int64] | NDArray[np.bool_]) -> Tensor:
        """Return an array where the model is, [n] as it is."""
        return torch.from_numpy(values).to(self.device)

    @cached_property
    def _whole(self) -> Sparse:
        return self._matrix(np.arange(self.users))

    @cached_property
    def _moved(self) -> dict[torch.device, "RankingData"]:
        return {}

    def _matrix(self, users: Ids) -> Sparse:
        """Ones where users have taken items, [users, items]."""
        items = self.taken.of(users)
        rows = np.repeat(np.arange(len(users)), self.taken.counts[users])
        ones = np.ones(len(items), np.float32)
        return Sparse(rows, items, ones, (len(users), self.items)).to(self.device)
