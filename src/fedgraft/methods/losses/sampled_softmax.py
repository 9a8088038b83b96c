"""Sampled softmax: cross-entropy of the taken item among items drawn."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from fedgraft.contracts.loss import RankingObjective
from fedgraft.contracts.ranges import ProperFraction


@dataclass(frozen=True)
class SampledSoftmax(RankingObjective):
    """Sampled softmax: cross-entropy of the taken item among items drawn, which stand for all.

    With n of N items drawn, each counts N / n times.

    Args:
        negatives: items drawn in a step, the same for all its examples, >= 1; 0 takes all items.
        dropout: share of a user's vector and of the perceptrons' states dropped in training, in [0, 1).
    """

    negatives: Annotated[int, Ge(0), "0 = all items"] = 128
    dropout: ProperFraction = 0.2

    def losses(self, taken: Tensor, others: Tensor, had: Tensor, items: int) -> Tensor:
        """Return the cross-entropy of each taken item, float32 [n]."""
        others = (others + math.log(items / others.shape[1])).masked_fill(had, -torch.inf)
        return torch.logsumexp(torch.cat([taken[:, None], others], 1), 1) - taken
