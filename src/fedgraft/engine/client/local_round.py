"""A client's round of training, from the order to the upload; it stops where it must wait for halo rows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fedgraft.contracts import randomness
from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.client.client_rows import ClientRows
from fedgraft.engine.client.clipped_gradients import descent
from fedgraft.engine.client.contribution import Part
from fedgraft.engine.client.ensemble import ensemble_of
from fedgraft.engine.client.local_trainer import LocalTrainer, Paused
from fedgraft.engine.halo_codec import asked_arrays, part_of
from fedgraft.engine.plan import SAMPLER, SCORE, SCORE_BEFORE, Plan, split_sampler
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.training import Optimizer
from fedgraft.errors import DivergedError
from fedgraft.nn.flat_model import FlatModel
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays, finite


@dataclass(frozen=True)
class ClientModel:
    """The model of a variant of client, its optimiser, and the names of the parameters that never travel."""

    flat: FlatModel
    optimizer: Optimizer
    private: tuple[str, ...]


@dataclass(frozen=True)
class Order:
    """An order to train for a round, counted from 1, as a client received it: the model as sent, and the learning rate.

    It `collects` where what the round makes is sent to the server, and is `fresh` where all halo rows that changed came
    with it. `guidance` is {name: scalar of the sampler's half at the server}. Who `waits` may stop for halo rows.
    `part` is the client's in the round's outcome, None where nothing is collected.
    """

    round: int
    client: int
    collects: bool
    received: Arrays
    guidance: Mapping[str, float]
    rate: float
    fresh: bool
    waits: bool = True
    part: Part | None = None


class LocalRound:
    """A round of a client, which may be stopped and taken up again.

    Args:
        plan: what both ends agreed on.
        rows: codes the rows that it pushes.
        order: what it is told to do.
        data: its prepared data, with halo states.
        model: its model, with `order.received` loaded.
        memory: what it remembers; changed.
    """

    def __init__(
        self, plan: Plan, rows: ClientRows, order: Order, data: Any, model: ClientModel, memory: Memory
    ) -> None:
        self._plan, self._rows, self.order = plan, rows, order
        self.data, self._model, self.memory = data, model, memory
        state = memory.get("sampler")
        self._sampler_state = plan.sampler.init(plan.task.examples(data)) if state is None else state
        self._received, self._shared = split_sampler(order.received)
        if self._shared and plan.active:
            self._sampler_state = plan.active.take(self._sampler_state, _named(self._shared))
        self._parked: Mapping[str, Any] | None = None
        self._scores: dict[str, float] = {}
        self._g = randomness.lazy(plan.seed, "train", order.round, order.client)

    def run(self, segment: int) -> Message:
        """Train as far as it goes without rows that must be asked for.

        Args:
            segment: how often the round has been taken up.

        Returns:
            A message of kind "wait" with the rows that it asks for and those that it pushes; or, at the round's end,
            one of kind "train" with the upload, or "alone" where nothing is collected. Where sums hold noise, a client
            that cannot train adds noise alone.
        """
        part = self.order.part
        return part.ran(lambda: self._ran(segment), self.memory) if part else self._ran(segment)

    def _ran(self, segment: int) -> Message:
        plan, order, memory, trainer = self._plan, self.order, self.memory, self._trainer()
        self._scores |= self._scored(SCORE_BEFORE) if segment == 0 else {}
        if plan.privacy.of_examples and order.collects:
            return Message("train", order.round, arrays=self._sent(descent(plan, self._model.flat, self.data)))
        try:
            upload = self._updated(trainer)
        except Paused as pause:
            self._sampler_state, self._parked = trainer.sampler_state, trainer.park()
            slots = asked_arrays(pause.asked, plan.asked_layout)
            return Message("wait", order.round, arrays={**self._pushed(segment), **slots})
        memory["sampler"] = trainer.sampler_state
        if any(trainer.moments):
            memory["moments"] = trainer.moments
        if self._shared and plan.active:
            sampler_arrays = plan.active.give(trainer.sampler_state)
            upload |= {name: sampler_arrays[name.removeprefix(SAMPLER)] - array for name, array in self._shared.items()}
        if self._model.private:
            memory["private"] = self._model.flat.read(self._model.private)
        for name, array in upload.items():
            if not finite(array):
                raise DivergedError(f"training diverged: {name} is not finite")
        observations = plan.active.report(trainer.sampler_state) if plan.active else {}
        report = {**trainer.report(), **self._scores, **self._scored(SCORE), **observations}
        known = {name: report[name] for name in Protocol.of(plan).report("train" if order.collects else "alone")}
        if not order.collects:
            self._keep_states()
            return Message("alone", order.round, known)
        encoded = self._sent(upload)
        pushed = self._pushed(segment)
        self._keep_states()
        return Message("train", order.round, known, {**encoded, **pushed})

    def tried(self, epochs: int) -> dict[str, float]:
        """Train for so many epochs; return the losses of the steps and remember nothing of them."""
        trainer = self._trainer()
        trainer.run(epochs=epochs)
        return trainer.report()

    def rehearsed(self) -> torch.nn.Module:
        """Train as for the round; return what the client would answer with then, in evaluation mode.

        Nothing is made of the upload, and of the memory only the sharing method's part is changed. Without training
        examples there is no round, and the answer is that of the model as it was received.
        """
        plan, memory, flat = self._plan, self.memory, self._model.flat
        received = part_of(self.order.received, plan.model_layout)
        if plan.task.examples(self.data):
            upload, left = self._updated(self._trainer()), flat.read()
            for name, array in {**upload, **left}.items():
                if not finite(array):
                    raise DivergedError(f"training diverged: {name} is not finite")
            flat.load(plan.answering(part_of(left, plan.model_layout), received, memory["sharing"]))
        return ensemble_of(plan.task, flat, plan.ensemble(received, memory.get("sharing")))

    def _updated(self, trainer: LocalTrainer) -> Arrays:
        """Train as the sharing method does; what it would upload."""
        sharing, memory = self._plan.sharing, self.memory
        upload, memory["sharing"] = sharing.local_update(trainer, self._received, memory.get("sharing"))
        return upload

    def _trainer(self) -> LocalTrainer:
        """What trains the model from where the round is."""
        order = self.order
        return LocalTrainer(
            plan=self._plan,
            flat=self._model.flat,
            optimizer=self._model.optimizer,
            data=self.data,
            sampler_state=self._sampler_state,
            g=self._g,
            learning_rate=order.rate,
            client=order.client,
            collects=order.collects,
            waits=order.waits,
            guidance=order.guidance,
            fresh_rows=order.fresh,
            parked=self._parked,
            received=self._received,
            moments=self.memory.get("moments", ()),
        )

    def _sent(self, upload: Arrays) -> Arrays:
        """What the client sends of its update: the one place where it goes from what is learnt to what travels.

        Where sums hold noise, it is added there (docs/adr/0016).
        """
        assert self.order.part is not None, "who sends something has a part in the round"
        return self.order.part.sent(upload, self.memory)

    def _scored(self, name: str) -> dict[str, float]:
        """{name: score of the model as it is now, on the client's own validation split}, if the server wants it."""
        plan, module = self._plan, self._model.flat.module
        if not self.order.collects or name not in Protocol.of(plan).report("train"):
            return {}
        with torch.no_grad():
            sums = plan.task.evaluate(module.eval(), self.data)["validation"]
        module.train()
        score = plan.task.score(sums)
        return {name: plan.task.selection_metric(sums) if math.isnan(score) else score}

    def _pushed(self, segment: int) -> Arrays:
        """Rows that others need and that changed since they were last pushed."""
        if self._plan.halo is None:
            return {}
        g = randomness.lazy(self._plan.seed, f"rows-{segment}", self.order.round, self.order.client)
        return self._rows.encode(self.order.client, self._plan.halo.changed(self.data), g)

    def _keep_states(self) -> None:
        if self._plan.halo:
            self.memory["states"] = self._plan.halo.closed(self.data)


def _named(shared: Arrays) -> Arrays:
    """The sampler's arrays by its own names."""
    return {name.removeprefix(SAMPLER): array for name, array in shared.items()}
