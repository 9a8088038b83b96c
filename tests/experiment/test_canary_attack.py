"""The attack on sums: what a broken mechanism tells is found, and one that is whole stays below its claim."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedgraft.engine.client import local_round
from fedgraft.engine.privacy import private_sums
from fedgraft.experiment.attacking.canary_audit import canaries
from fedgraft.experiment.experiment import load
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.experiment.storage.run_folder import RunFolder

COMMON = {"secure_sum.name": "clear", "runtime.workers": 0, "yardsticks": [], "privacy.delta": 1e-5}
NODES = {
    **COMMON,
    "data.name": "blocks",
    "data.nodes": 1800,
    "data.clients": 3,
    "data.features": 100,
    "rounds": 5,
    "privacy.clip": 0.5,
    "evaluation.every": 5,
}
GRAPHS = {**COMMON, "data.name": "molecules", "data.clients": 3, "task.wl_width": 64, "rounds": 4}
RATINGS = {
    **COMMON,
    "data.users": 900,
    "data.items": 150,
    "data.count": 6000,
    "data.clients": 3,
    "rounds": 1,
    "training.epochs": 1,
}
CLIENTS = {
    **COMMON,
    "data.name": "blocks",
    "data.nodes": 1200,
    "data.clients": 60,
    "data.features": 20,
    "rounds": 3,
    "privacy.unit": "client",
    "privacy.epsilon": 1.0,
    "privacy.delta": 1e-3,
    "privacy.clip": 0.02,
    "evaluation.every": 3,
}
DISCRETE, DESCENT = private_sums.discrete_gaussian, local_round.descent


def ran(recipe, changes, folder, seed=0):
    execute(load(recipe, {**changes, "seed": seed}), folder / f"seed-{seed}")
    return FinishedRun(RunFolder.open(folder / f"seed-{seed}"))


def noise_times(factor):
    def drawn(variance, count, secret):
        return DISCRETE(variance * Fraction(factor) ** 2, count, secret) if factor else np.zeros(count, np.int64)

    return drawn


def loose(privacy):
    return replace(privacy, clip=1000 * privacy.clip)


def unclipped(plan, flat, data):
    """A client that shortens nothing, or nearly so; its noise stays that of the claim."""
    return DESCENT(replace(plan, privacy=loose(plan.privacy)), flat, data)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    return ran("graft_node_private", NODES, tmp_path_factory.mktemp("nodes"))


@pytest.fixture(scope="module")
def as_it_is(nodes):
    return canaries(nodes, 600)


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    return ran("graft_node_private", CLIENTS, tmp_path_factory.mktemp("clients"))


# --- mutants ----------------------------------------------------------------------------------------------------------


def test_as_it_is_the_claim_was_within_reach_and_stands(as_it_is):
    assert (as_it_is["canaries"], as_it_is["read"], as_it_is["claim"]) == (576, "5 sums of gradients", 4.0)
    assert 0.6 < as_it_is["auc"] < 0.8
    assert as_it_is["epsilon"] < 1.6 < as_it_is["claim"] < as_it_is["most"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_as_it_is_no_seed_refutes_the_claim(seed, tmp_path):
    found = canaries(ran("graft_node_private", {**NODES, "privacy.epsilon": 1.0}, tmp_path, seed), 600)
    assert found["epsilon"] < found["claim"] <= 1.0
    assert found["auc"] < 0.65


def test_noise_that_is_off_refutes_the_claim(nodes, as_it_is, monkeypatch):
    monkeypatch.setattr(private_sums, "discrete_gaussian", noise_times(0))
    found = canaries(nodes, 600)
    assert found["auc"] > 0.999
    assert found["epsilon"] > found["claim"]
    assert found["epsilon"] == pytest.approx(as_it_is["most"], abs=0.4)


def test_half_the_noise_tells_clearly_more(nodes, as_it_is, monkeypatch):
    monkeypatch.setattr(private_sums, "discrete_gaussian", noise_times(0.5))
    found = canaries(nodes, 600)
    assert found["auc"] > as_it_is["auc"] + 0.05
    assert found["epsilon"] > as_it_is["epsilon"] + 0.3


def test_a_tenth_of_the_noise_refutes_the_claim(nodes, monkeypatch):
    monkeypatch.setattr(private_sums, "discrete_gaussian", noise_times(0.1))
    found = canaries(nodes, 600)
    assert found["epsilon"] > found["claim"]


def test_clients_that_do_not_clip_refute_the_claim(nodes, monkeypatch):
    """The attacker believes nobody: it tries both explanations."""
    monkeypatch.setattr(local_round, "descent", unclipped)
    found = canaries(nodes, 600)
    assert found["epsilon"] > found["claim"]


def test_masked_sums_tell_the_same(nodes, as_it_is, tmp_path):
    masked = ran("graft_node_private", {**NODES, "secure_sum.name": "secagg"}, tmp_path)
    assert canaries(masked, 600) == as_it_is
