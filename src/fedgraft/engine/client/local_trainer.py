"""A client's local training: the common SGD loop that sharing methods may steer by three hooks."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts import Correction, Draw, Indices, Penalty, Projection, Sampler, Stage, Task, randomness
from fedgraft.engine.training import Optimizer, Training
from fedgraft.errors import ClientError, FedgraftError
from fedgraft.nn.flat_model import FlatModel
from fedgraft.wire.layouts import Arrays, Tree

CHANCES = 2**31
"""How many different chances a draw can have."""


class Paused(Exception):
    """A training stopped before a step that is to see other clients' rows anew.

    Args:
        asked: slots of the halo that the step reads, for each layer.
    """

    def __init__(self, asked: Sequence[Indices] = ()) -> None:
        super().__init__("paused")
        self.asked = asked


@dataclass
class _Walk:
    """Where a run is: passes made and to come, blocks to come, the block at hand and its draws to come."""

    passes: int = 0
    made: int = 0
    blocks: list[int] = field(default_factory=list)
    block: int = 0
    draws: list[Draw] = field(default_factory=list)

    def pack(self) -> Tree:
        draws: list[Tree] = [{**vars(draw), "neighbours": [*draw.neighbours]} for draw in self.draws]
        return {**vars(self), "blocks": [*self.blocks], "draws": draws}

    @classmethod
    def unpack(cls, packed: Any) -> "_Walk":
        draws = [Draw(**{**draw, "neighbours": tuple(draw["neighbours"])}) for draw in packed["draws"]]
        return cls(**{**packed, "blocks": list(packed["blocks"]), "draws": draws})


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
        generator: makes the client's generator of this round, which is asked for once it is needed.
        learning_rate: of this round.
        collects: whether what this round makes is sent to the server.
        waits: whether it pauses where draws ask to refresh; else they ask in vain.
        told: what the sampler's other half told from the server.
        heard: whether all that changed of other clients' rows came with the model, so that the round's first step
            need not ask for it.
        paused: what an earlier trainer of this round told by `pause`, None for a new round. The sharing method begins
            anew; what it ran to its end before is not trained again but loaded, and the run that was paused goes on.
        fresh: whether `flat` is as it was loaded last.
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
        generator: Callable[[], np.random.Generator],
        learning_rate: float,
        collects: bool = True,
        waits: bool = False,
        told: Mapping[str, float] | None = None,
        heard: bool = False,
        paused: Tree = None,
        fresh: bool = False,
    ) -> None:
        self._task, self._sampler, self._training = task, sampler, training
        self._flat, self._optimizer, self._data, self._generator = flat, optimizer, data, generator
        self.learning_rate, self.collects = learning_rate, collects
        self.sampler_state = sampler_state
        self.steps = 0
        self.examples = 0
        self._loss = 0.0
        self._loss_sq = 0.0
        self._seen: list[NDArray[np.float32]] = []
        self._waits, self._told, self._heard = waits, told or {}, heard
        self._looks = (sampler.observes or bool(task.tables)) and paused is None
        self._encodes, self._chancy = type(task).encode is not Task.encode, task.chancy
        self._equal: dict[int, torch.Tensor] = {}
        self._done: list[Tree] = []
        self._walk = _Walk()
        self._blocks = task.blocks(data)
        self._paused = cast(dict[str, Any], paused) if paused is not None else {}
        self._untouched = fresh
        self._meanwhile: Arrays = {}
        self._replays: list[Tree] = list(self._paused.get("done", ()))

    def load(self, arrays: Arrays) -> None:
        """Overwrite the named parameters; what the client's model has just been loaded with is there already."""
        if self._replays or self._paused:  # the run to come restores all; it matters to those who look before it
            self._meanwhile |= arrays
            return
        there, self._untouched = self._flat.loaded if self._untouched else {}, False
        self._flat.load({name: array for name, array in arrays.items() if there.get(name) is not array})

    def read(self, names: Sequence[str] | None = None) -> Arrays:
        """Copies of the named parameters, all by default."""
        self._catch_up()
        return self._flat.read(names)

    def difference(self, start: Arrays) -> Arrays:
        """The named parameters as they are, less what is given for each."""
        self._catch_up()
        return self._flat.difference(start)

    def run(
        self,
        penalty: Penalty | None = None,
        correct_gradient: Correction | None = None,
        project: Projection | None = None,
        epochs: int | None = None,
        held: Collection[str] = (),
    ) -> None:
        """So many local epochs, by default the configured number: blocks in random order, every draw one step.

        Parameters that are held stay as they are. Raises `Paused` before a step that is to see other clients' rows
        anew, unless it is the one it was paused at.
        """
        self._untouched, self._meanwhile = False, {}
        if not self._flat.module.training:
            self._flat.module.train()
        if self._replays:
            self._restore(self._replays.pop(0))
            self._note_done()
            return
        self._optimizer.reset(self.learning_rate)
        self._flat.hold(held)
        if self._paused:
            fresh = True
            self._take_up()
        else:
            fresh = False
            self._walk = _Walk(self._training.epochs if epochs is None else epochs)
            if self._looks:
                self._look()
        with torch.no_grad():  # entered once: gradients are mostly written by hand
            while self._walk.draws or self._next_block():
                self._train_draws(fresh, penalty, correct_gradient, project)
                fresh = False
        self._note_done()

    def park(self) -> Any:
        """As `pause`, as live objects: nothing is copied, and only a trainer over the same model can go on."""
        counts = self._counts()
        held = {"flat": self._flat.park(), "moments": self._optimizer.park(), "walk": self._walk, "g": self._g}
        return {"done": self._done, "parked": {**held, "counts": counts}}

    def pause(self) -> Tree:
        """Everything that another trainer of this round needs to go on, beside the sampler's state."""
        return {
            "done": self._done,
            "now": self._state(),
            "moments": dict(self._optimizer.read()),
            "walk": self._walk.pack(),
            "generator": randomness.state_of(self._g),
        }

    def report(self) -> dict[str, float]:
        """What happened so far: mean sample loss and mean squared sample loss over all steps."""
        self._sum_up()
        if not self.examples:
            return {"loss": math.nan, "loss_sq": math.nan}
        return {"loss": self._loss / self.examples, "loss_sq": self._loss_sq / self.examples}

    def _catch_up(self) -> None:
        if self._meanwhile:
            self._flat.load(self._meanwhile)
            self._meanwhile = {}

    def _next_block(self) -> bool:
        """Draw the steps of another block, of another pass if need be; whether there was one."""
        walk, blocks = self._walk, self._blocks
        while not walk.draws:
            if not walk.blocks and not walk.passes:
                return False
            if not walk.blocks:
                walk.passes, walk.made = walk.passes - 1, walk.made + 1
                count = len(blocks)  # a single one takes no draw
                order = self._g.permutation(count).tolist() if count > 1 else [0] * count
                walk.blocks = order[: self._training.blocks or None]
                continue
            walk.block = walk.blocks.pop(0)
            stage = Stage(walk.made - 1, self._told)
            g = self._g if self._sampler.chancy else randomness.UNUSED
            walk.draws = list(self._sampler.draw(self.sampler_state, blocks[walk.block], stage, g))
            if self._chancy or any(draw.neighbours for draw in walk.draws):
                walk.draws = [replace(draw, chance=draw.chance or self._chance()) for draw in walk.draws]
        return True

    @cached_property
    def _g(self) -> np.random.Generator:
        return self._generator()

    def _look(self) -> None:
        """At all training examples, before the first step of the round."""
        module, chance = self._flat.module, self._chance() if self._chancy else 0
        with torch.no_grad():
            losses = self._task.look(module.eval(), self._data, chance, self._sampler.observes)
        module.train()
        self._looks = False
        if self._sampler.observes:
            self.sampler_state = self._sampler.observe(self.sampler_state, losses)

    def _chance(self) -> int:
        return int(self._g.integers(CHANCES))

    def _must_wait(self) -> bool:
        """Whether a refresh before the next step takes another message."""
        return self._waits and not (self._heard and self.steps == 0 and self._task.pulls == "changed")

    def _encoded(self, block: Indices) -> torch.Tensor | None:
        """What the draws of a block share."""
        with torch.enable_grad():
            return self._task.encode(self._flat.module, self._data, block)

    def _train_draws(
        self,
        fresh: bool,
        penalty: Penalty | None,
        correct_gradient: Correction | None,
        project: Projection | None,
    ) -> None:
        """One step per draw; what the draws share is encoded once, and learns with the last of them."""
        walk, block = self._walk, self._blocks[self._walk.block]
        encoded = self._encoded(block) if self._encodes else None
        shared = None if encoded is None else encoded.detach().requires_grad_()
        count = len(walk.draws)
        while walk.draws:
            draw = walk.draws[0]
            if draw.refresh and self._must_wait():
                if encoded is not None:
                    name = type(self._task).__name__
                    raise FedgraftError(f"{name} encodes whole blocks; no refresh may interrupt it.")
                if not fresh:
                    raise Paused(self._task.needs(self._data, draw) if self._task.pulls == "asked" else ())
            fresh = False
            del walk.draws[0]
            losses = self._differentiate(draw, penalty, shared)
            if encoded is not None and shared is not None and shared.grad is not None and not walk.draws:
                encoded.backward(shared.grad / count)  # type: ignore[no-untyped-call]
            if correct_gradient is not None:
                correct_gradient(self._flat.parameters, self._flat.gradients)
            if self._training.clip > 0:
                self._clip()
            self._optimizer.step()
            if project is not None:
                project(self._flat.parameters)
            self._note(draw, losses.numpy(force=True))

    def _differentiate(self, draw: Draw, penalty: Penalty | None, shared: torch.Tensor | None) -> torch.Tensor:
        """Set the gradient of a step's objective; the losses of its examples."""
        flat = self._flat
        if shared is None:
            found = self._task.loss_with_back(flat.module, self._data, draw)
            if found is not None:
                losses, back = found
                back(self._shares(losses, draw))
                if penalty is not None:
                    self._differentiate_penalty(penalty)
                return losses
        for gradient in flat.moving(flat.gradient):
            gradient.zero_()
        with torch.enable_grad():
            losses = self._task.loss(flat.module, self._data, draw, shared)
            self._objective(losses, draw, penalty).backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def _shares(self, losses: torch.Tensor, draw: Draw) -> torch.Tensor:
        """The gradient of the mean of a draw's weighted losses."""
        count = losses.shape[0]
        if (equal := self._equal.get(count)) is None:
            equal = self._equal[count] = losses.new_full((count,), 1.0 / max(1, count))
        return equal if draw.weights is None else torch.from_numpy(draw.weights).to(losses.device) * equal

    def _differentiate_penalty(self, penalty: Penalty) -> None:
        with torch.enable_grad():
            added = penalty(self._flat.parameters)
            if added.requires_grad:
                added.backward()  # type: ignore[no-untyped-call]

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
        self._seen.append(seen)

    def _sum_up(self) -> None:
        """Losses of the steps since this was last called; between steps it would push their code out of the cache."""
        for seen in self._seen:
            losses = seen.astype(np.float64)
            self._loss += float(losses.sum())
            self._loss_sq += float(losses @ losses)
        self._seen = []

    def _state(self) -> Tree:
        """Parameters and counts as they are."""
        return {"arrays": dict(self._flat.read()), **self._counts()}

    def _counts(self) -> dict[str, Any]:
        self._sum_up()
        return {"steps": self.steps, "examples": self.examples, "loss": self._loss, "loss_sq": self._loss_sq}

    def _note_done(self) -> None:
        if self._waits:  # else no later run can pause
            self._done.append(self._state())

    def _restore(self, state: Tree) -> None:
        known = cast(dict[str, Any], state)
        self._flat.load(known["arrays"])
        self._recount(known)

    def _recount(self, known: Mapping[str, Any]) -> None:
        self.steps, self.examples = known["steps"], known["examples"]
        self._loss, self._loss_sq = known["loss"], known["loss_sq"]

    def _take_up(self) -> None:
        """Go on in the run that was paused."""
        if parked := self._paused.get("parked"):
            self._flat.unpark(parked["flat"])
            self._optimizer.unpark(parked["moments"])
            self._recount(parked["counts"])
            self._walk, self._g = parked["walk"], parked["g"]
            self._paused = {}
            return
        self._restore(self._paused["now"])
        self._optimizer.load(self._paused["moments"])
        self._walk = _Walk.unpack(self._paused["walk"])
        randomness.set_state(self._g, self._paused["generator"])
        self._paused = {}

    def _clip(self) -> None:
        gradients = self._flat.moving(self._flat.gradient)
        norm = math.hypot(*(float(gradient.norm()) for gradient in gradients))
        if not math.isfinite(norm):
            raise ClientError(f"the gradient of step {self.steps + 1} is not finite")
        if norm > self._training.clip:
            for gradient in gradients:
                gradient.mul_(self._training.clip / norm)
