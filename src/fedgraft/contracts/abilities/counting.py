"""Counts and means over few examples: the ability of a task to say over how few they are."""

from abc import ABC, abstractmethod
from typing import Generic

from fedgraft.contracts.task import Shard


class CountedTask(ABC, Generic[Shard]):
    """Ability: say over how few training examples the counts and means are that a client's messages tell."""

    @abstractmethod
    def fewest(self, shard: Shard, told: frozenset[str]) -> int:
        """Return the fewest examples of a group that a client has any of, such as a class; 0 without examples.

        `told` are words of `capabilities.COUNTED`, by which it depends what a group is.
        """
