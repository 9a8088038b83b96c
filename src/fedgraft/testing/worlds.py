"""A simulated federation for methods that work at the server: clients, prices, a budget, and what goes wrong."""

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np

from fedgraft.contracts import Outcome, Probe, View
from fedgraft.testing.laws import expect

ROUNDS = 60
PROBED = ("loss", "loss_sq")
"""Names of the scalars that a probed client answers."""


class World:
    """Clients of random size, price and speed, some unreachable, some failing, under a budget.

    Args:
        seed: of all that is random.
        clients: how many there are.
        budget_rounds: how many rounds of all clients the budget pays for; None without a budget.
        unavailable: chance that a client cannot be reached in a round, in [0, 1]; one can always.
        failing: chance that a client does not answer, in [0, 1].
        equal_prices: whether all clients cost the same.
    """

    def __init__(
        self,
        seed: int,
        clients: int,
        budget_rounds: float | None = None,
        unavailable: float = 0.0,
        failing: float = 0.0,
        equal_prices: bool = False,
    ) -> None:
        self.g = np.random.default_rng(seed)
        self.samples = self.g.integers(0, 50, clients)
        self.prices = np.full(clients, 120) if equal_prices else self.g.integers(80, 160, clients)
        self.probes = self.prices // 2
        self.seconds = self.g.uniform(1, 9, clients)
        self.budget = None if budget_rounds is None else int(budget_rounds * self.prices.sum())
        self.left = self.budget
        self.unavailable, self.failing = unavailable, failing

    def view(self, round: int) -> View:
        """Return what the server sees as a round begins."""
        available = self.g.random(len(self.samples)) >= self.unavailable
        if not available.any():
            available[self.g.integers(len(available))] = True
        return View(
            round=round,
            samples=self.samples.copy(),
            bytes_per_client=self.prices.copy(),
            bytes_per_probe=self.probes.copy(),
            seconds=self.seconds.copy(),
            available=available,
            bytes_left=self.left,
            bytes_budget=self.budget,
            rounds=ROUNDS,
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
        """Return random scalars of these names."""
        return {name: float(self.g.random()) for name in names}

    def outcome(
        self,
        reports: Collection[str],
        view: View,
        chosen: tuple[int, ...],
        guidance: Mapping[int, Mapping[str, float]] | None = None,
    ) -> Outcome:
        """Return what comes of a round of these clients, of which at least one answers.

        Args:
            reports: names of the scalars that they report; "update" stands for their uploads.
            view: of the round.
            chosen: the cohort.
            guidance: what their samplers were told.
        """
        cost = int(self.prices[list(chosen)].sum())
        self.pay(cost)
        answered = [k for k in chosen if self.g.random() >= self.failing] or list(chosen[:1])
        return Outcome(
            selected=chosen,
            reports={k: self.report(reports) for k in answered},
            failed={k: "no reply" for k in chosen if k not in answered},
            score=None if self.g.random() < 0.2 else float(self.g.uniform(0.9, 1.2)),
            bytes=cost,
            seconds={k: float(self.seconds[k]) for k in chosen},
            updates={k: {"w": np.ones(2, np.float32)} for k in answered} if "update" in reports else {},
            guidance=guidance or {},
        )
