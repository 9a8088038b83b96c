"""Models that are linear in features of examples: what sums over training examples determine."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic

from fedgraft.contracts.task import Prepared, Shard
from fedgraft.contracts.values import Indices, Regression


@dataclass(frozen=True)
class Linear:
    """A linear model: outputs = W x + b, and where its parameters are. It has no others.

    Args:
        weight: name of the parameter W.
        bias: name of the parameter b, [outputs].
        features: columns of x.
        outputs: classes, or numbers that are told of an example.
        classes: whether outputs are logits of classes.
        by_features: whether W lies as [features, outputs], and not as [outputs, features].
    """

    weight: str
    bias: str
    features: int
    outputs: int
    classes: bool
    by_features: bool = False


class LinearTask(ABC, Generic[Shard, Prepared]):
    """Ability: have a linear model with some options, and tell the training examples as it sees them."""

    @property
    @abstractmethod
    def linear(self) -> Linear | None:
        """The linear model; None where with these options the model is another."""

    @abstractmethod
    def regression(self, data: Prepared, examples: Indices) -> Regression:
        """Return some training examples, given their places among these, as the linear model sees them."""
