"""Answers and when they arrive: in their round, in a later one, or never."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedgraft.contracts import Timing, Update
from fedgraft.engine.plan import split_sampler
from fedgraft.engine.server.clock import Clock
from fedgraft.engine.server.rounds.collecting import TOGETHER, TrainReplies
from fedgraft.wire.layouts import Arrays


@dataclass(frozen=True)
class ArrivedUpdates:
    """The answers that are there when a round ends: the cohort's in time, and earlier cohorts' late ones.

    `weights` are {client: what its update weighs before updates are made to sum to 1}, stale ones discounted; `timings`
    {client: seconds of its round}, of those that answered or failed. The round lasted `seconds`, from the order to
    train on. `late` are those of the cohort that missed the deadline; `staleness` is {client: rounds}, of late answers.
    """

    trained: TrainReplies
    weights: Mapping[int, float] = field(default_factory=dict)
    timings: Mapping[int, Timing] = field(default_factory=dict)
    seconds: float = 0.0
    late: tuple[int, ...] = ()
    staleness: Mapping[int, int] = field(default_factory=dict)

    def updates(self) -> list[Update]:
        """Return updates in ascending client order, weights summing to 1; none where all weights are 0.

        Where all are late, weights sum to their mean discount: else nobody would make up for what a stale one lacks.
        """
        uploads = self.trained.uploads
        weights = {client: weight for client, weight in sorted(self.weights.items()) if client in uploads}
        if all(client in self.staleness for client in weights):
            weights = {client: weight * (1 + self.staleness[client]) for client, weight in weights.items()}
        total = sum(weights.values())
        if not total > 0:
            return []
        return [
            Update(
                client, self.weights[client] / total, split_sampler(uploads[client])[0], self.staleness.get(client, 0)
            )
            for client in sorted(uploads)
        ]

    def sampler_shared(self, before: Arrays) -> Arrays:
        """Return the sampler's shared arrays after the updates that came: moved by their weighted sum."""
        after: Arrays = {}
        for name, array in before.items():
            moves = [update.weight * self.trained.uploads[update.client][name] for update in self.updates()]
            after[name] = (array + np.sum(moves, axis=0)).astype(array.dtype) if moves else array
        return after

    def without(self, refused: Mapping[int, str]) -> "ArrivedUpdates":
        """Return the answers with those of {client: reason} refused: they have failed."""
        if not refused:
            return self
        trained = self.trained
        if TOGETHER in refused:  # what has failed is all of them
            refused = dict.fromkeys(trained.reports, refused[TOGETHER])
            trained = replace(trained, uploads={})
        uploads = {client: arrays for client, arrays in trained.uploads.items() if client not in refused}
        reports = {client: report for client, report in trained.reports.items() if client not in refused}
        failed = {**trained.failed, **refused}
        return replace(self, trained=replace(trained, uploads=uploads, reports=reports, failed=failed))


class Arrivals:
    """Late answers on their way to the server; the clock says what becomes of them.

    `tree` has those in flight, in the order in which they were sent, and is changed in place, so that a checkpoint of
    the run holds it: [{"client", "round": that ordered it, "arrives": simulated seconds since the run began, "weight",
    "training", "communication": seconds, "report", "arrays"}].
    """

    def __init__(self, clock: Clock, tree: list[dict[str, Any]]) -> None:
        self._clock, self._tree = clock, tree

    @property
    def busy(self) -> list[int]:
        """Clients whose answers are in flight."""
        return [entry["client"] for entry in self._tree]

    def settle(
        self, trained: TrainReplies, weights: Mapping[int, float], timings: Mapping[int, Timing], deadline: float
    ) -> tuple["ArrivedUpdates", list[dict[str, Any]]]:
        """Sort a cohort's answers into those in time and those that are late.

        `weights` are {client: what its update weighs}, `timings` {client: seconds}. After `deadline` seconds the round
        does not wait, unless the clock says so.

        Returns:
            What is there in time, and what is not: entries as those in flight, but for "round" and "arrives".
        """
        seconds = max((timing.total for timing in timings.values()), default=0.0)
        if self._clock.late == "wait" or seconds <= deadline:
            return ArrivedUpdates(trained, weights, timings, seconds), []
        late = tuple(client for client, timing in timings.items() if timing.total > deadline)
        answered = [client for client in late if client in trained.reports]
        sent = [
            {
                "client": client,
                "weight": weights[client],
                "training": timings[client].training,
                "communication": timings[client].communication,
                "report": dict(trained.reports[client]),
                "arrays": trained.uploads[client],
            }
            for client in answered
        ]
        reasons = {}
        if self._clock.late == "drop":
            allowed = f"the round ended after {deadline:.4g}"
            reasons = {client: f"late: {timings[client].total:.4g} seconds, {allowed}" for client in answered}
            sent = []
        kept = replace(
            trained,
            uploads={client: arrays for client, arrays in trained.uploads.items() if client not in late},
            reports={client: report for client, report in trained.reports.items() if client not in late},
            failed={**trained.failed, **reasons},
        )
        known = {client: timing for client, timing in timings.items() if client not in answered}
        return ArrivedUpdates(kept, weights, known, deadline, late), sent

    def send(self, entries: Sequence[dict[str, Any]], round: int, began: float) -> None:
        """Note late answers of a round whose orders were sent `began` simulated seconds after the run began."""
        for entry in entries:
            arrives = began + (entry["training"] + entry["communication"])
            self._tree.append({**entry, "round": round, "arrives": arrives})

    @property
    def next_arrival(self) -> float:
        """When the next answer arrives, in simulated seconds since the run began; inf where none is on its way."""
        return min((entry["arrives"] for entry in self._tree), default=math.inf)

    def receive(self, arrived: ArrivedUpdates, round: int, now: float) -> ArrivedUpdates:
        """Return a round's answers with those of earlier rounds that have come meanwhile; too stale ones have failed.

        `arrived` are the cohort's of the round that ends; `now` is in simulated seconds since the run began.
        """
        entries = [entry for entry in self._tree if entry["arrives"] <= now]
        if not entries:
            return arrived
        self._tree[:] = [entry for entry in self._tree if entry["arrives"] > now]
        uploads: dict[int, Arrays] = dict(arrived.trained.uploads)
        reports, failed = dict(arrived.trained.reports), dict(arrived.trained.failed)
        weights, timings, staleness = dict(arrived.weights), dict(arrived.timings), {}
        for entry in entries:
            client, stale = entry["client"], round - entry["round"]
            timings[client] = Timing(entry["training"], entry["communication"])
            staleness[client] = stale
            if stale > self._clock.max_staleness:
                allowed = f"clock.max_staleness = {self._clock.max_staleness}"
                failed[client] = f"late: its update is {stale} rounds old, {allowed}"
                continue
            uploads[client], reports[client] = entry["arrays"], entry["report"]
            weights[client] = entry["weight"] / (1 + stale)
        trained = replace(arrived.trained, uploads=uploads, reports=reports, failed=failed)
        return replace(arrived, trained=trained, weights=weights, timings=timings, staleness=staleness)
