"""Laws of selectors, in a small simulated world."""

import copy
import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from fedgraft.contracts import (
    Outcome,
    Probe,
    ProbingSelector,
    Selection,
    Selector,
    Timing,
    View,
)
from fedgraft.testing.comparison import equal, travelled
from fedgraft.testing.form import check_form
from fedgraft.testing.laws import Law, Laws, check, expect, for_all, strategies

ROUNDS = 60
PROBED = ("loss", "loss_sq", "seconds")
"""Names of what is known of a probed client that answers."""
BUDGETED: dict[str, Any] = {"budget_rounds": 12.0, "unavailable": 0.2, "failing": 0.2}
"""A world in which a run ends before its last round."""


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


@dataclasses.dataclass
class Run:
    """A selector's run in a world.

    Args:
        cohorts: chosen, one a round.
        bad_terms: what the terms of the first choice that broke their law said; None where all kept it.
    """

    cohorts: list[Selection] = dataclasses.field(default_factory=list)
    bad_terms: Exception | None = None


class Case:
    """A selector and its runs, each of which is made once and read by all laws that are about it."""

    def __init__(self, selector: Selector[Any]) -> None:
        self.selector = selector
        self._runs: dict[tuple[Any, ...], Run] = {}

    def run(self, seed: int, clients: int, /, **world: Any) -> Run:
        """Return its run of `ROUNDS` rounds in the world with these options."""
        key = seed, clients, *world.items()
        if key not in self._runs:
            self._runs[key] = _play(self.selector, World(seed, clients, **world))
        return self._runs[key]


LAWS: Laws[Case] = Laws()


def check_selector(cls: type[Selector[Any]], /, **options: Any) -> None:
    """Hold a selector with these options to all laws; raise `AssertionError` with the class, the law, what was seen."""
    check(laws(cls, **options))


def laws(cls: type[Selector[Any]], /, **options: Any) -> list[Law[Case]]:
    """Return the laws of a selector with these options, to be called one by one."""
    return LAWS.held(cls, lambda: Case(cls(**options)))


@LAWS.every
def hyper_parameters_are_frozen_and_documented(case: Case) -> None:
    """Be a frozen dataclass whose documentation names source, state, needs and cost."""
    check_form(type(case.selector), Selector, ("Source:", "Differs:", "State:", "Needs:", "Cost:"))


@LAWS.every
def runs_sixty_rounds(case: Case) -> None:
    """Choose somebody in each of sixty rounds, of few clients or many, all well or not."""
    for clients in (1, 2, 3, 10):
        for trouble in (0.0, 0.4):
            made = len(case.run(clients, clients, unavailable=trouble, failing=trouble).cohorts)
            expect(made == ROUNDS, f"{clients} clients must train in all of {ROUNDS} rounds", made)


@LAWS.every
def runs_with_one_available_client(case: Case) -> None:
    """Choose the one client that can be reached."""
    view = World(0, 6, unavailable=1.0).view(1)
    state = case.selector.init(view)
    chosen = case.selector.select(state, view, np.random.default_rng(0)).clients
    expect(chosen, "a client that is alone must be chosen", chosen)


@LAWS.every
def learns_from_late_answers(case: Case) -> None:
    """Go on where answers come rounds later, from clients that cannot be selected meanwhile."""
    for clients in (1, 3, 8):
        made = len(case.run(clients, clients, unavailable=0.2, failing=0.2, late=0.5).cohorts)
        expect(made == ROUNDS, f"{clients} clients whose answers are late must train in all of {ROUNDS} rounds", made)


@LAWS.every
def resumed_state_gives_the_same_run(case: Case) -> None:
    """Go on from a state that was stored and read again as if it had not been."""
    whole = case.run(7, 8, **BUDGETED).cohorts
    resumed = _play(case.selector, World(7, 8, **BUDGETED), resume_every=3).cohorts
    expect(whole == resumed, "a run that is resumed must choose the same cohorts", resumed, whole)


@LAWS.every
def more_rounds_change_no_choice(case: Case) -> None:
    """Choose alike however many rounds are planned, unless `paced` says that choices depend on it."""
    if not case.selector.paced:
        one = case.run(7, 8, **BUDGETED).cohorts
        other = case.run(7, 8, **BUDGETED, planned=3 * ROUNDS).cohorts
        expect(one == other, "a selector whose choices depend on view.rounds must be `paced`", other, one)


@LAWS.every
def budget_is_a_promise(case: Case) -> None:
    """Never spend what is not left; stop only when nobody can be paid for."""

    def promised(seed: int, clients: int, budget_rounds: float, trouble: float, equal_prices: bool) -> None:
        world = World(seed, clients, budget_rounds, trouble, trouble, equal_prices)
        cohorts = _play(case.selector, world, rounds=30).cohorts
        expect(world.left is not None and world.left >= 0, "the budget must not be exceeded", world.left)
        ended = len(cohorts) == 30 or not cohorts[-1].clients
        expect(ended, "a run must end with an empty cohort or its last round", len(cohorts))

    st = strategies()
    drawn = {
        "seed": st.integers(0, 2**32),
        "clients": st.integers(1, 8),
        "budget_rounds": st.floats(0.0, 4.0),
        "trouble": st.sampled_from([0.0, 0.3]),
        "equal_prices": st.booleans(),
    }
    for_all(promised, drawn)


@LAWS.where(lambda cls: cls.explanation is not Selector.explanation)
def terms_are_of_every_client(case: Case) -> None:
    """Tell after each choice a float64 for every client, finite or nan; the same of the same, and change nothing."""
    runs = [case.run(7, 8, **BUDGETED)]
    runs += [case.run(clients, clients, unavailable=0.0, failing=0.0) for clients in (1, 3, 10)]
    runs += [case.run(clients, clients, unavailable=0.2, failing=0.2, late=0.5) for clients in (1, 3, 8)]
    for run in runs:
        if run.bad_terms is not None:
            raise run.bad_terms


def _play(selector: Selector[Any], world: World, rounds: int = ROUNDS, resume_every: int = 0) -> Run:
    """Return the run of a selector in a world; every call is checked, and nothing given may change."""
    run = Run()
    state = None
    for round in range(1, rounds + 1):
        view = world.view(round)
        if round == 1:
            state = selector.init(view)
        if resume_every and round % resume_every == 0:
            state = travelled(state)
        before, seen = copy.deepcopy(state), copy.deepcopy(view)
        selection = Selection(())
        if view.available.any():  # else the server waits for those who are at work
            if isinstance(selector, ProbingSelector):
                view = world.probed(view, selector.probe(state, view, np.random.default_rng(round)))
            selection = selector.select(state, view, np.random.default_rng([round, 1]))
            again = selector.select(copy.deepcopy(state), copy.deepcopy(view), np.random.default_rng([round, 1]))
            expect(selection == again, "equal states, views and generators must give equal cohorts", selection, again)
            _check_cohort(view, selection)
            if selection.clients and run.bad_terms is None:
                run.bad_terms = _bad_terms(selector, state, view)
        run.cohorts.append(selection)
        if not selection.clients and not world.in_flight:
            break
        outcome = world.outcome(selector.reports, view, selection.clients)
        original = copy.deepcopy(outcome)
        new = selector.update(state, view, outcome)
        expect(equal(state, before), "update, select or probe changed the state it was given", state, before)
        unchanged = equal(dataclasses.asdict(outcome), dataclasses.asdict(original))
        expect(unchanged, "update must not change the outcome it is given", outcome)
        expect(equal(_lasting(seen), _lasting(view)), "the view must not be changed", view)
        expect(equal(new, travelled(new)), "the wire must carry the state", new)
        state = new
    return run


def _bad_terms(selector: Selector[Any], state: Any, view: View) -> Exception | None:
    """Return what breaks the law of terms in those of one choice; None where they keep it."""
    copied, seen = copy.deepcopy(state), copy.deepcopy(view)
    try:
        explanation = dict(selector.explanation(copied, seen))
        for name, values in explanation.items():
            expect(isinstance(name, str) and name, "the name of a term must be a text", name)
            fits = isinstance(values, np.ndarray) and values.dtype == np.float64 and values.shape == (view.clients,)
            expect(fits, f"the term {name!r} must be float64 [N]", values)
            expect(not np.isinf(values).any(), f"the term {name!r} must be finite, or nan", values)
        expect(equal(copied, state), "terms must not change the state", copied, state)
        expect(equal(vars(seen), vars(view)), "terms must not change the view", seen)
        original, again = copy.deepcopy(explanation), dict(selector.explanation(state, view))
        expect(equal(explanation, original), "terms must not change those that were told before", explanation, original)
        expect(equal(original, again), "equal states and views must give equal terms", original, again)
    except Exception as error:
        return error
    return None


def _lasting(view: View) -> dict[str, Any]:
    """A view but for what a probe changes."""
    return {**vars(view), "probed": {}, "bytes_left": 0}


def _check_cohort(view: View, selection: Selection) -> None:
    chosen = selection.clients
    expect(all(type(k) is int for k in chosen), "the clients of a cohort must be Python ints", chosen)
    expect(list(chosen) == sorted(set(chosen)), "the clients of a cohort must be distinct and ascending", chosen)
    there = all(0 <= k < view.clients and view.available[k] for k in chosen)
    expect(there, "the clients of a cohort must be available", chosen, view.available)
    if view.bytes_left is not None:
        cost = sum(int(view.bytes_per_client[k]) for k in chosen)
        expect(cost <= view.bytes_left, f"the bytes of a cohort must be at most the {view.bytes_left} left", cost)
    if not chosen:
        expect(view.bytes_left is not None, "a cohort must not be empty without a budget", chosen)
        cheapest = int(view.bytes_per_client[view.available].min())
        unaffordable = view.bytes_left is not None and cheapest > view.bytes_left
        expect(unaffordable, "a cohort must not be empty while somebody is affordable", cheapest, view.bytes_left)
    if selection.weights is not None:
        expect(len(selection.weights) == len(chosen), "there must be a weight for each client", selection)
        fit = all(np.isfinite(weight) and weight >= 0 for weight in selection.weights)
        expect(fit, "weights must be finite and >= 0", selection.weights)
