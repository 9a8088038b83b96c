"""Train merged models further at the server, with the task's network and without data."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from fedgraft.contracts import GraphNetworkTask, Indices, RefiningSharing, Update, randomness
from fedgraft.engine.plan import Plan


class Refining:
    """What a sharing method that refines does behind a merge; the plan's must be one, and its task able to serve it."""

    def __init__(self, plan: Plan) -> None:
        assert isinstance(plan.sharing, RefiningSharing), "it was checked"
        self._plan, self._sharing = plan, plan.sharing

    def taken(self, before: Any, merged: Any, updates: Sequence[Update], round: int) -> Any:
        """Return the state of the sharing method after its merge in a round, refined."""
        g = randomness.generator(self._plan.seed, "refine", round)
        return self._sharing.refined(before, merged, updates, self._network, g)

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
