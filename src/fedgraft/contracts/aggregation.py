"""The contract of aggregation rules: merge the updates that arrived."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.values import Update


class Aggregation(Checked, ABC):
    """Say what of a round's updates is merged, and with what weight, before a sharing method merges it.

    A rule sees decoded updates, so it works with every codec; and it returns updates, so it works with every sharing
    method. It remembers nothing.
    """

    @abstractmethod
    def apply(self, updates: Sequence[Update]) -> Sequence[Update]:
        """Return what is merged.

        Args:
            updates: of clients that share a model, at least one, ascending by client, weights summing to 1. All have
                the same arrays, finite.

        Returns:
            Updates of some of these clients, at least one, ascending by client, weights summing to 1. Never mutates
            what it is given.
        """

    def survives(self, clients: int) -> int:
        """Return how many of so many clients, at least one, may lie without moving the result where they want.

        With so many liars, whatever they send, the result is about as far from the honest updates as these are from
        each other. All updates are of one round. 0 (default) = none.
        """
        return 0
