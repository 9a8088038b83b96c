"""A client's local training: the common SGD loop that sharing methods may steer by two hooks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts import Correction, Draw, Indices, Penalty, Projection, Sampler, Task
from fedgraft.errors import ClientError, require, require_one_of
from fedgraft.flat import FlatModel
from fedgraft.types import Arrays

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

    def step(self) -> None:
        """Move the vector along its gradient."""
        self._torch.step()


class LocalTrainer:
    """One client's round of training (the `Trainer` of the contracts).

    Args:
        task: gives blocks and losses.
        sampler: gives the steps of each block.
        training: how many epochs, and with what optimiser.
        flat: the worker's model.
        optimizer: the worker's optimiser over `flat`.
        data: the client's prepared data.
        sampler_state: what the sampler remembers of this client.
        g: the client's generator of this round.
        learning_rate: of this round.
        collects: whether what this round makes is sent to the server.
    """

    def __init__(
        self,
        task: Task[Any, Any],
        sampler: Sampler[Any],
        training: Training,
        flat: FlatModel,
        optimizer: Optimizer,
        data: Any,
        sampler_state: Any,
        g: np.random.Generator,
        learning_rate: float,
        collects: bool = True,
    ) -> None:
        self._task, self._sampler, self._training = task, sampler, training
        self._flat, self._optimizer, self._data, self._g = flat, optimizer, data, g
        self.learning_rate, self.collects = learning_rate, collects
        self.sampler_state = sampler_state
        self.steps = 0
        self.examples = 0
        self._loss = 0.0
        self._loss_sq = 0.0

    def load(self, arrays: Arrays) -> None:
        """Overwrite the named parameters."""
        self._flat.load(arrays)

    def read(self, names: Sequence[str] | None = None) -> Arrays:
        """Copies of the named parameters, all by default."""
        return self._flat.read(names)

    def run(
        self,
        penalty: Penalty | None = None,
        correct_gradient: Correction | None = None,
        project: Projection | None = None,
        epochs: int | None = None,
    ) -> None:
        """So many local epochs, by default the configured number: blocks in random order, every draw one step."""
        self._optimizer.reset(self.learning_rate)
        if not self._flat.module.training:
            self._flat.module.train()
        blocks = self._task.blocks(self._data)
        for _ in range(self._training.epochs if epochs is None else epochs):
            for index in self._g.permutation(len(blocks))[: self._training.blocks or None]:
                self._train_block(blocks[index], penalty, correct_gradient, project)

    def report(self) -> dict[str, float]:
        """What happened so far: mean sample loss and mean squared sample loss over all steps."""
        if not self.examples:
            return {"loss": math.nan, "loss_sq": math.nan}
        return {"loss": self._loss / self.examples, "loss_sq": self._loss_sq / self.examples}

    def _train_block(
        self,
        block: Indices,
        penalty: Penalty | None,
        correct_gradient: Correction | None,
        project: Projection | None,
    ) -> None:
        """One step per draw; what the draws share is encoded once, and learns with the last of them."""
        draws = self._sampler.draw(self.sampler_state, block, self._g)
        encoded = self._task.encode(self._flat.module, self._data, block) if draws else None
        shared = None if encoded is None else encoded.detach().requires_grad_()
        for number, draw in enumerate(draws, start=1):
            losses = self._task.loss(self._flat.module, self._data, draw, shared)
            self._flat.gradient.zero_()
            self._objective(losses, draw, penalty).backward()  # type: ignore[no-untyped-call]
            if encoded is not None and shared is not None and shared.grad is not None and number == len(draws):
                encoded.backward(shared.grad / len(draws))  # type: ignore[no-untyped-call]
            if correct_gradient is not None:
                correct_gradient(self._flat.parameters, self._flat.gradients)
            self._clip()
            self._optimizer.step()
            if project is not None:
                with torch.no_grad():
                    project(self._flat.parameters)
            self._note(draw, losses.detach().cpu().numpy())

    def _objective(self, losses: torch.Tensor, draw: Draw, penalty: Penalty | None) -> torch.Tensor:
        if draw.weights is None:
            loss = losses.mean()
        else:
            loss = (losses * torch.from_numpy(draw.weights).to(losses.device)).mean()
        if penalty is not None:
            loss = loss + penalty(self._flat.parameters)
        return loss

    def _note(self, draw: Draw, seen: NDArray[np.float32]) -> None:
        self.sampler_state = self._sampler.update(self.sampler_state, draw, seen)
        self.steps += 1
        self.examples += len(seen)
        self._loss += float(seen.sum(dtype=np.float64))
        self._loss_sq += float(np.square(seen, dtype=np.float64).sum())

    def _clip(self) -> None:
        if self._training.clip > 0:
            norm = float(self._flat.gradient.norm())
            if not math.isfinite(norm):
                raise ClientError(f"the gradient of step {self.steps + 1} is not finite")
            if norm > self._training.clip:
                self._flat.gradient.mul_(self._training.clip / norm)
