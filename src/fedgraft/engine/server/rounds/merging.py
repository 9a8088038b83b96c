"""Make the next model of a round's updates: leave out, clip, weigh, and merge.

Of a merged model the server makes a step of an optimiser of its own, or what a method refines it to.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from fedgraft.contracts import (
    Aggregation,
    GraphNetworkTask,
    Indices,
    MovableSharing,
    Selection,
    ServerOptimizer,
    Sharing,
    Update,
    randomness,
)
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.rounds.arrivals import ArrivedUpdates
from fedgraft.engine.server.rounds.collecting import TOGETHER
from fedgraft.engine.server.rounds.safeguards import Safeguards, norm
from fedgraft.engine.server.run_state import RunState
from fedgraft.wire.layouts import finite


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


LOG = logging.getLogger("fedgraft.engine.server.rounds.merging")
MANY: Final = 1000
"""Clients of whom any robust rule survives some liars; ours."""


class Merging:
    """Merge the updates that have arrived, within the safeguards.

    `aggregation` says what counts, None = everything; `refining` trains what was merged further, None = not; `step`
    says how far models go, None = to where that is.
    """

    def __init__(
        self,
        sharing: Sharing[Any],
        aggregation: Aggregation | None = None,
        safeguards: Safeguards | None = None,
        step: ServerStep | None = None,
        refining: Refining | None = None,
    ) -> None:
        self._step, self._refining = step, refining
        self._sharing, self._aggregation, self.safeguards = sharing, aggregation, safeguards or Safeguards()
        self._examples: Sequence[float] = ()

    def open(self, examples: Sequence[int]) -> None:
        """Serve a run whose clients have so many training examples."""
        self._examples = self.safeguards.counted(examples)

    def weights(self, selection: Selection) -> dict[int, float]:
        """Return {client: what its update weighs}: as selected, or by its training examples."""
        weights = selection.weights or [self._examples[client] for client in selection.clients]
        return dict(zip(selection.clients, weights, strict=True))

    def merge(self, state: RunState, arrived: ArrivedUpdates) -> tuple[bool, ArrivedUpdates]:
        """Merge what arrived into the state of a run's sharing method.

        Returns:
            Whether anything was merged, and what arrived without those that were left out, who have failed.
        """
        updates = arrived.updates()
        if not updates:
            return False, arrived
        known = arrived.trained.norms
        norms = {each.client: known[each.client] if each.client in known else norm(each.arrays) for each in updates}
        refused: dict[int, str] = {}
        moves = self._sharing.uploads_steps
        for group, members in self._groups(state, updates).items() if moves else ():
            refused |= self.safeguards.beyond(members, norms, norm(self._sharing.model(state.sharing, group)))
        while kept := arrived.without(refused).updates():
            groups = self._groups(state, kept)
            counted = [each for members in groups.values() for each in (self._counted(members) if moves else members)]
            counted.sort(key=lambda update: update.client)
            with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is looked at
                after, steps = self._sharing.merge(state.sharing, counted), state.merging.server_optimizer
                if self._refining is not None:
                    after = self._refining.taken(state.sharing, after, counted, state.round + 1)
                if self._step is not None:
                    clients = [update.client for update in counted]
                    after, steps = self._step.taken(state.sharing, after, clients, steps)
            if self._is_finite(after, kept):
                state.sharing, state.merging.server_optimizer = after, steps
                self._note(state, groups.values() if moves and TOGETHER not in norms else ())
                state.merging.sampler_shared = arrived.without(refused).sampler_shared(state.merging.sampler_shared)
                break
            worst = max(kept, key=lambda update: update.weight * norms[update.client]).client
            refused[worst] = "left out: with its update the model is not finite"
        state.clients.failures["training"] += len(refused)
        return bool(kept), arrived.without(refused)

    def _counted(self, updates: Sequence[Update]) -> Sequence[Update]:
        """What counts of updates to one model: clipped, and by the aggregation rule; their weights' sum stays."""
        clipped = self.safeguards.clipped(updates)
        total = sum(update.weight for update in clipped)
        if self._aggregation is None or not total > 0:
            return clipped
        normalised = [replace(update, weight=update.weight / total) for update in clipped]
        counted = self._aggregation.apply(normalised)
        if counted is normalised:  # nothing was changed, and no bit may be
            return clipped
        return [replace(update, weight=update.weight * total) for update in counted]

    def _note(self, state: RunState, groups: Iterable[Sequence[Update]]) -> None:
        """Note the fewest updates to a model that were merged at a time; warn where a robust rule survives no liar."""
        fewest = min(map(len, groups), default=0)
        if not fewest or 0 < state.merging.fewest <= fewest:
            return
        state.merging.fewest, rule = fewest, self._aggregation
        if rule is not None and not rule.survives(fewest) and rule.survives(MANY):
            LOG.warning(
                "Round %d: %s survives no liar among %d update%s to one model.",
                state.round + 1,
                type(rule).__name__,
                fewest,
                "s" * (fewest > 1),
            )

    def _groups(self, state: RunState, updates: Sequence[Update]) -> dict[int, list[Update]]:
        """Return {group: its updates}: clients of a group share a model."""
        groups: dict[int, list[Update]] = {}
        for update in updates:
            groups.setdefault(self._sharing.group(state.sharing, update.client), []).append(update)
        return groups

    def _is_finite(self, sharing: Any, updates: Sequence[Update]) -> bool:
        """Return whether every model is finite that these clients would be sent."""
        groups = {self._sharing.group(sharing, update.client) for update in updates}
        models = (self._sharing.model(sharing, group) for group in sorted(groups))
        return all(finite(array) for model in models for array in model.values())
