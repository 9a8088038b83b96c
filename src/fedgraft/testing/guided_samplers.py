"""Laws of the half of a sampler that is at the server."""

import copy
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedgraft.contracts import GuidedSampler, LayeredSampler, Sampler, View
from fedgraft.testing.comparison import equal, travelled
from fedgraft.testing.laws import Laws, expect
from fedgraft.testing.worlds import World

LAWS: Laws[Sampler[Any]] = Laws()
LAYERS = 2
"""Layers in which the task draws neighbours, for a sampler that depends on it."""
CLIENTS = 4
ROUNDS = 6

Guidance = Mapping[int, Mapping[str, float]]


def fitted(sampler: Sampler[Any]) -> Sampler[Any]:
    """Return a sampler as a run has it: fitted to a task where it depends on it."""
    return sampler.fitted(LAYERS) if isinstance(sampler, LayeredSampler) else sampler


def some_guidance(sampler: Sampler[Any], seed: int, epochs: int) -> Mapping[str, float]:
    """Return what a client is told in a round of so many epochs; {} by a sampler without a half at the server."""
    sampler = fitted(sampler)
    if not isinstance(sampler, GuidedSampler):
        return {}
    g = np.random.default_rng(seed)
    view = dataclasses.replace(_view(World(seed, CLIENTS), 2), epochs=epochs)
    return sampler.guide(None, view, [0], g)[0]


@LAWS.having(GuidedSampler)
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


@LAWS.having(GuidedSampler)
def guiding_changes_no_state_and_depends_on_nothing_else(sampler: Sampler[Any]) -> None:
    """Tell the same for equal states, views and generators, and leave the state as it is."""
    one, two = (_run(sampler, seed=1) for _ in range(2))
    expect(one == two, "equal states, views and generators must give equal guidance", one, two)


@LAWS.having(GuidedSampler)
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
