"""All: every training example, in minibatches or all at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge

from fedgraft.contracts import Batch, Indices, Sampler, Stage
from fedgraft.errors import require


@dataclass(frozen=True)
class All(Sampler[None]):
    """All: every training example of a block once, in random minibatches.

    Source: plain stochastic gradient descent; what "no sampling" means in every paper here.
    Differs: nothing known.

    Args:
        batch_size: examples per local step, about: a block is cut into equal parts of nearly this size; 0 = whole.
        batches: into how many equal parts a block is cut instead, at most one for each example; 0 = by `batch_size`.
        refresh: whether a client asks for other clients' rows anew before every step, if its task has any; else never.

    State: none.
    Cost: no bytes; with `refresh`, rows of nodes for every step.
    """

    batch_size: Annotated[int, Ge(0), "0 = whole blocks"] = 0
    batches: Annotated[int, Ge(0), "0 = by batch_size"] = 0
    refresh: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        both = self.batches > 0 and self.batch_size > 0
        require(not both, "All.batches", "0 where batch_size is given", self.batches)

    def refreshes(self, epochs: int) -> int:
        """Once a step, if at all; how many steps a pass has is known where `batches` are given."""
        if self.refresh and self.batches == 0:
            require(self.batch_size == 0, "All.batch_size", "0 with refresh; give batches instead", self.batch_size)
        return epochs * max(1, self.batches) if self.refresh else 0

    def init(self, examples: int) -> None:
        """Return the first state: nothing to remember."""

    def draw(self, state: None, block: Indices, stage: Stage, g: np.random.Generator) -> Sequence[Batch]:
        """The block, int64 [n], in random parts of nearly equal size; nothing of an empty one."""
        if not len(block):
            return []
        parts = min(self.batches, len(block)) or 1
        if self.batch_size:
            parts = max(1, round(len(block) / self.batch_size))
        if parts == 1:
            return [Batch(block, refresh=self.refresh)]
        return [Batch(np.sort(part), refresh=self.refresh) for part in np.array_split(g.permutation(block), parts)]
