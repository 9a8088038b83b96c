"""Abilities of tasks whose examples are private: to be audited, clipped and counted."""

from abc import ABC, abstractmethod
from typing import ClassVar, Final, Generic, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts.task import Prepared, Shard
from fedgraft.contracts.values import Indices
from fedgraft.wire.layouts import Arrays


class Labelled(NamedTuple):
    """Examples of a client with their classes.

    Args:
        rows: int64 [n], which.
        label: int64 [n], the number of each one's class.
        classes: int, how many there are.
    """

    rows: Indices
    label: Indices
    classes: int


class AuditedTask(ABC, Generic[Shard]):
    """Ability: change which examples a client trains on, and their labels."""

    @abstractmethod
    def labelled(self, shard: Shard, split: str) -> Labelled:
        """Return the examples of a split, in the order in which the task takes them."""

    @abstractmethod
    def marked(self, shard: Shard, rows: Indices, label: Indices, trained: NDArray[np.bool_]) -> Shard:
        """Return a client's data with other labels of some rows, each of them in training or in no split.

        Args:
            shard: as it is; not changed.
            rows: int64 [n], each once.
            label: int64 [n], their new classes.
            trained: bool [n].
        """


_WHOLE: Final = 1e12
"""A length to which no gradient is shortened."""


class ClippedGradientTask(ABC, Generic[Shard, Prepared]):
    """Ability: tell the sum of training examples' gradients, each shortened to a length.

    So an example moves the sum by no more than that length, which differential privacy of examples needs.

    Args:
        example: what the task's examples are called, such as "node".
    """

    example: ClassVar[str]

    @property
    @abstractmethod
    def unclipped(self) -> tuple[str, str]:
        """Return why, with these options, an example has no gradient by itself, and what to set; ("", "") where it has.

        An example's loss may depend on no other example of the client: not by neighbours, shares of classes or
        statistics of a batch.
        """

    @abstractmethod
    def clipped(self, model: torch.nn.Module, data: Prepared, examples: Indices, longest: float) -> Arrays:
        """Return the sum of gradients of some training examples, {name of a parameter: float64 of its shape}.

        Args:
            model: of the task; its parameters are not changed.
            data: the client's.
            examples: int64, their places among the training examples.
            longest: most Euclidean length of one example's gradient, > 0.
        """

    def each_gradient(self, model: torch.nn.Module, data: Prepared, examples: Indices) -> Arrays:
        """Return gradients of single examples, at least one, not shortened: for an audit, which knows all data.

        The default asks for one after another.

        Returns:
            {name of a parameter: float64 [examples, *its shape]}.
        """
        found = [self.clipped(model, data, examples[at : at + 1], _WHOLE) for at in range(len(examples))]
        return {name: np.stack([each[name] for each in found]) for name in found[0]}


class CountedTask(ABC, Generic[Shard]):
    """Ability: say over how few training examples the counts and means are that a client's messages tell."""

    @abstractmethod
    def fewest(self, shard: Shard, told: frozenset[str]) -> int:
        """Return the fewest examples of a group that a client has any of, such as a class; 0 without examples.

        `told` are words of `capabilities.COUNTED`, by which it depends what a group is.
        """
