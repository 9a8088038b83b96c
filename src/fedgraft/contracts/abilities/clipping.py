"""The ability of tasks to tell the gradient of each example by itself."""

from abc import ABC, abstractmethod
from typing import ClassVar, Final, Generic

import numpy as np
import torch

from fedgraft.contracts.task import Prepared, Shard
from fedgraft.contracts.values import Indices
from fedgraft.wire.layouts import Arrays

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
