import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import InputError
from fedgraft.methods.sharing.fedprox import FedProx
from helpers.sharing_clients import Quadratic
from helpers.toy_runs import run, same, toy


def one(*values):
    return {"w": np.array(values, np.float32)}


def test_a_worked_example():
    # From (1, 2) to (3, 0) at rate 1/2. First step: gradient (-2, 2), no pull yet, so (2, 1). Second step: gradient
    # (-1, 1), pull (1, -1): they cancel.
    trainer = Quadratic(one(3, 0), steps=2, rate=0.5)
    update, memory = FedProx(mu=1.0).local_update(trainer, one(1, 2), None)
    assert update["w"].tolist() == [1, -1]
    assert memory is None


def test_equation_2_of_the_paper():
    # argmin 1/2 ||w - target||^2 + mu / 2 ||w - received||^2 = (target + mu received) / (1 + mu).
    trainer = Quadratic(one(3, -1), steps=200, rate=0.3)
    update, _ = FedProx(mu=0.5).local_update(trainer, one(1, 2), None)
    assert (1 + update["w"][0], 2 + update["w"][1]) == pytest.approx(((3 + 0.5) / 1.5, (-1 + 1) / 1.5))


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_stronger_the_nearer(mu, more):
    def distance(strength):
        update, _ = FedProx(mu=strength).local_update(Quadratic(one(3, 0), steps=5, rate=0.3), one(1, 2), None)
        return float(np.linalg.norm(update["w"]))

    assert distance(mu + more) <= distance(mu) + 1e-6


def test_parameters_that_are_not_shared_are_free():
    targets = {**one(3), "own": np.array([5], np.float32)}
    trainer = Quadratic(targets, steps=3, rate=1.0)
    update, _ = FedProx(mu=0.5).local_update(trainer, one(1), None)
    assert update.keys() == {"w"}
    assert trainer.read(["own"])["own"][0] == 5


def test_without_a_pull_it_is_fedavg():
    prox, _, _ = run(toy(sharing={"name": "fedprox", "mu": 0.0}))
    average, _, _ = run(toy(sharing={"name": "fedavg"}))
    assert same(prox.sharing["model"], average.sharing["model"])


@pytest.mark.parametrize("mu", [-0.1, float("nan")])
def test_impossible_strengths_are_refused(mu):
    with pytest.raises(InputError, match=r"^FedProx\.mu must be >= 0; got"):
        FedProx(mu=mu)
