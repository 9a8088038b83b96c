"""What a trainer shows of its model, and the state of a run of its steps."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts import (
    Batch,
    Correction,
    HiddenPenalty,
    Observations,
    Penalty,
    Projection,
    StructurePenalty,
)
from fedgraft.contracts.structure import WHOLE, Augmentation, LocalGraph, Structure
from fedgraft.engine.plan import Plan
from fedgraft.engine.training import Moments
from fedgraft.errors import DivergedError, FedgraftError
from fedgraft.nn.flat_model import FlatModel
from fedgraft.wire.layouts import Arrays

SEEDS = 2**31
"""Number of different seeds of a draw."""


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


class ModelViews:
    """What a model makes of a client's data, or of data that are nobody's, as it is after the last step.

    Args:
        plan: what both ends agreed on.
        flat: the model.
        data: the client's, prepared.
        g: the client's generator of this round.
    """

    def __init__(self, plan: Plan, flat: FlatModel, data: Any, g: np.random.Generator) -> None:
        self._plan, self._flat, self._data, self._g = plan, flat, data, g
        self.steps = 0
        self._meanwhile: Arrays = {}  # what was loaded, and put off
        # By steps: samplers and sharing methods look at the same.
        self._observed: tuple[int, Observations] | None = None
        self._view = 0

    def observe(self) -> Observations:
        """What the model makes of all training examples now."""
        observed = self._plan.observed
        if observed is None:
            raise self._blind("does not tell what a model makes of its examples")
        self._catch_up()
        if self._observed is None or self._observed[0] != self.steps:
            with self._looking() as model:
                self._observed = self.steps, observed.observe(model, self._data)
        return self._observed[1]

    def structure(self, left_out: Augmentation = WHOLE) -> Structure:
        """What the model makes of all nodes now, and their edges; less what is left out of the graph."""
        structured = self._plan.structured
        if structured is None:
            raise self._blind("does not tell what a model makes of nodes")
        with self._looking() as model:
            self._view = self._view or (self._seed() if left_out != WHOLE else 0)  # a round taken up sees it again
            hidden = structured.states(model, self._data, left_out, self._view).numpy(force=True)
        return Structure(hidden, *structured.edges(self._data))

    def local_graph(self) -> LocalGraph:
        """A client's part of a graph, and what the model makes of it now."""
        if (shown := self._plan.local_graphs) is None:
            raise self._blind("shows no client's part of a graph")
        with self._looking() as model:
            return shown.local_graph(model, self._data)

    def respond(self) -> NDArray[np.float32]:
        """What the model makes of data that are nobody's, float32 [response width]."""
        if (responding := self._plan.responding) is None:
            raise self._blind("draws no data that are nobody's")
        with self._looking() as model:
            made: NDArray[np.float32] = responding.response(model, self._plan.synthetic)
        return made

    @contextmanager
    def _looking(self) -> Iterator[torch.nn.Module]:
        """The model as it scores, for the time of a look."""
        self._catch_up()
        with torch.no_grad():
            yield self._flat.module.eval()
        self._flat.module.train()

    def _blind(self, why: str) -> FedgraftError:
        return FedgraftError(f"{type(self._plan.task).__name__} {why}.")

    def read(self, names: Sequence[str] | None = None) -> Arrays:
        """Copies of the named parameters, all by default."""
        self._catch_up()
        return self._flat.read(names)

    def difference(self, start: Arrays) -> Arrays:
        """The named parameters as they are, less what is given for each."""
        self._catch_up()
        return self._flat.difference(start)

    def _catch_up(self) -> None:
        if self._meanwhile:
            self._flat.load(self._meanwhile)
            self._meanwhile = {}

    def _seed(self) -> int:
        return int(self._g.integers(SEEDS))
