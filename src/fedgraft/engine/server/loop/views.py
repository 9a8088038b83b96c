"""Build what a selector sees before a round: clients' sizes, what each may cost, and what the budget still pays for."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import View
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.clock import Clock, Devices
from fedgraft.engine.server.ledger import Ledger
from fedgraft.engine.server.loop.messenger import Messenger
from fedgraft.engine.server.loop.stopping import Evaluation, Stopping
from fedgraft.engine.server.run_state import RunState


class Views:
    """Make the view of each round of a run; `examples` are the training examples of each client."""

    def __init__(
        self,
        plan: Plan,
        messenger: Messenger,
        ledger: Ledger,
        clock: Clock,
        devices: Devices,
        stopping: Stopping,
        evaluation: Evaluation,
        examples: Sequence[int],
    ) -> None:
        self._plan, self._messenger, self._ledger = plan, messenger, ledger
        self._clock, self._devices = clock, devices
        self._stopping, self._evaluation = stopping, evaluation
        self._examples = examples

    def of(self, state: RunState, round: int, busy: Sequence[int] = (), split: str = "validation") -> View:
        """Return what a selector sees before a round.

        `busy` are clients that are still at work for earlier rounds; `split` is the one whose score the selector sees.
        """
        budget = self._stopping.bytes
        left = max(0, budget - self._ledger.total - self.fixed_bytes) if budget else None
        score = next((point[split] for point in reversed(state.curve) if not math.isnan(point[split])), None)
        there = self._available(round, busy)
        return replace(self._first, round=round, bytes_left=left, available=there, losses=losses_of(state), score=score)

    def check_deadline(self) -> None:
        """Raise `InputError` for a deadline that nobody can meet."""
        down, up = self._messenger.limits.least_training_bytes()
        able = np.flatnonzero(self._first.available)
        examples = self._first.samples * self._plan.training.epochs
        self._clock.check(self._devices.seconds(down, up, examples)[able], able)

    def _available(self, round: int, busy: Sequence[int]) -> NDArray[np.bool_]:
        """The clients with examples that are not at work and can be reached, bool [N], read-only."""
        idle = self._first.available
        if busy:
            idle = idle.copy()
            idle[list(busy)] = False
        there = self._devices.reachable(idle, round, self._plan.seed)
        there.flags.writeable = False
        return there

    @cached_property
    def fixed_bytes(self) -> int:
        """The most bytes that a round takes whoever trains: scoring at the clients."""
        count, sample = len(self._examples), self._evaluation.sample
        scored = min(sample or count, count) if self._evaluation.at == "clients" else 0
        return self._messenger.most_scoring_bytes * scored if scored else 0

    @cached_property
    def _first(self) -> View:
        """The part of the view that is the same in every round; arrays of all clients, read-only."""
        count, samples = len(self._examples), np.array(self._examples, np.int64)
        most = [self._messenger.most_training_bytes(client) for client in range(count)]
        train = np.array([traffic.total for traffic in most], np.int64)
        probe = np.full(count, max(map(self._messenger.limits.most_bytes, ("probe", "trial"))), np.int64)
        down, up = np.array([traffic.down for traffic in most]), np.array([traffic.up for traffic in most])
        seconds = self._devices.seconds(down, up, samples * self._plan.training.epochs, self._plan.refreshes)
        available = samples > 0
        for array in (samples, train, probe, seconds, available):
            array.flags.writeable = False
        return View(
            round=1,
            seed=self._plan.seed,
            samples=samples,
            bytes_per_client=train,
            bytes_per_probe=probe,
            seconds=seconds,
            available=available,
            bytes_budget=self._stopping.bytes or None,
            rounds=self._stopping.rounds,
            better=self._plan.task.better,
            epochs=self._plan.training.epochs,
            deadline=self._clock.deadline(seconds[available]),
        )


def losses_of(state: RunState) -> dict[str, tuple[float, float]]:
    """Return {split: (mean loss of the first global model, that of the last that was scored)}."""
    return {split: (losses[0], losses[-1]) for split, losses in state.losses.items()}
