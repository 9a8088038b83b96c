"""What a selector sees before a round: clients' sizes, what each may cost, and what the budget still pays for."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from fedgraft.contracts import View
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.ledger import Ledger
from fedgraft.engine.server.messenger import Messenger
from fedgraft.engine.server.run_state import RunState
from fedgraft.engine.server.simulated_clock import Devices
from fedgraft.engine.server.stopping import Evaluation, Stopping


class Views:
    """Make the view of each round.

    Args:
        plan: what both ends agreed on.
        messenger: knows the most bytes that messages take.
        ledger: knows what was spent.
        devices: clients' links and speeds.
        stopping: the budget and the number of rounds.
        evaluation: whether scoring costs bytes.
        examples: training examples of each client.
    """

    def __init__(
        self,
        plan: Plan,
        messenger: Messenger,
        ledger: Ledger,
        devices: Devices,
        stopping: Stopping,
        evaluation: Evaluation,
        examples: Sequence[int],
    ) -> None:
        self._plan, self._messenger, self._ledger = plan, messenger, ledger
        self._devices, self._stopping, self._evaluation = devices, stopping, evaluation
        self._examples = examples

    def of(self, state: RunState, round: int) -> View:
        """Return what a selector sees before a round."""
        budget = self._stopping.bytes
        left = max(0, budget - self._ledger.total - self.fixed_bytes) if budget else None
        return replace(self._first, round=round, bytes_left=left, losses=losses_of(state))

    @cached_property
    def fixed_bytes(self) -> int:
        """The most bytes that a round takes whoever trains: scoring at the clients."""
        at_clients = self._evaluation.at == "clients"
        return self._messenger.limits.most_bytes("evaluate") * len(self._examples) if at_clients else 0

    @cached_property
    def _first(self) -> View:
        """The part of the view that is the same in every round; arrays of all clients, read-only."""
        count, samples = len(self._examples), np.array(self._examples, np.int64)
        train = np.array([self._messenger.most_training_bytes(client) for client in range(count)], np.int64)
        probe = np.full(count, self._messenger.limits.most_bytes("probe"), np.int64)
        seconds = self._devices.all_seconds(train, samples * self._plan.training.epochs, self._plan.refreshes)
        available = samples > 0
        for array in (samples, train, probe, seconds, available):
            array.flags.writeable = False
        return View(
            round=1,
            samples=samples,
            bytes_per_client=train,
            bytes_per_probe=probe,
            seconds=seconds,
            available=available,
            bytes_budget=self._stopping.bytes or None,
            rounds=self._stopping.rounds,
            better=self._plan.task.better,
            epochs=self._plan.training.epochs,
        )


def losses_of(state: RunState) -> dict[str, tuple[float, float]]:
    """Return {split: (mean loss of the first global model, that of the last that was scored)}."""
    return {split: (losses[0], losses[-1]) for split, losses in state.losses.items()}
