"""Options of local training, and the optimiser over a model's one flat vector."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

import numpy as np
import torch
from annotated_types import Ge
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts.ranges import (
    NonNegativeFloat,
    OneOf,
    PositiveFloat,
    PositiveInt,
    ProperFraction,
    Proportion,
    check_ranges,
)
from fedgraft.nn.flat_model import FlatModel

OPTIMIZERS = ("sgd", "adam", "adamw")
Moments: TypeAlias = Mapping[str, int | NDArray[np.float32]]
"""An optimiser's state by torch's names, as a client may remember it."""
SCHEDULES = ("constant", "linear", "cosine", "one_cycle")


@dataclass(frozen=True)
class Training:
    """Options of a client's training in a round; the same at every client.

    Args:
        epochs: passes over its examples, >= 1.
        blocks: how many of the task's blocks a pass takes, drawn anew each time; 0 takes all.
        optimizer: "sgd", "adam" or "adamw".
        keep_moments: whether a client's optimiser goes on in its next round where it was (Adam's two moments and count
            of steps, SGD's momentum), or starts afresh each round. Moments stay in the client's memory, 8 bytes a
            parameter with Adam and 4 with momentum, for each run of a round, and are never sent. Those of a client
            that has not trained for long are as it left them.
        proximal: mu of FedProx's term mu / 2 ||w - received||^2 over the parameters that are shared, with any sharing
            method, >= 0; 0 = none. It enters as its gradient: reported losses are of the examples alone.
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

    epochs: PositiveInt = 1
    blocks: Annotated[int, Ge(0), "0 = all"] = 0
    optimizer: Annotated[str, OneOf(OPTIMIZERS)] = "adam"
    keep_moments: bool = False
    proximal: NonNegativeFloat = 0.0
    learning_rate: PositiveFloat = 0.005
    schedule: Annotated[str, OneOf(SCHEDULES)] = "cosine"
    final_rate: Proportion = 0.05
    warm_up: ProperFraction = 0.3
    warm_up_power: PositiveFloat = 1.0
    momentum: ProperFraction = 0.0
    second_moment: ProperFraction = 0.999
    weight_decay: NonNegativeFloat = 0.0
    clip: NonNegativeFloat = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, "training")

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


FIRST_MOMENT: Final = 0.9
"""Decay of Adam's mean gradient (Kingma and Ba, ICLR 2015, Algorithm 1)."""
EPSILON: Final = 1e-8
"""What keeps Adam from dividing by zero (the same)."""


class Optimizer:
    """torch's fused kernels over the one flat vector, made once per worker and reset for every client.

    They are called as they are: what `torch.optim` does around them takes longer than they do on a small model, and
    moments made anew for every client take as long as a step on a large one.
    """

    def __init__(self, training: Training, flat: FlatModel) -> None:
        self._training, self._flat = training, flat
        self._adam = training.optimizer in ("adam", "adamw")
        names = ("exp_avg", "exp_avg_sq") if self._adam else ("momentum_buffer",) if training.momentum else ()
        self._names = ("step", *names)
        self._moments = self._made()
        self._rate, self._begun = training.learning_rate, False

    def reset(self, learning_rate: float, moments: Moments | None = None) -> None:
        """Take a new rate, and forget all moments or go on with those that `moments` returned."""
        self._rate, self._begun = learning_rate, bool(moments)
        for name, value in (moments or {}).items():
            self._moments[name].copy_(torch.tensor(value))

    def moments(self) -> Moments:
        """Return copies of the moments: {"step": int, and by torch's names float32 [parameters]}; {} for none."""
        if not self._begun or len(self._names) == 1:
            return {}
        step, *others = self._names
        return {step: int(self._moments[step]), **{name: self._copy(name) for name in others}}

    def park(self) -> dict[str, Any]:
        """Put its moments aside, as they are."""
        if not self._begun:
            return {}
        parked, self._moments, self._begun = self._moments, self._made(), False
        return parked

    def unpark(self, moments: dict[str, Any]) -> None:
        """Take up what was put aside."""
        self._begun = bool(moments)
        self._moments = moments or self._moments

    def step(self) -> None:
        """Move the vector along its gradient, but for frozen parameters."""
        first, moments, training, moving = not self._begun, self._moments, self._training, self._flat.moving
        if first:
            self._begun = True
            for moment in moments.values():
                moment.zero_()
        vectors, gradients = moving(self._flat.vector), moving(self._flat.gradient)
        if not vectors:  # all is frozen, and the kernels do not take nothing
            return
        if self._adam:
            moments["step"] += 1
            move = torch._fused_adam_ if training.optimizer == "adam" else torch._fused_adamw_
            move(
                vectors,
                gradients,
                moving(moments["exp_avg"]),
                moving(moments["exp_avg_sq"]),
                [],
                [moments["step"]] * len(vectors),
                lr=self._rate,
                beta1=FIRST_MOMENT,
                beta2=training.second_moment,
                weight_decay=training.weight_decay,
                eps=EPSILON,
                amsgrad=False,
                maximize=False,
            )
        else:
            torch._fused_sgd_(
                vectors,
                gradients,
                moving(moments["momentum_buffer"]) if training.momentum else [],
                weight_decay=training.weight_decay,
                momentum=training.momentum,
                lr=self._rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
                is_first_step=first,
            )

    def _copy(self, name: str) -> NDArray[np.float32]:
        return np.array(self._moments[name].numpy(force=True))

    def _made(self) -> dict[str, Tensor]:
        vector = self._flat.vector
        moments = {name: torch.empty_like(vector) for name in self._names[1:]}
        return {"step": torch.zeros((), device=vector.device), **moments}
