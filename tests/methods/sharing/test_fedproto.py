"""FedProto: Eq. (6) by hand, and that clients' prototypes come together."""

import numpy as np
import pytest

from fedgraft.contracts import Update
from fedgraft.contracts.facts import TaskFacts
from fedgraft.methods.sharing.fedproto import FedProto
from helpers.toy_runs import run, same
from laws.parted import parted


def update(client, prototypes, counts):
    arrays = {"prototypes": np.array(prototypes, np.float32), "prototypes_count": np.array(counts, np.int32)}
    return Update(client, 0.5, arrays)


def test_the_server_averages_by_examples_over_those_that_have_the_class():
    method = FedProto().fitted(TaskFacts(hidden_width=2, common_classes=3))
    state = method.init({}, clients=2)
    assert method.model(state)["prototypes_count"].tolist() == [0, 0, 0]
    sent = [update(0, [[1, 0], [4, 4], [0, 0]], [1, 2, 0]), update(1, [[5, 4], [0, 0], [0, 0]], [3, 0, 0])]
    state = method.merge(state, sent)
    assert state["prototypes"].tolist() == [[4, 3], [4, 4], [0, 0]]
    assert state["counts"].tolist() == [4, 2, 0]


def test_a_class_that_nobody_told_of_keeps_its_prototype():
    method = FedProto().fitted(TaskFacts(hidden_width=1, common_classes=2))
    state = method.merge(method.init({}, clients=2), [update(0, [[1], [2]], [1, 1])])
    state = method.merge(state, [update(1, [[7], [0]], [2, 0])])
    assert (state["prototypes"].tolist(), state["counts"].tolist()) == ([[7], [2]], [2, 1])


def test_without_a_weight_every_client_trains_alone():
    ours = run(parted(sharing={"name": "fedproto", "weight": 0.0}, rounds=3))[0]
    alone = run(parted(sharing={"name": "local"}, rounds=3))[0]
    assert [point["validation"] for point in ours.curve] == pytest.approx([p["validation"] for p in alone.curve])
    pulled = run(parted(sharing={"name": "fedproto", "weight": 5.0}, rounds=3))[0]
    assert not same(ours.sharing, pulled.sharing)
