"""Rows that the server hands on from client to client unread: the ability of tasks that encrypt these."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic

from fedgraft.contracts.task import Shard
from fedgraft.contracts.values import Halo, Indices
from fedgraft.wire.layouts import Arrays


class EncryptedRowsTask(ABC, Generic[Shard]):
    """Ability: have rows in what clients tell each other that the server only hands on, and can do so unread.

    `check` and `combine` then see uint8 [rows, bytes] in place of such an array, take rows of it apart and put them
    together. Halo rows of a `HaloTask` are encrypted, too. A row is known by its place, whole numbers that its owner
    and whoever is told of it can tell: whose it is, and which of theirs.

    The server knows which nodes of others a client names in what it publishes, to be told of them or to tell of its
    own: where edges between clients were matched, a client that names a node which none of its edges was joined to is
    refused.
    """

    @property
    @abstractmethod
    def seals(self) -> bool:
        """Whether options ask for it."""

    @property
    @abstractmethod
    def hands_on(self) -> bool:
        """Whether there are such rows, encrypted or not."""

    @property
    @abstractmethod
    def handed_on(self) -> tuple[str, ...]:
        """Names of the arrays whose rows are handed on; they are in `statistics_layout` and `combined_layout` alike."""

    @abstractmethod
    def sent_places(self, client: int, statistics: Arrays) -> Mapping[str, Indices]:
        """Return {array: the place of each row, int64 [rows, k]}, of what a client is about to publish."""

    @abstractmethod
    def received_places(self, client: int, shard: Shard, shared: Arrays) -> Mapping[str, Indices]:
        """Return the same of what a client got back, whose rows are still encrypted. Raises `WireError` for misfits."""

    @abstractmethod
    def halo_of(self, shard: Shard) -> Halo:
        """Return the addresses of the nodes of others of which a client is told hidden states."""

    @property
    def copies(self) -> int:
        """Return how many rows of a halo one node stands for; row k of node v is v x copies + k; 1 by default."""
        return 1

    @abstractmethod
    def named(self, statistics: Arrays) -> Sequence[Halo]:
        """Server: return their addresses, of statistics that `check` has passed."""
