"""Make the next model of a round's updates: leave out, clip, weigh, and merge."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fedgraft.contracts import Aggregation, Selection, Sharing, Update
from fedgraft.engine.server.rounds.arrivals import ArrivedUpdates
from fedgraft.engine.server.rounds.refining import Refining
from fedgraft.engine.server.rounds.safeguards import Safeguards, norm
from fedgraft.engine.server.rounds.server_step import ServerStep
from fedgraft.engine.server.rounds.train_replies import TOGETHER
from fedgraft.engine.server.run_state import RunState
from fedgraft.wire.layouts import finite

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
                after, steps = self._sharing.merge(state.sharing, counted), state.server_optimizer
                if self._refining is not None:
                    after = self._refining.taken(state.sharing, after, counted, state.round + 1)
                if self._step is not None:
                    clients = [update.client for update in counted]
                    after, steps = self._step.taken(state.sharing, after, clients, steps)
            if self._is_finite(after, kept):
                state.sharing, state.server_optimizer = after, steps
                self._note(state, groups.values() if moves and TOGETHER not in norms else ())
                state.sampler_shared = arrived.without(refused).sampler_shared(state.sampler_shared)
                break
            worst = max(kept, key=lambda update: update.weight * norms[update.client]).client
            refused[worst] = "left out: with its update the model is not finite"
        state.failures["training"] += len(refused)
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
        if not fewest or 0 < state.fewest <= fewest:
            return
        state.fewest, rule = fewest, self._aggregation
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
