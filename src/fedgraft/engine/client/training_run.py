"""What a run of local training is made of: where it is, how it is steered, and what is left of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from fedgraft.contracts import Batch, Correction, HiddenPenalty, Penalty, Projection, StructurePenalty
from fedgraft.engine.training import Moments
from fedgraft.errors import DivergedError
from fedgraft.wire.layouts import Arrays


@dataclass
class Walk:
    """The place of a run: passes made and to come, blocks to come, the block at hand and its draws to come."""

    passes: int = 0
    made: int = 0
    blocks: list[int] = field(default_factory=list)
    block: int = 0
    draws: list[Batch] = field(default_factory=list)


class Hooks(NamedTuple):
    """How a sharing method steers a run; see `Trainer`."""

    penalty: Penalty | None = None
    hidden_penalty: HiddenPenalty | None = None
    correct_gradient: Correction | None = None
    project: Projection | None = None
    structure_penalty: StructurePenalty | None = None

    @property
    def look(self) -> bool:
        """True where a step's hidden layers matter."""
        return self.hidden_penalty is not None or self.structure_penalty is not None


@dataclass(frozen=True)
class Done:
    """A run that has ended: the parameters, the steps, examples and sums of losses so far, and moments to keep."""

    arrays: Arrays
    counts: tuple[int, int, float, float]
    moments: Moments


def clip(gradients: Sequence[Tensor], longest: float, step: int) -> None:
    """Shorten gradients in place so that their common norm is at most `longest`.

    Raises `DivergedError`, which names the step, where they are not finite.
    """
    norm = math.hypot(*(float(gradient.norm()) for gradient in gradients))
    if not math.isfinite(norm):
        raise DivergedError(f"the gradient of step {step} is not finite")
    if norm > longest:
        for gradient in gradients:
            gradient.mul_(longest / norm)
