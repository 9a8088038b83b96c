"""Learnt by what? The contract of losses, one kind for each thing that a task learns.

A recipe's section [loss] names one; a task holds it as its `objective`, and says by the field's type which kinds fit.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts.ranges import Checked

ClassWeights: TypeAlias = str | dict[str, float]
"""What losses are multiplied by: "" for 1, "balanced", or {class: weight}; others have weight 1."""
LossesAndGradient: TypeAlias = tuple[Tensor, Callable[[Tensor], Tensor]]
"""Losses, float32 [n], and a function from their gradient to that of the outputs, float32 [n, width]."""
RAREST = 1e-4
"""The least share that a class is taken to have."""


class Objective(Checked):
    """What training makes small, and what is dropped meanwhile.

    Attributes:
        dropout: share of each hidden layer dropped in training, in [0, 1).
    """

    dropout: float


@dataclass(frozen=True, eq=False)
class ClassShares:
    """The share that each class has of a client's training examples, and its log, float32 [classes]."""

    values: Tensor
    logs: Tensor

    @classmethod
    def of(cls, counts: NDArray[Any]) -> Self:
        """Return those of so many examples, [classes]; no class has less than `RAREST`."""
        values = torch.from_numpy(np.maximum(counts / max(1, counts.sum()), RAREST).astype(np.float32))
        return cls(values, values.log())


class ClassObjective(Objective):
    """Loss of one class of several.

    Attributes:
        class_weights: what the loss of an example of each class is multiplied by; the task does it.
    """

    class_weights: ClassWeights

    @property
    def reads_shares(self) -> bool:
        """Whether losses depend on how many examples of each class the client has; not by default."""
        return False

    @abstractmethod
    def losses(self, logits: Tensor, label: Tensor, shares: ClassShares | None) -> Tensor:
        """Return the loss of each example, float32 [n], of logits [n, classes] and classes, int64 [n]."""

    def with_gradient(self, logits: Tensor, label: Tensor, shares: ClassShares | None) -> LossesAndGradient:
        """Return the same with their gradient, which a loss may have written by hand."""
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            losses = self.losses(leaf, label, shares)
        return losses.detach(), lambda gradient: torch.autograd.grad(losses, leaf, gradient)[0]


class NumberObjective(Objective):
    """Loss of one number."""

    @abstractmethod
    def losses(self, outputs: Tensor, label: Tensor) -> Tensor:
        """Return the loss of each example, float32 [n], of numbers in training's unit, [n] each."""


class PairObjective(Objective):
    """Loss of a pair that is joined, against pairs that are not.

    Attributes:
        negatives: pairs that are not joined, drawn for each that is, >= 1.
    """

    negatives: int

    @abstractmethod
    def losses(self, joined: Tensor, others: Tensor, drawn: Tensor) -> Tensor:
        """Return the loss of each pair, float32 [n].

        Log-odds are float32 [n] of joined pairs, [n, negatives] of others; `drawn`, of the same shape, is 0 where there
        is no such pair.
        """


class RankingObjective(Objective):
    """Loss of an item that was taken, against items that were not.

    Attributes:
        negatives: items drawn in a step, >= 1; 0 takes all.
    """

    negatives: int

    @abstractmethod
    def losses(self, taken: Tensor, others: Tensor, had: Tensor, items: int) -> Tensor:
        """Return the loss of each taken item, float32 [n].

        Scores are float32 [n] of taken items, [n, drawn] of others, which stand for all `items`; of these the user has
        `had`, bool [n, drawn], too.
        """
