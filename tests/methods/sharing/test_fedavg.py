import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.contracts import Update
from fedgraft.errors import InputError
from fedgraft.methods.sharing.fedavg import FedAvg


def one(*values):
    return {"w": np.array(values, np.float32)}


def merged(state, *weighted, **options):
    updates = [Update(client, weight, arrays) for client, (weight, arrays) in enumerate(weighted)]
    return FedAvg(**options).merge(state, updates)


def test_a_worked_example():
    state = FedAvg().init(one(1, 2), clients=3)
    state = merged(state, (0.25, one(4, 0)), (0.75, one(0, 8)))
    assert FedAvg().model(state)["w"].tolist() == [2, 8]
    assert FedAvg().model(state)["w"].dtype == np.float32


def test_weights_of_examples_give_the_mean_of_the_models():
    # McMahan et al., Alg. 1: w = sum of n_k / n w_k; here n = (10, 30), w_k = w + update.
    state = FedAvg().init(one(1), clients=2)
    state = merged(state, (10 / 40, one(3 - 1)), (30 / 40, one(7 - 1)))
    assert FedAvg().model(state)["w"][0] == (10 * 3 + 30 * 7) / 40


def test_the_sum_is_taken_in_double_precision():
    state = FedAvg().init(one(0), clients=3)
    state = merged(state, (1 / 3, one(1e8)), (1 / 3, one(3)), (1 / 3, one(-1e8)))
    assert FedAvg().model(state)["w"][0] == 1


@given(st.lists(st.tuples(st.floats(0.1, 9), st.floats(-100, 100, width=32)), min_size=1, max_size=6))
def test_the_new_model_lies_between_the_clients(clients):
    total = sum(weight for weight, _ in clients)
    state = merged(FedAvg().init(one(0), 1), *((weight / total, one(value)) for weight, value in clients))
    values = [value for _, value in clients]
    assert min(values) - 1e-4 <= float(state["model"]["w"][0]) <= max(values) + 1e-4


def test_the_plain_mean_of_those_that_answered():
    # Li et al., "FedAIS", Algorithm 1, line 7: 1 / m each, whatever their numbers of examples.
    state = merged(FedAvg().init(one(1), 3), (0.1, one(3)), (0.8, one(6)), (0.1, one(0)), weights="equal")
    assert FedAvg().model(state)["w"][0] == pytest.approx(1 + (3 + 6 + 0) / 3)
    assert merged(state, weights="equal")["model"]["w"] == state["model"]["w"]
    with pytest.raises(InputError, match=r"FedAvg\.weights must be one of 'examples', 'equal'; got 'even'"):
        FedAvg(weights="even")
