"""Move merged models as a server optimiser says."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from fedgraft.contracts import MovableSharing, ServerOptimizer
from fedgraft.engine.plan import Plan


class ServerStep:
    """The step of a server optimiser behind a merge; the plan's sharing method must be one whose models can be moved.

    A model that is new, as where a group of clients splits, goes on from the model and with the state that its clients
    had before.
    """

    def __init__(self, plan: Plan, optimizer: ServerOptimizer[Any]) -> None:
        assert isinstance(plan.sharing, MovableSharing), "it was checked"
        self._plan, self._sharing, self._optimizer = plan, plan.sharing, optimizer
        self._moved = [name for name in plan.first if name in plan.learnt]

    def taken(
        self, before: Any, merged: Any, clients: Iterable[int], states: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Return the state of the sharing method and the states of the optimiser behind the step.

        Args:
            before: the sharing method's state before its merge.
            merged: that after it.
            clients: whose updates were merged, ascending.
            states: {group: the optimiser's state of its model}; changed by no call.
        """
        origins: dict[int, int] = {}
        for client in clients:
            origins.setdefault(self._plan.sharing.group(merged, client), self._plan.sharing.group(before, client))
        after, stepped = merged, dict(states)
        for group, origin in origins.items():
            old, new = self._sharing.model(before, origin), self._sharing.model(merged, group)
            start = {name: old[name] for name in self._moved}
            state = states.get(str(group), states.get(str(origin)))
            state = self._optimizer.init(start) if state is None else state
            change = {name: new[name].astype(np.float64) - array for name, array in start.items()}
            moves, stepped[str(group)] = self._optimizer.step(state, change)
            model = {name: new[name] for name in self._plan.first}
            model |= {name: (array + moves[name]).astype(array.dtype) for name, array in start.items()}
            after = self._sharing.with_model(after, group, model)
        return after, stepped
