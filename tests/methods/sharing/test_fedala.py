import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.errors import InputError
from fedgraft.methods.sharing.fedala import FedALA
from helpers.local_trainers import trainer
from helpers.sharing_clients import Quadratic
from helpers.toy_runs import remembered, run, same, toy

EVERY = ("",)


def one(*values):
    return {"w": np.array(values, np.float32)}


def memories(runtime):
    return {client: wire.unpack(memory)["sharing"] for client, memory in remembered(runtime).items()}


def test_a_worked_example():
    # Goal (3, 0), own (2, 2), received (4, 1), eta 1/4, W = 1 at first. Epoch 1: from (4, 1) the gradient of the model
    # is (1, 1), that of W is (2, -1) times it: W = (1 - 0.5, 1 + 0.25 -> 1), so (3, 1). Epoch 2: gradient (0, 1):
    # W stays. Then a training step of rate 1/2 from (3, 1): (3, 0.5).
    method, client = FedALA(adaptive=EVERY, rate=0.25, first_epochs=2), Quadratic(one(3, 0), rate=0.5)
    memory = {"own": one(2, 2), "weights": {}}
    assert method.personalise(one(4, 1), memory)["w"].tolist() == [4, 1]
    update, memory = method.local_update(client, one(4, 1), memory)
    assert memory["weights"]["w"].tolist() == [0.5, 1]
    assert update["w"].tolist() == [-1, -0.5]
    assert memory["own"]["w"].tolist() == [3, 0.5]
    assert client.steps == 3
    # Another received model, (5, 0.5): W goes on from (0.5, 1), for one epoch. From (4, 0.5) the gradient is (1, 0.5),
    # that of W (2, 0) times it: W = (0, 1). So (3, 0.5); a step leads to (3, 0.25).
    assert method.personalise(one(5, 0.5), memory)["w"].tolist() == [4, 0.5]
    update, memory = method.local_update(client, one(5, 0.5), memory)
    assert memory["weights"]["w"].tolist() == [0, 1]
    assert memory["own"]["w"].tolist() == [3, 0.25]
    assert update["w"].tolist() == [-2, -0.25]
    assert client.steps == 5
    assert same(method.inherited(memory), memory)


def test_the_first_round_is_that_of_fedavg():
    client = Quadratic(one(3, 0), rate=0.5)
    update, memory = FedALA(adaptive=EVERY).local_update(client, one(1, 2), None)
    assert update["w"].tolist() == [1, -1]
    assert memory["own"]["w"].tolist() == [2, 1]
    assert memory["weights"] == {}
    assert FedALA().personalise(one(9, 9), None)["w"].tolist() == [9, 9]


@settings(max_examples=40)
@given(*[st.floats(-3, 3, width=32)] * 3)
def test_it_starts_from_the_best_between_both(own, received, goal):
    # The argument of the paper: of all mixtures with W in [0, 1] the one with the least loss; the goal itself if it
    # lies between both, else the nearer.
    method = FedALA(adaptive=EVERY, rate=0.05, first_epochs=600)
    client = Quadratic(one(goal), steps=0)
    memory = {"own": one(own), "weights": {}}
    update, memory = method.local_update(client, one(received), memory)
    best = np.clip(goal, min(own, received), max(own, received))
    if abs(own - received) > 0.5:
        assert received + update["w"][0] == pytest.approx(best, abs=0.01)
    assert min(own, received) - 1e-6 <= received + update["w"][0] <= max(own, received) + 1e-6
    assert 0 <= memory["weights"]["w"][0] <= 1


def test_equal_numbers_keep_their_weight():
    memory = {"own": one(2, 1e6), "weights": one(0.25, 0.75)}
    client = Quadratic(one(3, 3))
    _, memory = FedALA(adaptive=EVERY, rate=1e-9).local_update(client, one(2, 1e6), memory)
    assert memory["weights"]["w"].tolist() == [0.25, 0.75]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_weights_move_by_their_own_rate_whatever_the_optimiser(optimizer):
    # y = 2 x at x = 1, 2; received w = b = 0, own bias 2: the gradient of the bias is -6, that of its W (0 - 2) times
    # it, 12: W = 1 - 0.05 * 12 = 0.4, so the bias is 2 - 2 * 0.4 = 1.2. The weight is not adaptive: it is as received.
    client = trainer(optimizer=optimizer, weight_decay=0.5)
    received = {"weight": np.zeros(1, np.float32), "bias": np.zeros(1, np.float32)}
    memory = {"own": {"bias": np.array([2], np.float32)}, "weights": {}}
    method = FedALA(adaptive=("bias",), rate=0.05, first_epochs=1)
    _, memory = method.local_update(client, received, memory)
    assert memory["weights"].keys() == memory["own"].keys() == {"bias"}
    assert memory["weights"]["bias"].tolist() == pytest.approx([0.4])
    used = method.personalise({"weight": np.ones(1, np.float32), "bias": np.zeros(1, np.float32)}, memory)
    assert used["weight"].tolist() == [1]
    assert used["bias"].tolist() == pytest.approx([0.6 * memory["own"]["bias"][0]])


def test_private_parameters_are_frozen_while_weights_are_learnt():
    targets = {**one(3), "head": np.array([8], np.float32)}
    client = Quadratic(targets, rate=0.5)
    method = FedALA(adaptive=EVERY, rate=0.1, first_epochs=7)
    update, memory = method.local_update(client, one(1), {"own": one(2), "weights": {}})
    assert update.keys() == memory["own"].keys() == {"w"}
    assert client.read(["head"])["head"].tolist() == [4], "one step, that of training"


def test_with_nothing_to_merge_it_is_fedavg():
    plain, rows, _ = run(toy(sharing={"name": "fedala"}))  # a toy model has a weight and a bias
    average, others, _ = run(toy(sharing={"name": "fedavg"}))
    assert same(plain.sharing["model"], average.sharing["model"])
    assert [row.bytes for row in rows] == [row.bytes for row in others]


def test_clients_differ_in_what_they_take_over_and_no_byte_tells_it():
    changes = {"sampler": {"name": "all", "batch_size": 4}, "rounds": 4}
    _, rows, runtime = run(toy(sharing={"name": "fedala", "adaptive": list(EVERY)}, **changes))
    _, others, _ = run(toy(sharing={"name": "fedavg"}, **changes))
    assert [row.bytes for row in rows] == [row.bytes for row in others]
    weights = [memory["weights"]["weight"] for memory in memories(runtime).values()]
    assert len({array.tobytes() for array in weights}) > 1
    assert all(((array >= 0) & (array <= 1)).all() for array in weights)
    messages = [message for *_, message in [*runtime.sent, *runtime.received]]
    assert not any(
        memory["own"]["weight"].tobytes() in message for memory in memories(runtime).values() for message in messages
    )


def test_epochs_of_weights_and_layers():
    assert FedALA(first_epochs=4).runs(3) == (4, 3)


@pytest.mark.parametrize(("options", "allowed"), [({"rate": 0}, "> 0"), ({"first_epochs": 0}, ">= 1")])
def test_impossible_options_are_refused(options, allowed):
    with pytest.raises(InputError, match=rf"^FedALA\.{next(iter(options))} must be {allowed}; got 0"):
        FedALA(**options)
