"""Margin: what each item drawn lacks to be below the taken one."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from torch import Tensor
from torch.nn.functional import relu

from fedgraft.contracts.loss import RankingObjective
from fedgraft.contracts.ranges import PositiveFloat, ProperFraction


@dataclass(frozen=True)
class Margin(RankingObjective):
    """Margin: what each item drawn lacks to be far enough below the taken one, their mean.

    Source: Liu, Goudarzi, Toosi (multi-objective bandit participant selection), after DMRL.

    Args:
        margin: by how much an item drawn is to be below the taken one, > 0.
        negatives: items drawn in a step, the same for all its examples, >= 1; 0 takes all items.
        dropout: share of a user's vector and of the perceptrons' states dropped in training, in [0, 1).
    """

    margin: PositiveFloat = 1.0
    negatives: Annotated[int, Ge(0), "0 = all items"] = 128
    dropout: ProperFraction = 0.2

    def losses(self, taken: Tensor, others: Tensor, had: Tensor, items: int) -> Tensor:
        """Return the loss of each taken item, float32 [n]; 0 where the user has all of the others."""
        lacking = relu(others - taken[:, None] + self.margin).masked_fill(had, 0.0)
        return lacking.sum(1) / (~had).sum(1).clamp(min=1)
