"""Prototypes: Eq. (3)-(5) by hand, what is sent, and that the penalty pulls."""

import numpy as np
import pytest

from fedgraft.contracts import Update
from fedgraft.contracts.facts import TaskFacts
from fedgraft.errors import InputError
from fedgraft.methods.sharing.prototypes import NOBODY, Prototypes, nearest, prototype
from helpers.toy_runs import run
from laws.parted import parted

MODEL = {"w": np.zeros(2, np.float32)}


def update(client, own, weight=1.0):
    return Update(client, weight, {"w": np.ones(2, np.float32), "prototype": np.array(own, np.float32)})


def test_a_prototype_is_the_mean_of_hidden_states():
    assert prototype(np.array([[1, 2], [3, 6]], np.float32)).tolist() == [2, 4]
    assert prototype(np.zeros((0, 2), np.float32)).tolist() == [0, 0]


def test_the_nearest_is_equation_5():
    others = np.array([[0, 9], [5, 5], [4, 3]], np.float32)
    assert nearest(others, np.array([4, 4], np.float32)).tolist() == [4, 3]


def test_the_server_sends_the_last_prototype_of_each_client():
    method = Prototypes(most=4).fitted(TaskFacts(hidden_width=2, common_classes=3))
    state = method.init(MODEL, clients=3)
    assert set(method.model(state)["prototypes_of"].tolist()) == {NOBODY}
    state = method.merge(state, [update(2, [1, 1], 0.5), update(0, [2, 2], 0.5)])
    state = method.merge(state, [update(2, [3, 3])])
    sent = method.model(state)
    assert sent["prototypes_of"].tolist() == [0, 2, NOBODY, NOBODY]
    assert sent["prototypes"][:2].tolist() == [[2, 2], [3, 3]]
    assert sent["w"].tolist() == [2, 2]


def test_of_more_clients_those_heard_of_last_are_sent():
    method = Prototypes(most=2).fitted(TaskFacts(hidden_width=2, common_classes=3))
    state = method.init(MODEL, clients=5)
    for client in (4, 1, 3, 1):
        state = method.merge(state, [update(client, [client, 0])])
    assert method.model(state)["prototypes_of"].tolist() == [1, 3]


def test_the_penalty_fades_from_merge_to_merge():
    method = Prototypes(fade=0.5).fitted(TaskFacts(hidden_width=2, common_classes=3))
    state = method.init(MODEL, clients=2)
    shares = []
    for _ in range(3):
        shares.append(method.model(state)["prototypes_share"].tolist())
        state = method.merge(state, [update(0, [1, 1])])
    assert shares == [[1.0], [0.5], [0.25]]


def hidden_spread(weight):
    """How far clients' prototypes lie apart after some rounds."""
    state = run(parted(sharing={"name": "prototypes", "weight": weight}, rounds=6))[0].sharing
    return float(np.square(state["prototypes"] - state["prototypes"].mean(0)).sum())


def test_the_penalty_pulls_clients_together():
    assert hidden_spread(1.0) < hidden_spread(0.0)


def test_without_a_weight_it_is_federated_averaging():
    ours = run(parted(sharing={"name": "prototypes", "weight": 0.0}, rounds=3))[0]
    plain = run(parted(sharing={"name": "fedavg"}, rounds=3))[0]
    assert [point["validation"] for point in ours.curve] == [point["validation"] for point in plain.curve]


def test_impossible_options_are_refused():
    with pytest.raises(InputError, match=r"Prototypes\.weight must be >= 0; got -1"):
        Prototypes(weight=-1)
    with pytest.raises(InputError, match=r"Prototypes\.fade must be in \(0, 1\]; got 0"):
        Prototypes(fade=0)
    with pytest.raises(InputError, match=r"Prototypes\.width must be 8 as the model has, or 0; got 4"):
        Prototypes(width=4).fitted(TaskFacts(hidden_width=8, common_classes=3))
