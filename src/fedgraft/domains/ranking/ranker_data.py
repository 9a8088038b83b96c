"""A client's interactions, ready to train on: what its users have taken, as a matrix and as lists; questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts.values import SCORED_SPLITS, Questions
from fedgraft.domains.ranking.shards import Ids, ItemLists, RankingShard
from fedgraft.domains.tables.reader import OWNER
from fedgraft.errors import InputError, require, unknown
from fedgraft.nn.sparse import Sparse
from fedgraft.wire.layouts import Array

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


# --- questions --------------------------------------------------------------------------------------------------------

ASKED = 10
"""Items per user where a question does not say how many."""
LONGEST = 1_000_000
"""Most items that may be asked for."""


def tables_of(questions: Any) -> dict[str, pd.DataFrame]:
    """Return the table that a list of users stands for."""
    plain = isinstance(questions, Sequence | np.ndarray | pd.Series) and not isinstance(questions, str | bytes)
    if not plain or not all(isinstance(user, str | int | np.integer) for user in questions):
        raise InputError(
            "questions must be a list of users, the path of a .csv or .parquet file or a DataFrame; "
            f"got {type(questions).__name__}."
        )
    return {"users": pd.DataFrame({"user": [str(user) for user in questions]})}


def asked_users(shards: Sequence[RankingShard], users: pd.DataFrame) -> dict[int, Questions]:
    """Return {client: users and how many items for each}, of a table with "user", perhaps "client" and "k".

    A row of the table is answered by as many rows as there are items for it.

    Raises `InputError` for a user that no client has, that several have and no column "client" decides, or that has
    every item; for a client that is not there; for a `k` that is no positive whole number.
    """
    if "user" not in users:
        raise InputError(f"{OWNER}.users: no column 'user'; got {', '.join(map(str, users)) or 'none'}.")
    place = [{str(name): number for number, name in enumerate(shard.user_ids)} for shard in shards]
    client = _clients(shards, users, place)
    most = _lengths(users)
    questions = {}
    for number in np.unique(client).tolist():
        shard, rows = shards[number], np.flatnonzero(client == number)
        user = np.array([place[number][name] for name in users["user"].iloc[rows].astype(str)], np.int64)
        left = shard.items - np.bincount(shard.user, minlength=shard.users)[user]
        if not left.all():
            name = str(shard.user_ids[user[np.argmin(left)]])
            raise InputError(f"{OWNER}.users: user {name!r} has every one of the {shard.items:,} items; none is left.")
        count = np.minimum(most[rows], left)
        questions[number] = Questions(np.repeat(rows, count), {"user": user, "count": count})
    return questions


def best_items(scores: NDArray[np.float32], had: ItemLists, users: Ids, count: Ids) -> dict[str, Array]:
    """Return {"rank", "item", "score"} of the best items of each user, best first; equal scores go by item.

    Those that a user `had` are left out; `scores` are float32 [users, items], `count` items are wanted for each.
    """
    open = scores.copy()
    open[np.repeat(np.arange(len(users)), had.counts[users]), had.of(users)] = -np.inf
    order = np.argsort(-open, axis=1, kind="stable")[:, : count.max(initial=0)]
    wanted = np.arange(order.shape[1]) < count[:, None]
    rank = np.broadcast_to(np.arange(1, order.shape[1] + 1), order.shape)[wanted]
    return {"rank": rank, "item": order[wanted], "score": np.take_along_axis(open, order, 1)[wanted]}


def _clients(shards: Sequence[RankingShard], users: pd.DataFrame, place: Sequence[Mapping[str, int]]) -> Ids:
    """The client of each row."""
    names, client = [shard.name for shard in shards], []
    named = users["client"].astype(str).tolist() if "client" in users else [None] * len(users)
    for user, name in zip(users["user"].astype(str), named, strict=True):
        if name is not None and name not in names:
            raise unknown("client", name, names)
        among = range(len(names)) if name is None else [names.index(name)]
        having = [number for number in among if user in place[number]]
        if not having:
            of = f"user of client {name!r}" if name is not None else "user"
            raise unknown(of, user, [each for number in among for each in place[number]])
        if len(having) > 1:
            several = ", ".join(names[number] for number in having)
            raise InputError(f"{OWNER}.users: user {user!r} is at several clients; give --client, one of {several}.")
        client.append(having[0])
    return np.array(client, np.int64)


def _lengths(users: pd.DataFrame) -> Ids:
    """How many items each row asks for."""
    if "k" not in users:
        return np.full(len(users), ASKED)
    lengths = pd.to_numeric(users["k"], errors="coerce").to_numpy(np.float64)
    for value, length in zip(users["k"], lengths, strict=True):
        sound = length == np.floor(length) and 1 <= length <= LONGEST
        require(bool(sound), f"{OWNER}.k", f"a whole number in [1, {LONGEST:,}]", value)
    return lengths.astype(np.int64)
