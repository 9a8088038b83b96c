"""Uniform: a random share of the training examples in every pass."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgraft.contracts import Batch, Indices, Sampler, Stage
from fedgraft.contracts.ranges import PositiveInt, PositiveProportion


@dataclass(frozen=True)
class Uniform(Sampler[None]):
    """Uniform: a random share of the training examples in every pass.

    Each step draws its part of the share from the whole block, every example equally likely and at most once a step.

    Source: Li et al., "FedAIS", AAAI 2025, section "Experiments" (FedRandom).
    Differs: the paper does not give FedRandom's share; the default is FedAIS's.

    Args:
        share: of a block that a pass takes, in (0, 1]; 0.7 as FedAIS.
        batches: steps of a pass, >= 1; 10 as FedAIS.
        refresh: whether a client asks for other clients' rows anew before every step, if its task has any; else never.

    State: none.
    Cost: no bytes; with `refresh`, rows of nodes for every step.
    """

    share: PositiveProportion = 0.7
    batches: PositiveInt = 10
    refresh: bool = False

    def refreshes(self, epochs: int) -> int:
        """Once a step, if at all."""
        return epochs * self.batches if self.refresh else 0

    def init(self, examples: int) -> None:
        """Return the first state: nothing to remember."""

    def draw(self, state: None, block: Indices, stage: Stage, g: np.random.Generator) -> Sequence[Batch]:
        """So many random parts of the block, int64 [n]; nothing of an empty one."""
        if not len(block):
            return []
        size = max(1, round(self.share * len(block) / self.batches))
        return [Batch(np.sort(g.choice(block, size, replace=False)), refresh=self.refresh) for _ in range(self.batches)]
