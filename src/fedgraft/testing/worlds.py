"""A simulated federation for methods that work at the server: clients, prices, a budget, and what goes wrong."""

import dataclasses
import math
from collections.abc import Collection, Mapping

import numpy as np

from fedgraft.contracts import Outcome, Probe, Timing, View
from fedgraft.testing.laws import expect

ROUNDS = 60
PROBED = ("loss", "loss_sq", "seconds")
"""Names of what is known of a probed client that answers."""


class World:
    """Clients of random size, price and speed, some unreachable, some failing, under a budget.

    Args:
        seed: of all that is random.
        clients: how many there are.
        budget_rounds: how many rounds of all clients the budget pays for; None without a budget.
        unavailable: chance that a client cannot be reached in a round, in [0, 1]; one can always.
        failing: chance that a client does not answer, in [0, 1].
        equal_prices: whether all clients cost the same.
        late: chance that a client's answer comes one to three rounds late, in [0, 1]; it cannot be reached meanwhile.
        planned: how many rounds the run is to have.
    """

    def __init__(
        self,
        seed: int,
        clients: int,
        budget_rounds: float | None = None,
        unavailable: float = 0.0,
        failing: float = 0.0,
        equal_prices: bool = False,
        late: float = 0.0,
        planned: int = ROUNDS,
    ) -> None:
        self.planned = planned
        self.g = np.random.default_rng(seed)
        self.samples = self.g.integers(0, 50, clients)
        self.prices = np.full(clients, 120) if equal_prices else self.g.integers(80, 160, clients)
        self.probes = self.prices // 2
        self.seconds = self.g.uniform(1, 9, clients)
        self.budget = None if budget_rounds is None else int(budget_rounds * self.prices.sum())
        self.left = self.budget
        self.unavailable, self.failing, self.late = unavailable, failing, late
        self.in_flight: dict[int, tuple[int, int]] = {}  # {client: (round that ordered, round of arrival)}

    def view(self, round: int) -> View:
        """Return what the server sees as a round begins; nobody is available where all are at work."""
        available = self.g.random(len(self.samples)) >= self.unavailable
        idle = [client for client in range(len(self.samples)) if client not in self.in_flight]
        available[list(self.in_flight)] = False
        if idle and not available.any():
            available[idle[self.g.integers(len(idle))]] = True
        return View(
            round=round,
            samples=self.samples.copy(),
            bytes_per_client=self.prices.copy(),
            bytes_per_probe=self.probes.copy(),
            seconds=self.seconds.copy(),
            available=available,
            bytes_left=self.left,
            bytes_budget=self.budget,
            rounds=self.planned,
            score=float(self.g.uniform(0.9, 1.2)),
            deadline=float(np.median(self.seconds)),
        )

    def pay(self, bytes: int) -> None:
        """Take bytes from the budget."""
        if self.left is not None:
            self.left -= bytes
            expect(self.left >= 0, "the bytes of a round must be at most those that were left", -self.left)

    def probed(self, view: View, probe: Probe | None) -> View:
        """Return the view after a probe, which a failing client does not answer."""
        if probe is None:
            return view
        expect(probe.clients, "a probe of nobody must be None", probe)
        ascending = sorted(set(probe.clients))
        expect(list(probe.clients) == ascending, "the probed clients must be distinct and ascending", probe.clients)
        expect(all(view.available[k] for k in probe.clients), "the probed clients must be available", probe.clients)
        cheapest = min(int(self.prices[k]) for k in probe.clients)
        cost = int(self.probes[list(probe.clients)].sum())
        affordable = self.left is None or cost + cheapest <= self.left
        expect(affordable, "a probe must leave enough for one of the probed clients", cost, cheapest, self.left)
        self.pay(cost)
        answers = {k: self.report(PROBED) for k in probe.clients if self.g.random() >= self.failing}
        return dataclasses.replace(view, bytes_left=self.left, probed=answers)

    def report(self, names: Collection[str]) -> dict[str, float]:
        """Return random scalars of these names; a client without validation examples has no score."""
        report = {name: float(self.g.random()) for name in names}
        return {**report, "score": math.nan} if "score" in report and report["score"] < 0.1 else report

    def outcome(
        self,
        reports: Collection[str],
        view: View,
        chosen: tuple[int, ...],
        guidance: Mapping[int, Mapping[str, float]] | None = None,
    ) -> Outcome:
        """Return what comes of a round of these clients, of which at least one answers, now or later.

        They report scalars of these names; "update" stands for their uploads. Nobody is `chosen` where the server waits
        for late answers.
        """
        cost = int(self.prices[list(chosen)].sum())
        self.pay(cost)
        answered = [k for k in chosen if self.g.random() >= self.failing] or list(chosen[:1])
        failed = {k: "no reply" for k in chosen if k not in answered}
        staleness = self._arrivals(view.round, waits=not chosen)
        late = tuple(k for k in answered if self.late and self.g.random() < self.late)
        self.in_flight.update({k: (view.round, view.round + int(self.g.integers(1, 4))) for k in late})
        there = sorted({*answered, *staleness} - {*late})
        named = sorted(set(reports) - {"update"})
        return Outcome(
            selected=chosen,
            reports={k: self.report(named) for k in there},
            failed=failed,
            score=None if self.g.random() < 0.2 else float(self.g.uniform(0.9, 1.2)),
            bytes=cost,
            timings={k: Timing(float(self.seconds[k]) / 2, float(self.seconds[k]) / 2) for k in [*there, *failed]},
            updates={k: {"w": np.ones(2, np.float32)} for k in there} if "update" in reports else {},
            guidance=guidance or {},
            late=late,
            staleness=staleness,
        )

    def _arrivals(self, round: int, waits: bool) -> dict[int, int]:
        """{client: rounds by which its answer is late}, of those that arrive in a round, who are idle again."""
        due = round if not waits else max(round, min((when for _, when in self.in_flight.values()), default=round))
        here = {client: round - ordered for client, (ordered, when) in self.in_flight.items() if when <= due}
        for client in here:
            del self.in_flight[client]
        return dict(sorted(here.items()))
