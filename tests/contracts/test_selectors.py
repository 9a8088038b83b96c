"""The laws of every selector, run on each file of the family in a small simulated world."""

import copy
import dataclasses
import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedgraft.methods.selectors
from fedgraft import wire
from fedgraft.contracts import Outcome, Selector, View

NAMES = sorted(module.name for module in pkgutil.iter_modules(fedgraft.methods.selectors.__path__))
ROUNDS = 60


def build(name):
    module = importlib.import_module(f"fedgraft.methods.selectors.{name}")
    found = [
        value
        for key, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and issubclass(value, Selector)
    ]
    assert len(found) == 1, f"{name}.py must hold one public selector"
    assert found[0].__name__.lower() == name.replace("_", "")
    return found[0]()


class World:
    """Clients of random size, price and speed, some unreachable, some failing, under a budget."""

    def __init__(self, seed, clients, budget_rounds=None, unavailable=0.0, failing=0.0, equal_prices=False):
        self.g = np.random.default_rng(seed)
        self.samples = self.g.integers(0, 50, clients)
        self.prices = np.full(clients, 120) if equal_prices else self.g.integers(80, 160, clients)
        self.probes = self.prices // 2
        self.seconds = self.g.uniform(1, 9, clients)
        self.budget = None if budget_rounds is None else int(budget_rounds * self.prices.sum())
        self.left = self.budget
        self.unavailable, self.failing = unavailable, failing

    def view(self, round):
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

    def pay(self, bytes):
        if self.left is not None:
            self.left -= bytes
            assert self.left >= 0

    def probed(self, view, probe):
        """The view after a probe, which a failing client does not answer."""
        if probe is None:
            return view
        assert probe.clients, "nobody to ask is None"
        assert list(probe.clients) == sorted(set(probe.clients))
        assert all(view.available[k] for k in probe.clients)
        cheapest = min(int(self.prices[k]) for k in probe.clients)
        cost = int(self.probes[list(probe.clients)].sum())
        assert self.left is None or cost + cheapest <= self.left
        self.pay(cost)
        answers = {k: self.report(probe.needs) for k in probe.clients if self.g.random() >= self.failing}
        return dataclasses.replace(view, bytes_left=self.left, probed=answers)

    def report(self, needs):
        return {name: float(self.g.random()) for name in needs}

    def outcome(self, selector, view, chosen):
        cost = int(self.prices[list(chosen)].sum())
        self.pay(cost)
        answered = [k for k in chosen if self.g.random() >= self.failing] or list(chosen[:1])
        return Outcome(
            selected=chosen,
            reports={k: self.report(selector.needs) for k in answered},
            failed={k: "no reply" for k in chosen if k not in answered},
            score=None if self.g.random() < 0.2 else float(self.g.uniform(0.9, 1.2)),
            bytes=cost,
            seconds={k: float(self.seconds[k]) for k in chosen},
            updates={k: {"w": np.ones(2, np.float32)} for k in answered} if "update" in selector.needs else {},
        )


def equal(one, two):
    if isinstance(one, dict):
        return isinstance(two, dict) and list(one) == list(two) and all(equal(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return isinstance(two, list) and len(one) == len(two) and all(map(equal, one, two))
    if isinstance(one, np.ndarray):
        return isinstance(two, np.ndarray) and one.dtype == two.dtype and np.array_equal(one, two, equal_nan=True)
    return type(one) is type(two) and (one == two or one != one)


def check(view, selection):
    chosen = selection.clients
    assert all(type(k) is int for k in chosen)
    assert list(chosen) == sorted(set(chosen))
    assert all(0 <= k < view.clients and view.available[k] for k in chosen)
    if view.bytes_left is not None:
        assert sum(int(view.bytes_per_client[k]) for k in chosen) <= view.bytes_left
    prices = view.bytes_per_client[view.available]
    if not chosen:
        assert view.bytes_left is not None
        assert prices.min() > view.bytes_left, "somebody was affordable"
    if selection.weights is not None:
        assert len(selection.weights) == len(chosen)
        assert all(np.isfinite(weight) and weight >= 0 for weight in selection.weights)


def play(selector, world, rounds=ROUNDS, resume_every=0):
    """The cohorts of a run; every call is checked, and nothing given may change."""
    cohorts, state = [], None
    for round in range(1, rounds + 1):
        view = world.view(round)
        if round == 1:
            state = selector.init(view)
        if resume_every and round % resume_every == 0:
            state = wire.unpack(wire.pack(state))
        before, seen = copy.deepcopy(state), copy.deepcopy(view)
        view = world.probed(view, selector.probe(state, view, np.random.default_rng(round)))
        selection = selector.select(state, view, np.random.default_rng([round, 1]))
        again = selector.select(copy.deepcopy(state), copy.deepcopy(view), np.random.default_rng([round, 1]))
        assert selection == again
        check(view, selection)
        cohorts.append(selection)
        if not selection.clients:
            break
        outcome = world.outcome(selector, view, selection.clients)
        told = copy.deepcopy(outcome)
        new = selector.update(state, view, outcome)
        assert equal(state, before), "update, select or probe changed the state it was given"
        assert equal(dataclasses.asdict(outcome), dataclasses.asdict(told))
        assert equal({**vars(seen), "probed": {}, "bytes_left": 0}, {**vars(view), "probed": {}, "bytes_left": 0})
        assert equal(new, wire.unpack(wire.pack(new))), "the wire must carry the state"
        state = new
    return cohorts


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("clients", [1, 2, 3, 10])
@pytest.mark.parametrize("trouble", [0.0, 0.4])
def test_runs_sixty_rounds(name, clients, trouble):
    world = World(clients, clients, unavailable=trouble, failing=trouble)
    assert len(play(build(name), world)) == ROUNDS


@pytest.mark.parametrize("name", NAMES)
def test_runs_with_one_available_client(name):
    world = World(0, 6, unavailable=1.0)
    assert all(len(selection.clients) == 1 for selection in play(build(name), world))


@pytest.mark.parametrize("name", NAMES)
def test_probes_where_nobody_answers_are_survived(name):
    selector, world = build(name), World(0, 6)
    view = world.view(1)
    state = selector.init(view)
    assert selector.select(state, view, np.random.default_rng(0)).clients


@pytest.mark.parametrize("name", NAMES)
def test_resumed_state_gives_the_same_run(name):
    def run(resume_every):
        return play(build(name), World(7, 8, 12.0, 0.2, 0.2), resume_every=resume_every)

    assert run(0) == run(3)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    clients=st.integers(1, 8),
    budget_rounds=st.floats(0.0, 4.0),
    trouble=st.sampled_from([0.0, 0.3]),
    equal_prices=st.booleans(),
)
def test_the_budget_is_a_promise(name, seed, clients, budget_rounds, trouble, equal_prices):
    world = World(seed, clients, budget_rounds, trouble, trouble, equal_prices)
    cohorts = play(build(name), world, rounds=30)
    assert world.left >= 0
    assert len(cohorts) == 30 or not cohorts[-1].clients


@pytest.mark.parametrize("name", NAMES)
def test_hyper_parameters_are_frozen_and_documented(name):
    selector = build(name)
    assert dataclasses.is_dataclass(selector)
    assert type(selector).__dataclass_params__.frozen
    text = inspect.getdoc(type(selector))
    for part in ("Source:", "Differs:", "State:", "Needs:", "Cost:"):
        assert part in text, f"the docstring of {name} lacks {part!r}"
    for option in dataclasses.fields(selector):
        assert f"{option.name}:" in text, f"the docstring of {name} lacks the option {option.name}"
