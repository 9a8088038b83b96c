"""On which data? The contract of data sets, and what only some of them can do."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, overload

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.task import ClassCounts, Shard
from fedgraft.tables.table_files import FOUND_OUT, Given, TextForm
from fedgraft.wire.layouts import Arrays, Tree


class Data(Checked, ABC, Generic[Shard]):
    """Hand over one shard per client."""

    task: ClassVar[str]
    """Name of the task that understands these shards."""
    other_tasks: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """{name of another task: the options that make shards for it}; without these they are for `task`."""
    judged_by_data: ClassVar[bool] = False
    """Whether models are judged by what suits the labels, such as a rare class, unless it is said; own tables are."""

    @abstractmethod
    def load(self, seed: int) -> Sequence[Shard]:
        """Load one shard per client, split into train, validation and test; equal seeds give equal shards."""

    def split_seed_of(self, seed: int) -> int | None:
        """Return the seed of the key by whose hash rows are split, in an experiment with this seed.

        None (default) where the split is drawn. By a hash each row stays in its split as a table grows.
        """
        return None

    @property
    def asked_form(self) -> TextForm:
        """How tables of questions are written, as the user's own are said to be; by default it is found out."""
        return FOUND_OUT

    def questions(
        self, task: Any, tables: Mapping[str, pd.DataFrame], own: Mapping[str, Given]
    ) -> dict[str, pd.DataFrame]:
        """Return the tables of questions as the run's task reads them: columns renamed, tables that it needs added.

        By default they are read as they are. `own` holds the tables of one client's own shard; {} where the run's data
        answer.
        """
        return dict(tables)


@dataclass(frozen=True)
class Clients(Generic[Shard]):
    """The clients of a data set that can make one shard at a time.

    Args:
        names: of the clients, all different, known before any shard is made.
        make: returns the shard of a client, by its index; equal however often it is asked.
    """

    names: Sequence[str]
    make: Callable[[int], Shard]


class ClientData(Data[Shard]):
    """Ability: make one client's shard at a time, wherever it is used, so that nobody holds all of them."""

    @abstractmethod
    def clients_of(self, seed: int) -> Clients[Shard]:
        """Return the clients. What they share, such as a whole set that they are parts of, is made here, once."""

    def load(self, seed: int) -> "Shards[Shard]":
        """Return all shards; each is made when it is asked for."""
        return Shards(self, seed)


class InMemoryData(Data[Shard]):
    """Ability: take tables in memory, which a run stores and reads instead."""

    judged_by_data: ClassVar[bool] = True

    @classmethod
    def options_from(cls, given: object) -> dict[str, Any] | None:
        """Return the options that data given without a name stand for, such as one table; None (default) for none."""
        return None

    @abstractmethod
    def tables(self) -> dict[str, pd.DataFrame]:
        """Return {option: table} of what was given in memory. Columns that are not read stay with their owner."""


class KnownRows(ABC):
    """Ability of shards: tell rows by a hash of what they are called, and keep some out of validation and test."""

    @abstractmethod
    def parted(self) -> tuple[NDArray[np.uint64], NDArray[np.integer]]:
        """Return the hash of each row, uint64 [n], and its split, [n], as places in `SPLITS`; -1 for none."""

    @abstractmethod
    def untested(self, seen: NDArray[np.uint64]) -> tuple[Self, int]:
        """Return the shard without rows for validation or test that are `seen`, by their hashes, and how many they are.

        They are for training, or left out.
        """


@dataclass(frozen=True, eq=False)
class PeerClients:
    """What a site knows of the other clients.

    Args:
        clients: names of all, in the order of their numbers.
        addresses: where the other ends of the edges are that it claims, arrays of `tokens.ADDRESSES`; or numbers of the
            things that it claims, of `tokens.NUMBERS`; {} where none was joined, None = not known.
    """

    clients: tuple[str, ...]
    addresses: Arrays | None = None


@dataclass(frozen=True)
class Purpose:
    """What one client's own tables are read for.

    Args:
        name: of the client.
        client: which one it is, 0, 1 ...
        seed: the experiment's, by which data are split that do not say how.
        split_seed: of the key by whose hash their rows are split; None = the split is drawn.
        trains: whether they are to train on; else a trained model answers by them, and all of them are known.
        neighbours: what is known of the others; None = nothing.
    """

    name: str = "own"
    client: int = 0
    seed: int = 0
    trains: bool = False
    split_seed: int | None = None
    neighbours: PeerClients | None = None


ANSWER: Final = Purpose()
"""To answer by a trained model where the run's data are not."""


class AgreedData(Data[Shard]):
    """Ability: depend on what all clients' data are like, such as on the mean of a column, which none of them knows.

    Before anything else clients publish statistics, and all read their data by what the server makes of these.
    """

    splits_by_agreement: ClassVar[bool] = False
    """Whether no client knows its split before all have agreed, so that what they tell of classes is of a split of its
    own; models are judged by that where the data of all are here, too."""

    @property
    @abstractmethod
    def agreement(self) -> Tree:
        """What clients are told of how data are read; None where it is not known yet."""

    @abstractmethod
    def agreeing(self, agreement: Any) -> Self:
        """Return this data set with what clients of another run agreed on."""

    @abstractmethod
    def published(self, task: Any, seed: int) -> Sequence[Tree]:
        """Return what each client publishes, where the data of all are here, for a task."""

    @abstractmethod
    def published_by(self, task: Any, tables: Mapping[str, Given], purpose: Purpose) -> Tree:
        """Return what one client publishes, from its own tables; arguments as of `ClientTables.client_shard`."""

    @abstractmethod
    def fitted(self, published: Sequence[Any]) -> Self:
        """Return this data set with what clients agree on as options, from what each has published.

        Raises `InputError` for what no client can have published.
        """

    def named(self, published: Sequence[Any]) -> Self:
        """Return this data set with names that it takes from tables as options, where nobody has those of all."""
        return self

    def known_of(self, task: Any, published: Sequence[Any]) -> Mapping[str, Any]:
        """Return {option: value} of what tasks must know of the data of all, as far as clients have published it.

        Options that a task does not have are for others. Raises `InputError` where clients differ in what all must have
        alike.
        """
        return {}

    def classes_of(self, task: Any, published: Sequence[Any]) -> ClassCounts | None:
        """Return the classes of all clients; None (default) where they tell of none."""
        return None

    @property
    def void(self) -> Mapping[str, Any]:
        """Return options of tasks without effect on these data, with the value that says so; none by default."""
        return {}

    def plain(self, task: Any, shard: Any) -> str:
        """Return a Python module with a function `features(table)`, from a user's columns to what a model reads.

        "" (default) where columns are read as they are. `shard` is the client's whose model it is; None = of all.
        """
        return ""


class ClientTables(Data[Shard]):
    """Ability: read one client's shard from tables of its own, as those of all clients are read."""

    own_tables: ClassVar[tuple[str, ...]] = ()
    """Names of the tables of a shard that a trained model answers by where the run's data are not, such as "data"; the
    first one is required. Empty where there is no such shard."""
    site_tables: ClassVar[tuple[str, ...]] = ()
    """Names of the tables of a site, where nobody has those of all clients, such as "ratings"; the first one is
    required. Empty where no site has any."""
    common_tables: ClassVar[tuple[str, ...]] = ()
    """Those of `site_tables` that are the same file at all sites, such as "users", by which all number."""

    @abstractmethod
    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> Shard:
        """Return one client's shard, from its tables alone, read as those of all clients are.

        Args:
            task: the run's, or the recipe's; what clients must have in common, such as names of classes, it must know.
            tables: {name: table}, the first one of the ability's, and perhaps others.
            purpose: what they are read for.

        Raises `InputError`, naming the option, where a recipe does not say what all sites must have in common.
        """


Key = TypeVar("Key")
Value = TypeVar("Value")


class LRUCache(OrderedDict[Key, Value]):
    """The values that were used last, by key; what was not used for longest goes.

    Args:
        most: values that are kept, >= 1; None = all.
    """

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self._most = most

    def __getitem__(self, key: Key) -> Value:
        """Return a value, which is now the one used last."""
        value = super().__getitem__(key)
        self.move_to_end(key)
        return value

    def __setitem__(self, key: Key, value: Value) -> None:
        """Keep a value as the one used last."""
        super().__setitem__(key, value)
        self.move_to_end(key)
        if self._most is not None and len(self) > self._most:
            del self[next(iter(self))]


class Shards(Sequence[Shard]):
    """All shards of a data set, each made when it is asked for; the last few are kept.

    It is pickled as the data set and the seed: another process makes for itself what its own clients need.
    """

    KEPT: ClassVar[int] = 32
    """Shards that a process keeps: all of a small experiment, next to nothing of a large one."""

    def __init__(self, data: ClientData[Shard], seed: int) -> None:
        self.data, self.seed = data, seed
        self._made: LRUCache[int, Shard] = LRUCache(self.KEPT)

    @property
    def names(self) -> Sequence[str]:
        """Names of the clients; no shard is made."""
        return self._opened.names

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, client: int) -> Shard: ...
    @overload
    def __getitem__(self, client: slice) -> list[Shard]: ...
    def __getitem__(self, client: int | slice) -> Shard | list[Shard]:
        if isinstance(client, slice):
            return [self[each] for each in range(*client.indices(len(self)))]
        number = range(len(self))[client]
        if number not in self._made:
            self._made[number] = self._opened.make(number)
        return self._made[number]

    def __reduce__(self) -> tuple[type["Shards[Any]"], tuple[ClientData[Shard], int]]:
        return type(self), (self.data, self.seed)

    @cached_property
    def _opened(self) -> Clients[Shard]:
        return self.data.clients_of(self.seed)


def names_of(shards: Sequence[Any]) -> Sequence[str]:
    """Return the clients' names, or their numbers where shards have no names."""
    if isinstance(shards, Shards):
        return shards.names
    return [str(getattr(shard, "name", number)) for number, shard in enumerate(shards)]


def telling(shards: Sequence[Shard]) -> Sequence[Shard]:
    """Return the shards that tell what clients must have alike: all, or the first of those that one data set makes."""
    return shards[:1] if isinstance(shards, Shards) else shards
