"""The ability of tasks to tell the gradient of each example by itself."""

from abc import abstractmethod
from typing import ClassVar

import torch

from fedgraft.contracts.task import Prepared, Shard, Task
from fedgraft.contracts.values import Indices
from fedgraft.wire.layouts import Arrays


class ClippedGradientTask(Task[Shard, Prepared]):
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
