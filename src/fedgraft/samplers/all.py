"""All: every training example, in minibatches or all at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgraft.contracts import Draw, Indices, Sampler, Stage
from fedgraft.errors import require


@dataclass(frozen=True)
class All(Sampler[None]):
    """All: every training example of a block once, in random minibatches.

    Source: plain stochastic gradient descent; what "no sampling" means in every paper here.
    Differs: nothing known.

    Args:
        batch_size: examples per local step, about: a block is cut into equal parts of nearly this size; 0 = whole.

    State: none.
    Cost: no bytes.
    """

    batch_size: int = 0

    def __post_init__(self) -> None:
        require(self.batch_size >= 0, "All.batch_size", ">= 0 (0 = whole blocks)", self.batch_size)

    def init(self, examples: int) -> None:
        """Nothing to remember."""

    def draw(self, state: None, block: Indices, stage: Stage, g: np.random.Generator) -> Sequence[Draw]:
        """The block in random parts of nearly equal size; nothing of an empty one."""
        if not len(block):
            return []
        parts = max(1, round(len(block) / self.batch_size)) if self.batch_size else 1
        if parts == 1:
            return [Draw(block)]
        return [Draw(np.sort(part)) for part in np.array_split(g.permutation(block), parts)]
