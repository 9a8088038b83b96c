"""Clients that lie, for tests of robust merging: a runtime around another one, whose replies it changes."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedgraft import wire
from fedgraft.contracts import ClientFailed, Runtime, randomness
from fedgraft.engine.halo_codec import part_of
from fedgraft.engine.plan import Plan
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


@dataclass
class Attacked(Runtime):
    """A runtime some of whose clients lie about what they trained.

    Args:
        inner: carries the messages.
        plan: tells how updates are encoded.
        attackers: clients that lie.
        attack: what they send in place of their updates; None = the update that they have.
        rounds: in which they lie; empty = in all.
        examples: number of training examples that they claim; 0 = the true one.
    """

    inner: Runtime
    plan: Plan
    attackers: Collection[int]
    attack: Attack | None = None
    rounds: Collection[int] = ()
    examples: int = 0
    names: Mapping[str, tuple[str, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.names = {kind: self.plan.names(kind) for kind in wire.KINDS}

    def clients(self) -> Sequence[int]:
        """Return the clients of the runtime around which it is."""
        return self.inner.clients()

    def exchange(
        self, requests: Mapping[int, bytes], limits: Mapping[int, int], deadline_seconds: float | None
    ) -> dict[int, bytes | ClientFailed]:
        """Exchange messages; attackers' replies are changed."""
        replies = self.inner.exchange(requests, limits, deadline_seconds)
        for client in sorted(set(self.attackers) & replies.keys()):
            reply = replies[client]
            if isinstance(reply, bytes):
                replies[client] = self._changed(client, reply)
        return replies

    def _changed(self, client: int, reply: bytes) -> bytes:
        plan = self.plan
        message = wire.decode(reply, plan.reply_layouts, self.names)
        layout, names = plan.reply_layouts.get(message.kind), self.names.get(message.kind, ())
        if message.kind == "hello" and self.examples:
            message = replace(message, report={**message.report, "examples": float(self.examples)})
            return wire.encode(message, layout, names)
        lies = self.attack is not None and (not self.rounds or message.round in self.rounds)
        if message.kind != "train" or message.arrays is None or not lies:
            return reply
        assert self.attack is not None
        g = randomness.generator(plan.seed, "attack", message.round, client)
        update = plan.uplink.decode(part_of(message.arrays, plan.coded_upload_layout), plan.upload_layout)
        coded, _ = plan.uplink.encode(self.attack(update, g), plan.uplink.init(plan.upload_layout), g)
        return wire.encode(replace(message, arrays={**message.arrays, **coded}), layout, names)

    def measure(
        self, requests: Mapping[int, bytes], models: Mapping[int, bytes], deadline_seconds: float | None
    ) -> dict[int, bytes | ClientFailed]:
        """Measure, unchanged: the experimenter's own look."""
        return self.inner.measure(requests, models, deadline_seconds)

    def flops(self) -> dict[int, int]:
        """Return the inner runtime's counts."""
        return self.inner.flops()

    def memories(self, changed: bool = True) -> Iterator[tuple[int, bytes]]:
        """Yield the inner runtime's memories."""
        return self.inner.memories(changed)

    def restore(self, memories: Mapping[int, bytes]) -> None:
        """Put memories back."""
        self.inner.restore(memories)

    def close(self) -> None:
        """Close the inner runtime."""
        self.inner.close()
