"""What the server makes of a merged model: a step of an optimiser of its own, or what a method refines it to."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedgraft.contracts import (
    GraphNetworkTask,
    Indices,
    MovableSharing,
    ServerOptimizer,
    Update,
    randomness,
)
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


class Refining:
    """What a sharing method that refines does behind a merge; the plan's must be one, and its task able to serve it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def taken(self, before: Any, merged: Any, updates: Sequence[Update], round: int) -> Any:
        """Return the state of the sharing method after its merge in a round, refined."""
        g = randomness.generator(self._plan.seed, "refine", round)
        return self._plan.sharing.refined(before, merged, updates, self._network, g)

    @cached_property
    def _network(self) -> "Network":
        return Network(self._plan)


class Network:
    """The `GraphNetwork` of the contracts: a plan's model as a function of its parameters."""

    def __init__(self, plan: Plan) -> None:
        task = plan.task.ability(GraphNetworkTask)
        assert task is not None, "it was checked"
        self.width, self.learnt = task.given_width, plan.learnt
        self._module = _OnGraphs(task, plan.build_model().module.eval())
        self._device = torch.device(plan.device)

    def logits(self, model: Mapping[str, Tensor], features: Tensor, edges: Indices) -> Tensor:
        """Logits, float32 [nodes, classes], on the CPU."""
        moved = {f"module.{name}": value.to(self._device) for name, value in model.items()}
        found: Tensor = torch.func.functional_call(self._module, moved, (features.to(self._device), edges))
        return found.cpu()


class _OnGraphs(nn.Module):
    """A task's model on graphs that are given."""

    def __init__(self, task: GraphNetworkTask[Any, Any], module: nn.Module) -> None:
        super().__init__()
        self.task, self.module = task, module

    def forward(self, features: Tensor, edges: Indices) -> Tensor:
        """Return logits, float32 [nodes, classes]."""
        return self.task.on_graph(self.module, features, edges)
