"""The attack on runs with a trusted server: its noise keeps the claim, and without it the claim falls."""

from fractions import Fraction

import numpy as np
import pytest

from fedgraft.engine.server.sums import central_noise
from fedgraft.errors import InputError
from fedgraft.experiment.attacking.attacks import attacked, canaries
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.experiment.storage.run_folder import RunFolder

BLOCKS = {
    **{"data.name": "blocks", "data.nodes": 1600, "data.clients": 80, "data.features": 20, "runtime.workers": 0},
    **{"rounds": 5, "evaluation.every": 5, "baselines": [], "privacy.epsilon": 1.0, "privacy.delta": 1e-3},
    "training.epochs": 1,
}
EVERYBODY = {**BLOCKS, "selector.name": "all", "privacy.target_quantile": 0.0, "privacy.clip": 0.1}
DRAWN = {**BLOCKS, "selector.clients": 40, "privacy.epsilon": 2.0, "rounds": 12, "evaluation.every": 12}
DISCRETE = central_noise.discrete_gaussian


def ran(changes, folder):
    execute(load("graft_node_central", changes), folder / "run")
    return FinishedRun(RunFolder.open(folder / "run"))


def noise_times(factor):
    def drawn(variance, count, words):
        return DISCRETE(variance * Fraction(factor) ** 2, count, words) if factor else np.zeros(count, np.int64)

    return drawn


@pytest.fixture(scope="module")
def everybody(tmp_path_factory):
    return ran(EVERYBODY, tmp_path_factory.mktemp("everybody"))


def test_as_it_is_the_claim_was_within_reach_and_stands(everybody):
    found = canaries(everybody)
    assert (found["canaries"], found["read"]) == (80, "5 sums of updates")
    assert found["epsilon"] < found["claim"] <= 1.0 < found["most"]
    assert found["auc"] < 0.75


@pytest.mark.parametrize(("factor", "least"), [(0, 0.999), ("1/16", 0.9)])
def test_noise_that_is_off_or_hardly_there_refutes_the_claim(everybody, monkeypatch, factor, least):
    monkeypatch.setattr(central_noise, "discrete_gaussian", noise_times(factor))
    found = canaries(everybody)
    assert found["auc"] > least
    assert found["epsilon"] > found["claim"]


def test_a_server_that_does_not_clip_refutes_the_claim(everybody, monkeypatch):
    """Where the second thing that would stop it is broken, too: rounding until an update is short enough."""
    monkeypatch.setattr(central_noise, "shortened", lambda numbers: (numbers, True))
    monkeypatch.setattr(central_noise, "rounded", lambda numbers, clip, step, *_: np.rint(numbers / step).astype(int))
    found = canaries(everybody)
    assert found["epsilon"] > found["claim"]


@pytest.mark.slow
def test_who_was_drawn_is_not_told_to_who_guesses(tmp_path, monkeypatch):
    """So without noise coins hide something, and more is guessed than with it."""
    run = ran(DRAWN, tmp_path)
    found = canaries(run)
    assert found["epsilon"] < found["claim"] <= 2.0
    monkeypatch.setattr(central_noise, "discrete_gaussian", noise_times(0))
    off = canaries(run)
    assert found["auc"] + 0.1 < off["auc"] < 0.999


def test_what_a_trusted_server_could_learn_is_not_tried(everybody):
    with pytest.raises(InputError, match=r"trusted, and may see single updates: --kind must be membership or canaries"):
        attacked(everybody, ("labels",))
    assert attacked(everybody, ("labels", "inversion", "membership", "canaries")).keys() == {"membership", "canaries"}
