"""Laws of samplers and of all abilities that only some have, such as a half at the server."""

import copy
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedgraft import contracts
from fedgraft.contracts import GuidedSampler, Sampler, TaskFacts, View
from fedgraft.experiment.recipes import discovery
from fedgraft.testing import samplers
from fedgraft.testing.laws import Laws, check, equal, expect, for_all, strategies, travelled
from fedgraft.testing.samplers import one_round
from fedgraft.testing.selectors import World
from fedgraft.wire.layouts import Layout

LAWS: Laws[Sampler[Any]] = Laws()
GUIDED: Laws[Sampler[Any]] = Laws()
LAYERS = 2
"""Layers in which the task draws neighbours, for a sampler that depends on it."""
CLIENTS = 4
ROUNDS = 6

Guidance = Mapping[int, Mapping[str, float]]


def check_sampler(cls, /, **options):
    """Hold a sampler with these options to all laws."""
    check(laws(cls, **options))


def laws(cls, /, **options):
    """The laws of a sampler with these options, to be called one by one."""
    return [
        *samplers.laws(cls, **options),
        *LAWS.held(cls, lambda: cls(**options)),
        *GUIDED.held(cls, lambda: fitted(cls(**options))),
    ]


def fitted(sampler: Sampler[Any]) -> Sampler[Any]:
    """Return a sampler as a run has it: fitted to a task where it depends on it."""
    return sampler.fitted(TaskFacts(layers=LAYERS))


def some_guidance(sampler: Sampler[Any], seed: int, epochs: int) -> Mapping[str, float]:
    """Return what a client is told in a round of so many epochs; {} by a sampler without a half at the server."""
    sampler = fitted(sampler)
    if not isinstance(sampler, GuidedSampler):
        return {}
    g = np.random.default_rng(seed)
    view = dataclasses.replace(_view(World(seed, CLIENTS), 2), epochs=epochs)
    return sampler.guide(None, view, [0], g)[0]


@LAWS.every
def one_that_is_fitted_stays_as_it_is_when_it_is_stored_and_fitted_again(sampler: contracts.Sampler[Any]) -> None:
    """Keep in its options what it was fitted to."""
    for layers in (0, 1, 3):
        facts = TaskFacts(layers=layers)
        fitted = sampler.fitted(facts)
        stored = discovery.construct(type(fitted), "sampler", discovery.options_of(fitted))
        expect(stored == fitted, "the options must tell what a sampler was fitted to", stored, fitted)
        expect(stored.fitted(facts) == stored, "fitting twice must be fitting once", stored.fitted(facts), stored)


@LAWS.having(GuidedSampler)
def refreshes_are_never_more_than_promised(sampler: contracts.Sampler[Any]) -> None:
    """Ask for rows in a round at most as often as `refreshes` says, whatever the server's half tells."""

    def holds(seed: int, examples: int, epochs: int) -> None:
        most = sampler.refreshes(epochs)
        expect(type(most) is int and most >= 0, "refreshes must be an int >= 0", most)
        guidance = some_guidance(sampler, seed, epochs)
        state: Any = sampler.init(examples)
        for round in range(3):
            drawn, state = one_round(sampler, state, contracts.Stage(guidance=guidance), examples, epochs, seed + round)
            refreshes = sum(draw.refresh for draw in drawn)
            expect(refreshes <= most, f"a round of {epochs} epochs must refresh at most {most} times", refreshes)

    st = strategies()
    for_all(holds, {"seed": st.integers(0, 2**32), "examples": st.integers(1, 60), "epochs": st.integers(1, 5)})


@LAWS.having(contracts.ActiveSampler)
def what_is_reported_is_finite_and_as_announced(sampler: contracts.Sampler[Any]) -> None:
    """Tell every scalar that it announces, also of a client without examples."""
    for examples in (0, 1, 30):
        _, state = one_round(sampler, sampler.init(examples), contracts.Stage(), examples, 2, seed=1)
        report = sampler.report(state)
        expect(set(report) == sampler.reported, "report must tell what is announced", sorted(report))
        expect(all(np.isfinite(list(report.values()))), "what is reported must be finite", report)


@LAWS.having(contracts.ActiveSampler)
def what_is_shared_is_taken_and_given_back(sampler: contracts.Sampler[Any]) -> None:
    """Give back what the server sent as long as nothing was learnt; the same names and shapes ever after."""
    first = sampler.first(np.random.default_rng(1))
    again = sampler.first(np.random.default_rng(1))
    expect(equal(first, again), "equal generators must draw equal arrays", again, first)
    if not first:
        return
    state = sampler.init(30)
    before = copy.deepcopy(state)
    taken = sampler.take(state, first)
    expect(equal(state, before), "take changed the state it was given", state, before)
    expect(equal(taken, travelled(taken)), "the wire must carry the state after it took", taken)
    expect(equal(sampler.give(taken), first), "what was taken must be given back", sampler.give(taken), first)
    _, later = one_round(sampler, taken, contracts.Stage(), 30, 3, seed=1)
    expect(Layout.of(sampler.give(later)) == Layout.of(first), "names and shapes must stay", sampler.give(later))


@GUIDED.having(GuidedSampler)
def guidance_is_a_finite_number_of_every_name_for_each_client_of_the_cohort(sampler: Sampler[Any]) -> None:
    """Tell each client of a cohort what `guidance` names, and nobody else."""
    assert isinstance(sampler, GuidedSampler)
    names = sampler.guidance
    expect(isinstance(names, tuple) and len(set(names)) == len(names), "guidance must be distinct names", names)
    expect(sampler.reports <= {"update"}, 'reports must be {"update"} or empty', sampler.reports)
    for guidance, cohort in _run(sampler, seed=0):
        expect(sorted(guidance) == cohort, "each client of the cohort must be told, and nobody else", guidance, cohort)
        for numbers in guidance.values():
            expect(sorted(numbers) == sorted(names), f"a client must be told {sorted(names)}", sorted(numbers))
            fit = all(isinstance(value, int | float) and math.isfinite(value) for value in numbers.values())
            expect(fit, "what a client is told must be finite Python numbers", numbers)


@GUIDED.having(GuidedSampler)
def guiding_changes_no_state_and_depends_on_nothing_else(sampler: Sampler[Any]) -> None:
    """Tell the same for equal states, views and generators, and leave the state as it is."""
    one, two = (_run(sampler, seed=1) for _ in range(2))
    expect(one == two, "equal states, views and generators must give equal guidance", one, two)


@GUIDED.having(GuidedSampler)
def learning_changes_no_state_and_what_is_learnt_survives_the_wire(sampler: Sampler[Any]) -> None:
    """Go on from a state that was stored and read again as if it had not been."""
    whole, resumed = _run(sampler, seed=2), _run(sampler, seed=2, resume=True)
    expect(whole == resumed, "a state that is resumed must give equal guidance", resumed, whole)


def _run(sampler: Sampler[Any], seed: int, resume: bool = False) -> list[tuple[Guidance, list[int]]]:
    """Return what cohorts are told over some rounds, and the cohorts; every call is checked, nothing may change."""
    assert isinstance(sampler, GuidedSampler)
    world, rounds = World(seed, CLIENTS, failing=0.2), []
    state: Any = None
    for round in range(1, ROUNDS + 1):
        view = _view(world, round)
        cohort = sorted(world.g.choice(CLIENTS, 1 + round % CLIENTS, replace=False).tolist())
        before, cohort_before = copy.deepcopy(state), list(cohort)
        guidance = sampler.guide(state, view, cohort, np.random.default_rng([seed, round]))
        again = sampler.guide(copy.deepcopy(state), view, cohort, np.random.default_rng([seed, round]))
        expect(equal(state, before), "guide changed the state it was given", state, before)
        expect(cohort == cohort_before, "guide changed the cohort it was given", cohort, cohort_before)
        expect(guidance == again, "equal states, views and generators must give equal guidance", again, guidance)
        rounds.append((guidance, cohort))
        outcome = world.outcome(sampler.reports, view, tuple(cohort), guidance)
        known, seen = copy.deepcopy(outcome), copy.deepcopy(view)
        after = sampler.learn(state, view, outcome, np.random.default_rng([seed, round, 1]))
        expect(equal(state, before), "learn changed the state it was given", state, before)
        unchanged = equal(dataclasses.asdict(outcome), dataclasses.asdict(known)) and equal(vars(view), vars(seen))
        expect(unchanged, "learn must not change the outcome or the view it is given", outcome, view)
        expect(equal(after, travelled(after)), "the wire must carry the state", after)
        state = travelled(after) if resume else after
    return rounds


def _view(world: World, round: int) -> View:
    """Return what the server sees, losses and all; in the first round none were seen yet."""
    losses = {split: tuple(world.g.uniform(0.001, 2, 2).tolist()) for split in ("validation", "test")}
    return dataclasses.replace(world.view(round), losses={} if round == 1 else losses, epochs=2)
