"""Moon: Eq. (3) by hand, which examples are compared, and FedAvg where the term is nothing."""

import math

import numpy as np
import pytest
import torch

from fedgraft.contracts import Observations
from fedgraft.errors import InputError
from fedgraft.methods.sharing.moon import Moon, contrast
from helpers.toy_runs import run, same
from laws.parted import parted


def one(*values):
    return {"w": np.array(values, np.float32)}


class Embedding:
    """A trainer whose model turns example (1, i) into (w, i): it records the penalty of a step on example 1 alone."""

    def __init__(self):
        self.parameters, self.penalties = one(0), []

    def load(self, arrays):
        self.parameters = {name: array.copy() for name, array in arrays.items()}

    def read(self, names=None):
        return {name: array.copy() for name, array in self.parameters.items()}

    def difference(self, start):
        return {name: array - start[name] for name, array in self.parameters.items()}

    def hidden(self):
        return np.array([[self.parameters["w"][0], i] for i in (0, 1)], np.float32)

    def observe(self):
        none = np.zeros(2, np.float32)
        return Observations(none, none[:, None], self.hidden(), none > 0, none, none.astype(np.int64))

    def run(self, hidden_penalty=None):
        self.parameters["w"] += 1
        if hidden_penalty is not None:
            self.penalties.append(float(hidden_penalty(torch.from_numpy(self.hidden()[1:]), np.array([1]))))


def test_equation_3():
    z, towards, away = (
        torch.tensor([[1.0, 0], [3, 4]]),
        torch.tensor([[0.0, 2], [3, 4]]),
        torch.tensor([[5.0, 0], [4, 3]]),
    )
    explanation = []
    for near, far in ((0.0, 1.0), (1.0, 0.96)):  # cosines
        explanation.append(-math.log(math.exp(near / 0.5) / (math.exp(near / 0.5) + math.exp(far / 0.5))))
    assert float(contrast(z, towards, away, tau=0.5)) == pytest.approx(sum(explanation) / 2)


def test_a_worked_example():
    # Last model w = 0 makes (0, 1) of example 1; received is w = 1, which makes (1, 1); and after a step (2, 1).
    method, trainer = Moon(mu=2.0, tau=0.5), Embedding()
    upload, memory = method.local_update(trainer, one(-1), None)
    assert (trainer.penalties, upload["w"].tolist(), memory["model"]["w"].tolist()) == ([], [1], [0])
    upload, memory = method.local_update(trainer, one(1), memory)
    near, far = 3 / math.sqrt(10), 1 / math.sqrt(5)
    expected = -math.log(math.exp(near / 0.5) / (math.exp(near / 0.5) + math.exp(far / 0.5)))
    assert trainer.penalties == [pytest.approx(2 * expected)]
    assert (upload["w"].tolist(), memory["model"]["w"].tolist()) == ([1], [2])


def test_without_a_weight_and_in_the_first_round_it_is_federated_averaging():
    for options, rounds in (({"mu": 0.0}, 3), ({"mu": 5.0}, 1)):
        mine = run(parted(sharing={"name": "moon", **options}, rounds=rounds))[0]
        plain = run(parted(sharing={"name": "fedavg"}, rounds=rounds))[0]
        assert same(mine.sharing, plain.sharing)


def test_the_term_matters():
    mine, plain = (run(parted(sharing={"name": "moon", "mu": mu}, rounds=3))[0].sharing for mu in (5.0, 0.0))
    assert not same(mine, plain)


def test_impossible_options_are_refused():
    with pytest.raises(InputError, match=r"Moon\.mu must be >= 0; got -1"):
        Moon(mu=-1)
    with pytest.raises(InputError, match=r"Moon\.tau must be > 0; got 0"):
        Moon(tau=0)
