"""A client's local training: the common SGD loop that sharing methods may steer by five hooks."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts import Batch, Correction, HiddenPenalty, Indices, Penalty, Projection, Stage
from fedgraft.contracts.structure import WHOLE, StructurePenalty
from fedgraft.contracts.task import Loss, example_losses
from fedgraft.contracts.values import Losses, Regression
from fedgraft.engine.client.model_views import ModelViews
from fedgraft.engine.client.training_run import Done, Hooks, Walk, clip
from fedgraft.engine.plan import Plan
from fedgraft.engine.training import Moments, Optimizer
from fedgraft.errors import FedgraftError
from fedgraft.nn.flat_model import FlatModel
from fedgraft.nn.proximal import pull_towards
from fedgraft.wire.layouts import Arrays

SEEDS = 2**31
"""Number of different seeds of a draw."""
PART = 1024
"""Examples of a part of `LocalTrainer.regression`: some megabytes of features."""


class Paused(Exception):
    """A training stopped before a step that is to see other clients' rows anew.

    Args:
        asked: slots of the halo that the step reads, for each layer.
    """

    def __init__(self, asked: Sequence[Indices] = ()) -> None:
        super().__init__("paused")
        self.asked = asked


class LocalTrainer(ModelViews):
    """One client's round of training (the `Trainer` of the contracts).

    `flat` is the worker's model, as it was loaded last, and `optimizer` is over it. `sampler_state` is what the sampler
    remembers of this client, `g` the client's generator of this round, `guidance` {name: scalar that the sampler's half
    at the server sent}. A round `collects` where what it makes is sent to the server. With `fresh_rows` all halo rows
    that changed came with the model, so that the round's first step need not ask for them. `received` is the model that
    `training.proximal` holds it near, and `moments` are those that the client kept of each run of its last round. Who
    does not wait trains on the rows that it has.

    `parked` is what an earlier trainer of this round returned by `park`; None for a new round. The sharing method then
    begins anew: what it ran to its end before is not trained again but loaded, and the run that was paused goes on.
    """

    def __init__(
        self,
        plan: Plan,
        flat: FlatModel,
        optimizer: Optimizer,
        data: Any,
        sampler_state: Any,
        g: np.random.Generator,
        learning_rate: float,
        collects: bool = True,
        guidance: Mapping[str, float] | None = None,
        fresh_rows: bool = False,
        parked: Mapping[str, Any] | None = None,
        client: int = 0,
        received: Arrays | None = None,
        moments: Sequence[Moments] = (),
        waits: bool = True,
    ) -> None:
        super().__init__(plan, flat, data)
        self._task, self._sampler, self._training = plan.task, plan.sampler, plan.training
        self._optimizer, self._g = optimizer, g
        self.learning_rate, self.client, self.collects = learning_rate, client, collects
        self.sampler_state = sampler_state
        self.steps = 0
        self.examples = 0
        self._loss = 0.0
        self._loss_sq = 0.0
        self._seen: list[NDArray[np.float32]] = []
        self._guidance, self._fresh_rows = guidance or {}, fresh_rows
        self._waits = plan.refreshes > 0 and collects and waits
        self._looks = (plan.sampler.observes or plan.halo is not None) and parked is None
        self._equal: dict[int, torch.Tensor] = {}
        self._done: list[Done] = []
        self._kept = moments
        self.moments: list[Moments] = []
        self._pull: Correction | None = None
        if self._training.proximal and received is not None:
            shared = {name: received[name] for name in plan.first}
            self._pull = pull_towards(shared, self._training.proximal)
        self._walk = Walk()
        self._blocks = plan.task.blocks(data)
        self._parked, self._view = parked, int(parked["view"]) if parked else 0
        self._untouched = parked is None
        self._meanwhile: Arrays = {}
        self._replays: list[Done] = list(parked["done"]) if parked else []

    def load(self, arrays: Arrays) -> None:
        """Overwrite the named parameters; what the client's model has just been loaded with is there already."""
        self._observed = None
        if self._replays or self._parked:  # the run to come restores all; it matters to those who look before it
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
        frozen: Collection[str] = (),
        hidden_penalty: HiddenPenalty | None = None,
        structure_penalty: StructurePenalty | None = None,
    ) -> None:
        """So many local epochs, by default the configured number: blocks in random order, every draw one step.

        Parameters that are `frozen` stay as they are. Raises `Paused` before a step that is to see other clients' rows
        anew, unless it is the one it was paused at.
        """
        self._untouched, self._meanwhile = False, {}
        hooks = Hooks(penalty, hidden_penalty, correct_gradient, project, structure_penalty)
        if not self._flat.module.training:
            self._flat.module.train()
        if self._replays:
            self._restore(self._replays.pop(0))
            return
        run = len(self.moments)
        self._optimizer.reset(self.learning_rate, self._kept[run] if run < len(self._kept) else None)
        self._flat.freeze(frozen)
        if self._parked:
            fresh = True
            self._take_up()
        else:
            fresh = False
            self._walk = Walk(self._training.epochs if epochs is None else epochs)
            if self._looks:
                self._look()
        with torch.no_grad():  # entered once: gradients are mostly written by hand
            while self._walk.draws or self._next_block():
                self._train_draws(fresh, hooks)
                fresh = False
            self._watch()
        self._note_done()

    def regression(self) -> Iterator[Regression]:
        """All training examples as a linear model sees them, in parts of `PART`."""
        linear, count = self._plan.linear, self._task.examples(self._data)
        if linear is None:
            raise FedgraftError(f"{type(self._task).__name__} has no linear model with these options.")
        if not self.examples:
            with self._looking() as model:
                self._seen.append(self._losses(model, self._seed() if self._task.seeds_draws else 0))
            self.examples = count
        return (linear.regression(self._data, np.arange(at, min(at + PART, count))) for at in range(0, count, PART))

    def park(self) -> dict[str, Any]:
        """Put the round aside, as live objects: nothing is copied, and only a trainer over the same model can go on."""
        counts = self._counts()
        now = {"flat": self._flat.park(), "moments": self._optimizer.park(), "walk": self._walk, "counts": counts}
        return {"done": self._done, "now": now, "view": self._view}

    def report(self) -> dict[str, float]:
        """Return {"loss", "loss_sq"}: mean sample loss and mean squared sample loss over all steps so far."""
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
                self._watch()
                walk.passes, walk.made = walk.passes - 1, walk.made + 1
                count = len(blocks)  # a single one takes no draw
                order = self._g.permutation(count).tolist() if count > 1 else [0] * count
                walk.blocks = order[: self._training.blocks or None]
                continue
            walk.block = walk.blocks.pop(0)
            stage = Stage(walk.made - 1, self._guidance)
            walk.draws = list(self._sampler.draw(self.sampler_state, blocks[walk.block], stage, self._g))
            if self._task.seeds_draws or any(draw.neighbours for draw in walk.draws):
                walk.draws = [replace(draw, seed=draw.seed or self._seed()) for draw in walk.draws]
        return True

    def _watch(self) -> None:
        """Have the sampler see what the model makes of all examples, if it wants to."""
        if self._plan.active is not None:
            stage = Stage(self._walk.made, self._guidance)
            self.sampler_state = self._plan.active.watch(self.sampler_state, self.observe(), stage, self._g)

    def _look(self) -> None:
        """At all training examples, before the first step of the round."""
        module, observes = self._flat.module, self._sampler.observes
        seed = self._seed() if self._task.seeds_draws else 0
        with torch.no_grad():
            if self._plan.halo:
                losses = self._plan.halo.look(module.eval(), self._data, seed, observes)
            else:
                losses = self._losses(module.eval(), seed)
        module.train()
        self._looks = False
        if observes:
            self.sampler_state = self._sampler.observe(self.sampler_state, losses)

    def _losses(self, module: torch.nn.Module, seed: int) -> NDArray[np.float32]:
        """Losses of all training examples, float32 [examples]."""
        losses = np.empty(self._task.examples(self._data), np.float32)
        for block in self._blocks:
            found = self._task.loss(module, self._data, Batch(block, seed=seed), self._encoded(module, block))
            losses[block] = example_losses(found).numpy(force=True)
        return losses

    def _seed(self) -> int:
        return int(self._g.integers(SEEDS))

    def _must_wait(self) -> bool:
        """Return whether a refresh before the next step takes another message."""
        return self._waits and not (self._fresh_rows and self.steps == 0 and not self._plan.asks_rows)

    def _encoded(self, module: torch.nn.Module, block: Indices) -> torch.Tensor | None:
        """Return the encoding that the draws of a block share; None for none."""
        return self._task.encode(module, self._data, block)

    def _train_draws(self, fresh: bool, hooks: Hooks) -> None:
        """One step per draw; what the draws share is encoded once, and learns with the last of them."""
        walk, block = self._walk, self._blocks[self._walk.block]
        with torch.enable_grad():
            encoded = self._encoded(self._flat.module, block)
        shared = None if encoded is None else encoded.detach().requires_grad_()
        count = len(walk.draws)
        while walk.draws:
            draw = walk.draws[0]
            if draw.refresh and self._must_wait():
                if encoded is not None:
                    name = type(self._task).__name__
                    raise FedgraftError(f"{name} encodes whole blocks; no refresh may interrupt it.")
                if not fresh:
                    halo = self._plan.halo
                    raise Paused(halo.read(self._data, draw) if halo and self._plan.asks_rows else ())
            fresh = False
            del walk.draws[0]
            losses = self._differentiate(draw, hooks, shared)
            if encoded is not None and shared is not None and shared.grad is not None and not walk.draws:
                # Equal to encoded.backward(...), for which torch would import its symbolic shapes: a second a process.
                with torch.enable_grad():
                    (encoded * (shared.grad / count)).sum().backward()  # type: ignore[no-untyped-call]
            if self._pull is not None:
                self._pull(self._flat.parameters, self._flat.gradients)
            if hooks.correct_gradient is not None:
                hooks.correct_gradient(self._flat.parameters, self._flat.gradients)
            if self._training.clip > 0:
                clip(self._flat.moving(self._flat.gradient), self._training.clip, self.steps + 1)
            self._optimizer.step()
            if hooks.project is not None:
                hooks.project(self._flat.parameters)
            self._note(draw, losses.numpy(force=True))

    def _differentiate(self, draw: Batch, hooks: Hooks, shared: torch.Tensor | None) -> torch.Tensor:
        """Set the gradient of a step's objective; the losses of its examples."""
        flat = self._flat
        if shared is None and not hooks.look:
            by_hand = self._task.loss_and_backward(flat.module, self._data, draw)
            if by_hand is not None:
                losses, back = by_hand
                back(self._shares(losses, draw))
                if hooks.penalty is not None:
                    self._differentiate_penalty(hooks.penalty)
                return losses
        for gradient in flat.moving(flat.gradient):
            gradient.zero_()
        with torch.enable_grad():
            found = self._task.loss(flat.module, self._data, draw, shared)
            self._objective(found, draw, hooks).backward()  # type: ignore[no-untyped-call]
        return example_losses(found).detach()

    def _shares(self, losses: torch.Tensor, draw: Batch) -> torch.Tensor:
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

    def _objective(self, found: Loss, draw: Batch, hooks: Hooks) -> torch.Tensor:
        losses = example_losses(found)
        if draw.weights is None:
            loss = losses.mean()
        else:
            loss = (losses * torch.from_numpy(draw.weights).to(losses.device)).mean()
        if isinstance(found, Losses) and found.shared is not None:
            loss = loss + found.shared
        if hooks.penalty is not None:
            loss = loss + hooks.penalty(self._flat.parameters)
        if hooks.hidden_penalty is not None:
            if not isinstance(found, Losses) or found.hidden is None:
                raise FedgraftError(f"{type(self._task).__name__} does not tell its hidden layer.")
            loss = loss + hooks.hidden_penalty(found.hidden, draw.examples)
        if hooks.structure_penalty is not None and self._plan.structured is not None:
            term, left_out = hooks.structure_penalty
            seed = self._seed() if left_out != WHOLE else 0
            loss = loss + term(self._plan.structured.states(self._flat.module, self._data, left_out, seed))
        return loss

    def _note(self, draw: Batch, seen: NDArray[np.float32]) -> None:
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

    def _counts(self) -> tuple[int, int, float, float]:
        self._sum_up()
        return self.steps, self.examples, self._loss, self._loss_sq

    def _note_done(self) -> None:
        moments = self._optimizer.moments() if self._training.keep_moments else {}
        self.moments.append(moments)
        if self._waits:  # else no later run can pause
            self._done.append(Done(self._flat.read(), self._counts(), moments))

    def _restore(self, done: Done) -> None:
        self._done.append(done)
        self.moments.append(done.moments)
        self._flat.load(done.arrays)
        self.steps, self.examples, self._loss, self._loss_sq = done.counts

    def _take_up(self) -> None:
        """Go on in the run that was paused."""
        assert self._parked is not None
        now, self._parked = self._parked["now"], None
        self._flat.unpark(now["flat"])
        self._optimizer.unpark(now["moments"])
        self._walk = now["walk"]
        self.steps, self.examples, self._loss, self._loss_sq = now["counts"]
