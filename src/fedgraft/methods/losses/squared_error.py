"""Squared error: half the square of what a number is wrong by."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from torch import Tensor, nn

from fedgraft.contracts.loss import NumberObjective
from fedgraft.contracts.ranges import ProperFraction


@dataclass(frozen=True)
class SquaredError(NumberObjective):
    """Squared error: half the square of what a number is wrong by.

    Source: Huber, "Robust Estimation of a Location Parameter", 1964 (`huber`).

    Args:
        huber: error, in standard deviations, above which a loss is linear and no longer squared, >= 0; 0 = none.
        dropout: share of each hidden layer dropped in training, in [0, 1).
    """

    huber: Annotated[float, Ge(0), "0 = squared errors"] = 0.0
    dropout: ProperFraction = 0.0

    def losses(self, outputs: Tensor, label: Tensor) -> Tensor:
        """Return the loss of each example, float32 [n]."""
        if self.huber:
            return nn.functional.huber_loss(outputs, label, reduction="none", delta=self.huber)
        return 0.5 * (outputs - label).square()
