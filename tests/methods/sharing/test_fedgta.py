"""FedGTA: propagated labels, confidence and moments by hand, who is averaged with whom, and plain means."""

import math

import numpy as np
import pytest

from fedgraft.contracts import LocalGraph, Update
from fedgraft.contracts.facts import TaskFacts
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.methods.sharing.fedgta import FedGTA, confidence
from fedgraft.wire.layouts import Layout
from helpers.toy_runs import run, same
from laws.parted import parted

PAIR = LocalGraph(
    probabilities=np.array([[0.3, 0.7], [0.2, 0.8]], np.float32),
    features=np.eye(2, dtype=np.float32),
    edges=np.array([[0, 1], [1, 0]]),
    examples=np.array([0]),
    label=np.array([0]),
)
"""Two nodes that are joined; the first is labelled."""


class Step:
    """A trainer whose step adds 1, over two joined nodes."""

    def load(self, arrays):
        self.parameters = {name: array.copy() for name, array in arrays.items()}

    def run(self):
        self.parameters["w"] += 1

    def difference(self, start):
        return {name: array - start[name] for name, array in self.parameters.items()}

    def local_graph(self):
        return PAIR


def sent(**options):
    return (
        FedGTA(**options)
        .fitted(TaskFacts(node_classes=2))
        .local_update(Step(), {"w": np.zeros(1, np.float32)}, None)[0]
    )


def update(client, moments, sure=1.0, step=1.0):
    arrays = {"w": [step], "topology.confidence": [math.log1p(sure)], "topology.moments": moments}
    return Update(client, 1.0, {name: np.array(array, np.float32) for name, array in arrays.items()})


def test_a_worked_example():
    # Y0 = (1, 0), (0.2, 0.8); S is 1/2 everywhere; Y1 = (0.8, 0.2) + (1, 0) and (0.4, 0.6).
    upload = sent(hops=1, orders=2, temperature=2.0)
    one = 1 / (1 + math.exp(0.6 - 0.4))
    first, second = [(1 + one) / 2, (1 - one) / 2], [(1 + one**2) / 2, (1 - one) ** 2 / 2]
    spread = ((1 - one) / 2) ** 2
    assert upload["w"].tolist() == [1]
    assert upload["topology.moments"] == pytest.approx([*first, *second, spread, spread])
    flat = 1 / (1 + math.exp((0.6 - 0.4) / 2))
    entropy = -(flat * math.log(flat) + (1 - flat) * math.log(1 - flat))
    assert upload["topology.confidence"] == pytest.approx([math.log1p(4 / math.e - entropy)])


def test_without_hops_the_statistics_are_of_what_the_model_tells():
    one = 1 / (1 + math.exp(0.8 - 0.2))
    assert sent(hops=0, orders=1, moments="raw")["topology.moments"] == pytest.approx([(1 + one) / 2, (1 - one) / 2])


def test_labels_are_surest_and_a_share_of_1_over_e_is_least_sure():
    assert confidence(np.eye(2), np.array([3, 0])) == pytest.approx(6 / math.e)
    assert confidence(np.full((1, 2), 1 / math.e), np.array([5])) == pytest.approx(0)


def test_clients_are_averaged_with_those_like_them_by_their_confidence():
    # Cosines: 0.6 between the first two, 0.8 between the last two, 0 between the first and the last.
    method = FedGTA(threshold=0.7)
    state = method.init({"w": np.array([10], np.float32)}, clients=4)
    updates = [update(0, [1, 0], step=1.0), update(1, [3, 4], sure=3.0, step=2.0), update(3, [0, 1], step=6.0)]
    state = method.merge(state, updates)
    assert [float(model["w"][0]) for model in state["models"]] == pytest.approx([11, 13, 10, 13])
    state = method.merge(state, [update(0, [0, 0], sure=0.0)])  # one that is like nobody, and not sure at all
    assert [float(model["w"][0]) for model in state["models"]] == pytest.approx([12, 13, 10, 13])


@pytest.mark.parametrize("moments", ["raw", "central", "hybrid"])
def test_what_is_sent_is_what_was_announced(moments):
    method = FedGTA(moments=moments, orders=4).fitted(TaskFacts(node_classes=2))
    (spec,) = [spec for spec in method.uploads(Layout(())) if spec.name == "topology.moments"]
    upload = method.local_update(Step(), {"w": np.zeros(1, np.float32)}, None)[0]
    assert upload["topology.moments"].shape == spec.shape == ({"raw": 8, "central": 6, "hybrid": 14}[moments],)


def test_where_all_are_alike_all_have_one_model_and_where_none_are_each_is_alone():
    common = run(parted(sharing={"name": "fedgta", "threshold": -1.0}, rounds=3))[0].sharing["models"]
    assert all(same(model, common[0]) for model in common)
    alone = run(parted(sharing={"name": "fedgta", "threshold": 1.0}, rounds=3))[0].sharing["models"]
    assert not same(alone[0], alone[1])


def test_bad_options_and_tasks_without_a_graph_of_nodes_are_refused():
    with pytest.raises(InputError, match=r"FedGTA\.alpha must be in \[0, 1\]; got 2"):
        FedGTA(alpha=2)
    with pytest.raises(InputError, match=r"FedGTA\.moments must be one of 'raw', 'central', 'hybrid'; got 'odd'"):
        FedGTA(moments="odd")
    with pytest.raises(InputError, match=r"FedGTA\.orders must be >= 2 for central moments; got 1"):
        FedGTA(moments="central", orders=1)
    with pytest.raises(InputError, match=r"which task Graph does not show; node, typed_node do\."):
        load("cefgl", {"sharing.name": "fedgta"})
