"""FGSSL: both terms by hand, which views are looked at, and FedAvg without them."""

import math

import numpy as np
import pytest
import torch

from fedgraft.contracts import Augmentation, Observations, Structure
from fedgraft.errors import InputError
from fedgraft.methods.sharing.fgssl import FGSSL, contrast, divergence, shares
from helpers.toy_runs import run, same
from laws.parted import parted

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
"""Node 0 - node 1 - node 2: senders and receivers."""


def softmax(*numbers):
    return np.exp(numbers) / np.exp(numbers).sum()


def test_the_contrast_by_hand():
    hidden, anchors = torch.tensor([[2.0, 0], [0, 1]]), torch.tensor([[1.0, 0], [0, 3]])
    same_class = torch.tensor([[True, False], [False, True]])
    one = -math.log(softmax(1 / 0.5, 0)[0])  # cosines 1 and 0, at a temperature of 0.5
    assert float(contrast(hidden, anchors, same_class, tau=0.5)) == pytest.approx(one)
    everybody = torch.ones(2, 2, dtype=torch.bool)
    both = -(math.log(softmax(2, 0)[0]) + math.log(softmax(2, 0)[1])) / 2
    assert float(contrast(hidden, anchors, everybody, tau=0.5)) == pytest.approx(both)


def test_shares_are_a_softmax_over_neighbours():
    hidden = torch.tensor([[1.0, 0], [1, 0], [0, 2]])
    expected = softmax(1 / 0.5, 0)  # node 1 is like node 0 and not like node 2
    found = shares(hidden, PATH, omega=0.5).exp().tolist()
    assert found == pytest.approx([expected[0], 1, 1, expected[1]])


def test_shares_are_finite_at_low_temperatures():
    assert torch.isfinite(shares(torch.tensor([[1.0, 0], [1, 0], [-1, 0]]), PATH, omega=1e-3)).all()


def test_the_distillation_by_hand():
    here, there = torch.tensor([[1.0, 0], [1, 0], [0, 2]]), torch.tensor([[0.0, 1], [1, 0], [3, 0]])
    known = shares(there, PATH, omega=0.5)
    p, q = softmax(0, 2), softmax(2, 0)
    assert float(divergence(known, here, PATH, omega=0.5)) == pytest.approx(float((p * np.log(p / q)).sum()) / 3)
    assert float(divergence(known, there, PATH, omega=0.5)) == pytest.approx(0, abs=1e-6)


def test_nodes_without_neighbours_add_nothing():
    nobody = torch.zeros(2, 0, dtype=torch.int64)
    hidden = torch.ones(3, 2)
    assert float(divergence(shares(hidden, nobody, 0.5), hidden, nobody, 0.5)) == 0


class Looking:
    """A trainer of three nodes, of which the first two are its examples: it records the views, and a step's penalty."""

    def __init__(self):
        self.views, self.penalties = [], []

    def load(self, arrays):
        self.hidden = np.array([[1, 0], [0, 1], [1, 1]], np.float32)

    def observe(self):
        none = np.zeros(2, np.float32)
        return Observations(none, none[:, None], self.hidden[:2], none > 0, none, np.array([0, 1]))

    def structure(self, left_out):
        self.views.append(left_out)
        return Structure(self.hidden, np.array([0, 1]), PATH.numpy())

    def run(self, structure_penalty=None):
        if structure_penalty is not None:
            self.views.append(structure_penalty.left_out)
            self.penalties.append(float(structure_penalty.term(torch.from_numpy(self.hidden))))

    def difference(self, start):
        return {}


def test_a_round_of_a_client():
    trainer = Looking()
    FGSSL(semantic=2.0, structural=1.0, tau=0.5, omega=0.5).local_update(trainer, {}, None)
    assert trainer.views == [Augmentation(0.3, 0.3), Augmentation(0.8, 0.5)], "the received model's has lost less"
    assert trainer.penalties == [pytest.approx(2 * -math.log(softmax(2, 0)[0]))], "the same states have no divergence"


def test_without_weights_it_is_federated_averaging():
    mine = run(parted(sharing={"name": "fgssl", "semantic": 0.0, "structural": 0.0}, rounds=3))[0]
    plain = run(parted(sharing={"name": "fedavg"}, rounds=3))[0]
    assert same(mine.sharing, plain.sharing)


@pytest.mark.parametrize("term", ["semantic", "structural"])
def test_both_terms_matter(term):
    nothing = {"name": "fgssl", "semantic": 0.0, "structural": 0.0}
    mine, plain = (run(parted(sharing={**nothing, term: by}, rounds=3))[0].sharing for by in (1.0, 0.0))
    assert not same(mine, plain)


def test_impossible_options_are_refused():
    for option in ("semantic", "structural"):
        with pytest.raises(InputError, match=rf"FGSSL\.{option} must be >= 0; got -1"):
            FGSSL(**{option: -1})
    for option in ("tau", "omega"):
        with pytest.raises(InputError, match=rf"FGSSL\.{option} must be > 0; got 0"):
            FGSSL(**{option: 0})
    for option in ("edges", "features"):
        with pytest.raises(InputError, match=rf"FGSSL\.{option} must be in \[0, 1\); got 1"):
            FGSSL(**{option: 1})
