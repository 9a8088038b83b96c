"""All: every training example, in minibatches or all at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgraft.contracts import Draw, Indices, Sampler
from fedgraft.errors import require


@dataclass(frozen=True)
class All(Sampler[None]):
    """All: every training example of a block once, in random minibatches.

    Source: plain stochastic gradient descent; what "no sampling" means in every paper here.
    Differs: nothing known.

    Args:
        batches: local steps per block, >= 1; 1 takes the whole block in one step.

    State: none.
    Cost: no bytes.
    """

    batches: int = 1

    def __post_init__(self) -> None:
        require(self.batches >= 1, "All.batches", ">= 1", self.batches)

    def init(self, examples: int) -> None:
        """Nothing to remember."""

    def draw(self, state: None, block: Indices, g: np.random.Generator) -> Sequence[Draw]:
        """The block cut into `batches` random parts of nearly equal size, empty ones left out."""
        if self.batches == 1:
            return [Draw(block)] if len(block) else []
        parts = np.array_split(g.permutation(block), self.batches)
        return [Draw(np.sort(part)) for part in parts if len(part)]
