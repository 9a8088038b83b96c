"""Pair entropy: cross-entropy of a pair that is joined, and of pairs drawn that are not."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import softplus

from fedgraft.contracts.loss import PairObjective
from fedgraft.contracts.ranges import PositiveInt, ProperFraction


@dataclass(frozen=True)
class PairEntropy(PairObjective):
    """Pair entropy: cross-entropy of a pair that is joined, and the mean of those of pairs drawn that are not.

    Source: Kipf and Welling, "Variational Graph Auto-Encoders", NIPS workshop 2016.

    Args:
        negatives: pairs without an edge that a training edge learns against in a step, >= 1.
        dropout: share of each hidden layer dropped in training, in [0, 1).
    """

    negatives: PositiveInt = 1
    dropout: ProperFraction = 0.0

    def losses(self, joined: Tensor, others: Tensor, drawn: Tensor) -> Tensor:
        """Return the loss of each pair, float32 [n]."""
        return softplus(-joined) + (softplus(others) * drawn).mean(1)
