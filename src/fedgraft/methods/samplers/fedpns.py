"""FedPNS: all examples; neighbours elsewhere are drawn, and their rows asked for, every few passes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedgraft.contracts import Batch, Indices, PositiveInt, Sampler, Stage

SEEDS = 2**31
"""How many different draws of neighbours there are."""


@dataclass(frozen=True)
class FedPNS(Sampler[int]):
    """FedPNS: all examples; neighbours elsewhere are drawn, and their rows asked for, every few passes.

    In between the same neighbours take part with the rows that were asked for then.

    Source: Du and Wu, "Federated graph learning with periodic neighbour sampling", IWQoS 2022; interval as in Li et
        al., "FedAIS", AAAI 2025.
    Differs: own neighbours are drawn as rarely as those elsewhere. Not the FedPNS of Wu and Wang, TNSE 2022.

    Args:
        interval: passes between two draws, >= 1; 2 as in FedAIS's experiments.
        batches: steps of a pass, >= 1; 10 as in FedAIS.

    State: the number that the draws of the present interval come from.
    Cost: no bytes; rows of the neighbours drawn, every `interval` passes.
    """

    interval: PositiveInt = 2
    batches: PositiveInt = 10

    def refreshes(self, epochs: int) -> int:
        """At the first step of each interval."""
        return -(-epochs // self.interval)

    def init(self, examples: int) -> int:
        """Return the first state: nothing has been drawn."""
        return 1

    def draw(self, state: int, block: Indices, stage: Stage, g: np.random.Generator) -> Sequence[Batch]:
        """The block, int64 [n], in random parts of nearly equal size; nothing of an empty one."""
        if not len(block):
            return []
        due = stage.epoch % self.interval == 0
        seed = int(g.integers(1, SEEDS)) if due else state
        parts = np.array_split(g.permutation(block), min(self.batches, len(block)))
        draws = [Batch(np.sort(part), seed=seed) for part in parts]
        if due:
            draws[0] = replace(draws[0], refresh=True, ahead=block)
        return draws

    def update(self, state: int, draw: Batch, losses: np.ndarray[tuple[int], np.dtype[np.float32]]) -> int:
        """Remembers what the neighbours of this interval come from."""
        return draw.seed
