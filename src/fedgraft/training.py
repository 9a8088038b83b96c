"""How a client trains: the options, and the optimiser over a model's one flat vector."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fedgraft.errors import require, require_one_of
from fedgraft.flat import FlatModel
from fedgraft.types import Array

OPTIMIZERS = ("sgd", "adam", "adamw")
SCHEDULES = ("constant", "linear", "cosine", "one_cycle")


@dataclass(frozen=True)
class Training:
    """How a client trains in a round; the same at every client.

    Args:
        epochs: passes over its examples, >= 1.
        blocks: how many of the task's blocks a pass takes, drawn anew each time; 0 takes all.
        optimizer: "sgd", "adam" or "adamw"; its state is fresh each round, so that nothing but parameters persists.
        learning_rate: at the first round, > 0.
        schedule: how the rate goes over the run, by rounds or by the byte budget, whichever is further: "constant";
            "linear" or "cosine" down to `final_rate` times the first; or "one_cycle", up as a power of the progress and
            then down as a cosine (Smith and Topin 2019).
        final_rate: in [0, 1].
        warm_up: share of the run in which "one_cycle" goes up, in [0, 1).
        warm_up_power: of the rise, > 0; 1 is a straight line.
        momentum: of SGD, in [0, 1).
        second_moment: decay of the mean squared gradient in "adam" and "adamw", in [0, 1).
        weight_decay: L2 penalty added to the gradient, or with "adamw" a share of the parameters per step, >= 0.
        clip: largest norm of a step's gradient, >= 0; 0 leaves it alone.
    """

    epochs: int = 1
    blocks: int = 0
    optimizer: str = "adam"
    learning_rate: float = 0.005
    schedule: str = "cosine"
    final_rate: float = 0.05
    warm_up: float = 0.3
    warm_up_power: float = 1.0
    momentum: float = 0.0
    second_moment: float = 0.999
    weight_decay: float = 0.0
    clip: float = 0.0

    def __post_init__(self) -> None:
        require(self.epochs >= 1, "training.epochs", ">= 1", self.epochs)
        require_one_of("training.optimizer", self.optimizer, OPTIMIZERS)
        require(self.learning_rate > 0, "training.learning_rate", "> 0", self.learning_rate)
        require_one_of("training.schedule", self.schedule, SCHEDULES)
        require(0 <= self.final_rate <= 1, "training.final_rate", "in [0, 1]", self.final_rate)
        require(self.blocks >= 0, "training.blocks", ">= 0 (0 = all)", self.blocks)
        require(0 <= self.warm_up < 1, "training.warm_up", "in [0, 1)", self.warm_up)
        require(self.warm_up_power > 0, "training.warm_up_power", "> 0", self.warm_up_power)
        require(0 <= self.momentum < 1, "training.momentum", "in [0, 1)", self.momentum)
        require(0 <= self.second_moment < 1, "training.second_moment", "in [0, 1)", self.second_moment)
        require(self.weight_decay >= 0, "training.weight_decay", ">= 0", self.weight_decay)
        require(self.clip >= 0, "training.clip", ">= 0", self.clip)

    def rate(self, progress: float) -> float:
        """The learning rate when this share of the run is over, 0 in its first round and 1 in its last."""
        rising = self.warm_up if self.schedule == "one_cycle" else 0.0
        if progress < rising:
            return float(self.learning_rate * max(self.final_rate, (progress / rising) ** self.warm_up_power))
        falling = (progress - rising) / (1.0 - rising)
        if self.schedule == "constant":
            share = 1.0
        elif self.schedule == "linear":
            share = 1.0 - falling
        else:
            share = 0.5 + 0.5 * math.cos(math.pi * falling)
        return self.learning_rate * (self.final_rate + (1.0 - self.final_rate) * share)


class Optimizer:
    """A torch optimiser over the one flat vector, made once per worker and reset for every client."""

    def __init__(self, training: Training, flat: FlatModel) -> None:
        self._flat = flat
        self._vector = torch.nn.Parameter(flat.vector, requires_grad=True)
        self._vector.data = flat.vector
        self._vector.grad = flat.gradient
        if training.optimizer in ("adam", "adamw"):
            kind = torch.optim.Adam if training.optimizer == "adam" else torch.optim.AdamW
            betas = (0.9, training.second_moment)
            self._torch: torch.optim.Optimizer = kind(
                [self._vector], betas=betas, weight_decay=training.weight_decay, fused=True
            )
        else:
            self._torch = torch.optim.SGD(
                [self._vector], lr=1.0, momentum=training.momentum, weight_decay=training.weight_decay, fused=True
            )

    def reset(self, learning_rate: float) -> None:
        """Forget all moments and take a new rate."""
        self._torch.state.clear()
        self._torch.param_groups[0]["lr"] = learning_rate

    def read(self) -> dict[str, Array]:
        """Copies of its moments."""
        state = self._torch.state.get(self._vector, {})
        return {name: value.detach().cpu().numpy().copy() for name, value in state.items() if torch.is_tensor(value)}

    def load(self, moments: Mapping[str, Array]) -> None:
        """Take up where `read` was called."""
        on = {name: torch.from_numpy(np.array(value)).to(self._vector.device) for name, value in moments.items()}
        self._torch.state[self._vector] = on

    def park(self) -> dict[str, Any]:
        """Put its moments aside, as they are."""
        return dict(self._torch.state.pop(self._vector, {}))

    def unpark(self, moments: dict[str, Any]) -> None:
        """Take up what was put aside."""
        if moments:
            self._torch.state[self._vector] = moments

    def step(self) -> None:
        """Move the vector along its gradient."""
        self._vector.data = self._flat.vector  # it may have been put aside since
        self._torch.step()
