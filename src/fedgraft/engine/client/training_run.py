"""What a run of local training is made of: where it is, how it is steered, and what is left of it."""

from dataclasses import dataclass, field
from typing import NamedTuple

from fedgraft.contracts import Correction, Draw, HiddenPenalty, Penalty, Projection
from fedgraft.engine.training import Moments
from fedgraft.wire.layouts import Arrays


@dataclass
class Walk:
    """The place of a run: passes made and to come, blocks to come, the block at hand and its draws to come."""

    passes: int = 0
    made: int = 0
    blocks: list[int] = field(default_factory=list)
    block: int = 0
    draws: list[Draw] = field(default_factory=list)


class Hooks(NamedTuple):
    """How a sharing method steers a run; see `Trainer`."""

    penalty: Penalty | None = None
    hidden_penalty: HiddenPenalty | None = None
    correct_gradient: Correction | None = None
    project: Projection | None = None


@dataclass(frozen=True)
class Done:
    """A run that has ended: the parameters, the steps, examples and sums of losses so far, and moments to keep."""

    arrays: Arrays
    counts: tuple[int, int, float, float]
    moments: Moments
