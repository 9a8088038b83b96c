"""Selectors that draw otherwise among many clients keep the laws there, too, and choose as among few."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft.methods import cohorts
from fedgraft.methods.selectors import fedacs, reputation_ucb
from fedgraft.methods.selectors.afl import AFL
from fedgraft.methods.selectors.fedacs import FedACS
from fedgraft.methods.selectors.oort import Oort
from fedgraft.methods.selectors.random import Random
from fedgraft.methods.selectors.reputation_ucb import ReputationUCB
from fedgraft.testing import selectors
from helpers.laws import held

SELECTORS = {
    "random": selectors.laws(Random),
    "oort": selectors.laws(Oort),
    "afl": selectors.laws(AFL, discarded=0.25),
    "fedacs": selectors.laws(FedACS),
    "fedacs, selections": selectors.laws(FedACS, min_selections=40),
    "reputation_ucb": selectors.laws(ReputationUCB),
    "reputation_ucb, quotas": selectors.laws(ReputationUCB, least_share=0.2, most_share=0.6),
    "reputation_ucb, stochastic": selectors.laws(ReputationUCB, policy="stochastic"),
}


@pytest.fixture(autouse=True)
def two_are_many(monkeypatch):
    for module in (cohorts, fedacs, reputation_ucb):
        monkeypatch.setattr(module, "MANY", 1)
    monkeypatch.setattr(cohorts, "SAMPLED", 1)


@pytest.mark.parametrize("law", held(SELECTORS, slow=[f"{name}-runs_sixty_rounds" for name in SELECTORS]))
def test_keeps_the_law(law):
    law()


def test_fedacs_takes_the_best_that_the_budget_pays_for(view, g):
    selector, seen = FedACS(), view(6, round=20, bytes_left=250)
    state = {
        **selector.init(seen),
        "client_rewards": np.array([1.0, 6, 5, 9, 0, 2]),
        "client_pulls": np.full(6, 1),
        "number_rewards": np.array([0.0, 9, 0, 0, 0, 0]),
        "number_pulls": np.full(6, 1),
    }
    assert selector.select(state, seen, g).clients == (1, 3)
    assert selector.select(state, replace(seen, bytes_left=None), g).clients == (1, 3)
    dear = replace(seen, bytes_per_client=np.array([100, 100, 100, 900, 100, 100]))
    assert selector.select(state, dear, g).clients == (1,), "the best does not fit, and then the next one alone"


def test_reputations_ties_fall_at_random(view):
    selector, seen = ReputationUCB(clients=3), view(9)
    state = {**selector.init(seen), "mean": np.array([0, 0, 1.0, 0, 0, 0, 0, -1.0, 0])}
    drawn = [selector.select(state, seen, np.random.default_rng(k)).clients for k in range(2000)]
    share = np.bincount(np.concatenate(drawn), minlength=9) / len(drawn)
    assert share[2] == 1
    assert share[7] == 0
    assert np.allclose(share[[0, 1, 3, 4, 5, 6, 8]], 2 / 7, atol=0.04)


def test_one_behind_its_quota_that_is_too_dear_does_not_end_the_run(view):
    selector = ReputationUCB(clients=1, least_share=0.5)
    seen = replace(view(2, round=3, bytes_left=50), bytes_per_client=np.array([40, 60]))
    state = {**selector.init(seen), "tries": np.array([0, 0])}
    for seed in range(20):
        assert selector.select(state, seen, np.random.default_rng(seed)).clients == (0,)
