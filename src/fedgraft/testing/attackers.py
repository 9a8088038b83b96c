"""Clients that lie, for tests of robust merging: a runtime around another one, whose replies it changes."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from fedgraft import wire
from fedgraft.contracts import ClientFailed, Runtime, randomness
from fedgraft.engine import coded_arrays
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.rounds.safeguards import LOSSES
from fedgraft.testing.runs import Around
from fedgraft.wire.layouts import Arrays

Attack = Callable[[Arrays, np.random.Generator], Arrays]
"""(an honest update, a generator) -> the update that is sent."""


def scaled(factor: float) -> Attack:
    """Return an attack that sends `factor` times the update; -1 is a sign flip."""

    def attack(update: Arrays, g: np.random.Generator) -> Arrays:
        with np.errstate(over="ignore"):
            return {name: np.asarray(array * np.float32(factor)) for name, array in update.items()}

    return attack


def noise(scale: float) -> Attack:
    """Return an attack that sends normal noise of `scale` times the update's own root mean square."""

    def attack(update: Arrays, g: np.random.Generator) -> Arrays:
        return {name: _noise(array, scale, g) for name, array in update.items()}

    return attack


def _noise(array: np.ndarray, scale: float, g: np.random.Generator) -> np.ndarray:
    size = scale * float(np.sqrt(np.mean(np.square(array, dtype=np.float64)))) if array.size else 0.0
    return (size * g.standard_normal(array.shape)).astype(array.dtype)


class Attacked(Around):
    """A runtime some of whose clients lie about what they trained.

    Args:
        inner: carries the messages.
        plan: tells how updates are encoded.
        attackers: clients that lie.
        attack: what they send in place of their updates; None = the update that they have.
        rounds: in which they lie; empty = in all.
        examples: number of training examples that they claim; 0 = the true one.
        losses: by how much they inflate each loss that they report.
    """

    def __init__(
        self,
        inner: Runtime,
        plan: Plan,
        attackers: Collection[int],
        attack: Attack | None = None,
        rounds: Collection[int] = (),
        examples: int = 0,
        losses: float = 1.0,
    ) -> None:
        super().__init__(inner, plan)
        self._attackers, self._attack, self._rounds, self._examples = attackers, attack, rounds, examples
        self._losses = {name: losses**power for name, power in LOSSES.items()}
        self._names = Protocol.of(plan).reply_names

    def exchange(
        self, requests: Mapping[int, bytes], limits: Mapping[int, int], deadline_seconds: float | None
    ) -> dict[int, bytes | ClientFailed]:
        """Exchange messages; attackers' replies are changed."""
        replies: dict[int, bytes | ClientFailed] = super().exchange(requests, limits, deadline_seconds)
        for client in sorted(set(self._attackers) & replies.keys()):
            reply = replies[client]
            if isinstance(reply, bytes):
                replies[client] = self._changed(client, reply)
        return replies

    def _changed(self, client: int, reply: bytes) -> bytes:
        plan = self._plan
        message = wire.decode(reply, Protocol.of(plan).reply_layouts, self._names)
        layout, names = Protocol.of(plan).reply_layouts.get(message.kind), self._names.get(message.kind, ())
        if message.kind == "hello" and self._examples:
            message = replace(message, report={**message.report, "examples": float(self._examples)})
            return wire.encode(message, layout, names)
        report = {name: value * self._losses.get(name, 1.0) for name, value in message.report.items()}
        if report != message.report:
            message, reply = replace(message, report=report), b""
        lies = self._attack is not None and (not self._rounds or message.round in self._rounds)
        if message.kind != "train" or message.arrays is None or not lies:
            return reply or wire.encode(message, layout, names)
        assert self._attack is not None
        g = randomness.generator(plan.seed, "attack", message.round, client)
        update = plan.uplink.decode(coded_arrays.whole_upload(plan, message.arrays), plan.upload_layout)
        coded, _ = plan.uplink.encode(self._attack(update, g), plan.uplink.init(plan.upload_layout), g)
        return wire.encode(replace(message, arrays={**message.arrays, **coded}), layout, names)
