"""Fed-PUB: similarities and means by hand, steps of weights and masks by hand, and what stays at a client."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.contracts import Update
from fedgraft.contracts.facts import TaskFacts
from fedgraft.errors import InputError
from fedgraft.experiment.recipes.suiting import fitted_to
from fedgraft.methods.sharing.fedpub import FedPUB, cosines, softmax
from fedgraft.testing.toy import Line
from helpers.sharing_clients import Quadratic
from helpers.toy_runs import remembered, run, same, scripted
from laws.parted import parted


def one(*values):
    return {"w": np.array(values, np.float32)}


def sent(client, update, response, weight=0.5):
    return Update(client, weight, {"w": np.array(update, np.float32), "response": np.array(response, np.float32)})


def test_a_worked_example_at_the_server():
    # cos(h_0, h_2) = 0.6. With tau = 2 client 0 takes 1 / (1 + exp(2 (0.6 - 1))) of its own model.
    method = FedPUB(tau=2.0, width=2)
    state = method.init(one(1, 1), 3)
    assert [method.group(state, client) for client in range(3)] == [0, 0, 0]
    state = method.merge(state, [sent(0, [1, 0], [1, 0], 0.75), sent(2, [0, 3], [3, 4], 0.25)])
    assert [method.group(state, client) for client in range(3)] == [1, 0, 3]
    own = 1 / (1 + math.exp(2 * (0.6 - 1)))
    assert method.model(state, 1)["w"] == pytest.approx([1 + own, 1 + 3 * (1 - own)])
    assert method.model(state, 3)["w"] == pytest.approx([2 - own, 1 + 3 * own])
    assert method.model(state, 0)["w"] == pytest.approx([1.75, 1.75]), "who was in no cohort: the mean by examples"
    # The next round has client 2 alone: its model is what it was sent and the update; client 0 keeps its own.
    after = method.merge(state, [sent(2, [1, 1], [1, 0], 1.0)])
    assert after["personal"][2]["w"] == pytest.approx([3 - own, 2 + 3 * own])
    assert same(after["personal"][0], state["personal"][0])


@given(st.lists(st.lists(st.floats(-9, 9, width=32), min_size=3, max_size=3), min_size=1, max_size=5))
def test_shares_are_those_of_a_softmax_of_cosines(rows):
    angles = cosines(np.array(rows, np.float32))
    assert (np.abs(angles) <= 1 + 1e-9).all()
    shares = softmax(10 * angles)
    assert np.allclose(shares.sum(1), 1)
    lengths = np.linalg.norm(np.array(rows, np.float32), axis=1)
    likest = [shares[k, k] >= shares[k].max() - 1e-6 for k in range(len(rows)) if lengths[k] > 1e-6]
    assert all(likest), "nobody is nearer to a client than it is itself"


def test_a_response_of_zeros_is_like_nobody():
    assert cosines(np.array([[0, 0], [1, 0]], np.float32)).tolist() == [[0, 0], [0, 1]]


def test_without_tau_everybody_gets_the_plain_mean_and_with_a_large_one_itself():
    updates = [sent(0, [1, 0], [1, 0]), sent(1, [0, 1], [0, 1])]
    for tau, expected in ((0.0, [0.5, 0.5]), (1e6, [1, 0])):
        method = FedPUB(tau=tau, width=2)
        state = method.merge(method.init(one(0, 0), 2), updates)
        assert method.model(state, 1)["w"] == pytest.approx(expected)


def trained(method, received, mask):
    """The upload, memory and mask after one step of rate 1/2 towards w = 3 and a mask of 0, which is kept less 1."""
    targets = {"a.weight": np.array([3, 3], np.float32), "a.mask": np.array([-1, -1], np.float32)}
    trainer = Quadratic(targets, rate=0.5, start={"a.mask": np.array(mask, np.float32) - 1})
    update, memory = method.local_update(trainer, {"a.weight": np.array(received, np.float32)}, None)
    return update, memory, 1 + trainer.read(["a.mask"])["a.mask"]


def test_a_worked_example_at_a_client():
    # Weights: gradients (-2, -1), no pull at the start: (1, 2) -> (2, 2.5). Mask: gradients (1, -0.5) and the sign
    # times l1 = 0.2: (1.2, -0.7); so (1, -0.5) -> (0.4, -0.15), of which 0.2 is the threshold.
    method = FedPUB(sparsity=0.2, pull=0.5, threshold=0.2, width=2)
    update, memory, mask = trained(method, [1, 2], [1, -0.5])
    assert update["a.weight"].tolist() == [1, 0.5]
    assert memory["model"]["a.weight"].tolist() == [2, 2.5]
    assert mask == pytest.approx([0.4, 0])
    assert update["response"] == pytest.approx([2.25, -0.8]), "of the model as it answers: with the mask as it was cut"


def test_the_pull_is_the_gradient_of_the_squared_distance():
    trainer = Quadratic(one(3), steps=2, rate=0.5)
    update, _ = FedPUB(pull=0.25, width=1).local_update(trainer, one(1), None)
    assert update["w"].tolist() == [1.25], "(2 - 3) + 2 * 0.25 * (2 - 1) = -0.5 at the second step"


def test_a_client_answers_with_what_it_trained_last():
    method, memory = FedPUB(), {"model": one(4)}
    assert method.personalise(one(9), memory)["w"].tolist() == [4]
    assert method.personalise(one(9), None)["w"].tolist() == [9]


def test_masks_stay_at_their_clients_and_differ():
    state, _, runtime = run(parted(sharing={"name": "fedpub"}, selector=scripted([0, 1, 3]), rounds=1))
    memories = {client: wire.unpack(memory) for client, memory in remembered(runtime).items()}
    masks = {client: each["private"]["base.mask"] for client, each in memories.items() if "private" in each}
    assert sorted(masks) == [0, 1, 3]
    assert not any((mask == 0).all() for mask in masks.values())
    messages = [message for *_, message in [*runtime.sent, *runtime.received]]
    assert not any(mask.tobytes() in message for mask in masks.values() for message in messages)
    assert [each is None for each in state.sharing["personal"]] == [False, False, True, False, True]


def test_impossible_options_and_tasks_are_refused():
    for name in ("tau", "sparsity", "pull", "threshold", "width"):
        with pytest.raises(InputError, match=rf"^FedPUB\.{name} must be >= 0; got -1"):
            FedPUB(**{name: -1})
    with pytest.raises(InputError, match=r"^FedPUB\.width must be 3 as the model has, or 0; got 2"):
        FedPUB(width=2).fitted(TaskFacts(response_width=3))
    with pytest.raises(InputError, match=r"data that are nobody's, which task Line does not draw; node does\."):
        fitted_to(FedPUB(), "sharing", Line())
