"""Nodes of others that clients name before training: the ability of a task that tells the server which."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from fedgraft.contracts.values import Halo
from fedgraft.wire.layouts import Arrays


class NamingTask(ABC):
    """Ability: say which nodes of others a client names in what it publishes, to be told of them or to tell of its own.

    Where edges between clients were matched, a client that names a node which none of its edges was joined to is
    refused.
    """

    @property
    def copies(self) -> int:
        """Return how many rows of a halo one node stands for; row k of node v is v x copies + k; 1 by default."""
        return 1

    @abstractmethod
    def named(self, statistics: Arrays) -> Sequence[Halo]:
        """Server: return their addresses, of statistics that `check` has passed."""
