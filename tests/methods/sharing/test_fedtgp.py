"""FedTGP: margin and loss by hand, and that the server's prototypes come near to clients' and apart from each other."""

import math

import numpy as np
import pytest
import torch

from fedgraft.contracts import Update
from fedgraft.contracts.facts import TaskFacts
from fedgraft.errors import InputError
from fedgraft.methods.sharing.fedtgp import FedTGP, contrast, drawn, margin, prototypes

CLIENTS = (
    ([[0, 3], [3, 0], [0, 0]], [4, 2, 0]),
    ([[1, 3], [3, 1], [0, 0]], [4, 2, 0]),
)
"""Prototypes and counts of two clients, of two of three classes."""


def updates():
    return [
        Update(k, 0.5, {"prototypes": np.array(p, np.float32), "prototypes_count": np.array(n, np.int32)})
        for k, (p, n) in enumerate(CLIENTS)
    ]


def test_the_margin_is_the_largest_distance_between_classes_and_not_above_most():
    average = np.array([[0.0, 0], [3, 4], [1, 0]])
    assert margin(average, most=100) == 5
    assert margin(average, most=2) == 2
    assert margin(average[:1], most=100) == margin(average[:0], most=100) == 0


def test_the_loss_by_hand():
    # p = (0, 0) of class 0; P_0 = (1, 0) and P_1 = (0, 2), so distances are 1 and 2; the margin is 3.
    found = contrast(torch.zeros(1, 2), torch.tensor([0]), torch.tensor([[1.0, 0.0], [0.0, 2.0]]), reach=3.0)
    assert float(found) == pytest.approx(-math.log(math.exp(-1 - 3) / (math.exp(-1 - 3) + math.exp(-2))))


def test_where_prototypes_meet_there_is_a_gradient():
    made = torch.tensor([[1.0, 0.0], [0.0, 2.0]], requires_grad=True)
    contrast(made.detach()[:1].clone(), torch.tensor([0]), made, reach=1.0).backward()
    assert torch.isfinite(made.grad).all()


def test_the_server_learns_to_tell_classes_apart():
    method = FedTGP(rate=0.05).fitted(TaskFacts(hidden_width=2, common_classes=3))
    state = method.init({}, clients=2)
    assert not method.model(state)["prototypes"].any()
    for _ in range(10):
        state = method.merge(state, updates())
    sent = method.model(state)
    assert sent["prototypes_count"].tolist() == [8, 4, 0]
    assert sent["prototypes"][2].tolist() == [0, 0], "nobody told of class 2"
    near = np.linalg.norm(sent["prototypes"][:2, None] - np.array([[0.5, 3], [3, 0.5]]), axis=2)
    assert near[0, 0] < near[0, 1]
    assert near[1, 1] < near[1, 0]


def test_without_passes_prototypes_are_as_drawn_and_the_same_in_every_run():
    method = FedTGP(passes=0).fitted(TaskFacts(hidden_width=2, common_classes=3))
    state = method.merge(method.init({}, clients=2), updates())
    made = prototypes({name: torch.from_numpy(array) for name, array in drawn(3, 2).items()})
    assert method.model(state)["prototypes"][:2].tolist() == made[:2].tolist()


def test_the_server_draws_nothing_from_the_runs_generators():
    before = torch.get_rng_state()
    method = FedTGP(passes=2).fitted(TaskFacts(hidden_width=2, common_classes=3))
    one, two = (method.merge(method.init({}, clients=2), updates()) for _ in range(2))
    assert all(np.array_equal(one["network"][name], two["network"][name]) for name in one["network"])
    assert torch.equal(before, torch.get_rng_state())


def test_impossible_options_are_refused():
    with pytest.raises(InputError, match=r"FedTGP\.most must be >= 0; got -1"):
        FedTGP(most=-1)
    with pytest.raises(InputError, match=r"FedTGP\.rate must be > 0; got 0"):
        FedTGP(rate=0)
    with pytest.raises(InputError, match=r"FedTGP\.batch must be >= 1; got 0"):
        FedTGP(batch=0)
    with pytest.raises(InputError, match=r"FedTGP\.weight must be >= 0; got -1"):
        FedTGP(weight=-1)
