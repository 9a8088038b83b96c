"""FedTAD: reliability, pseudo-graphs and the diversity term by hand, who teaches what, and FedAvg without epochs."""

import math

import numpy as np
import pytest
import torch

from fedgraft.contracts import LocalGraph, Update
from fedgraft.contracts.facts import TaskFacts
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.methods.sharing.fedtad import FedTAD, alikeness, joined, reliability
from fedgraft.wire.layouts import Layout
from helpers.toy_runs import run, same
from laws.parted import parted

STAR = LocalGraph(
    probabilities=np.full((4, 3), 1 / 3, np.float32),
    features=np.array([[1, 0], [0, 1], [1, 0], [0, 0]], np.float32),
    edges=np.array([[1, 2, 0, 0], [0, 0, 1, 2]]),
    examples=np.array([0, 2, 3]),
    label=np.array([1, 1, 0]),
)
"""Node 0 is joined to 1 and 2, node 3 to nobody; 0 and 2 are of class 1, and 3 of class 0."""


class Told:
    """A network whose logits are a node's features times w."""

    width = 2
    learnt = frozenset({"w"})

    def logits(self, model, features, edges):
        return features * model["w"]


def test_reliability_is_how_alike_neighbours_are():
    # A walk of two steps is back at the middle for sure, at a leaf with probability 1/2; one of one step never is.
    (middle, leaf), alone = (1.0, 0.5), 1.0
    alike = (1 + middle * leaf) / math.sqrt((1 + middle**2) * (1 + leaf**2))
    unlike = middle * leaf / math.sqrt((1 + middle**2) * (1 + leaf**2))
    of_middle, of_leaf = (1 + alike + unlike) / 3, (1 + alike) / 2
    assert reliability(STAR, walk=2) == pytest.approx([alone, of_middle + of_leaf, 0])


def test_walks_of_any_length_are_those_of_the_matrix():
    g = np.random.default_rng(0)
    upper = np.triu(g.random((9, 9)) < 0.4, 1)
    adjacency = (upper | upper.T).astype(float)
    graph = LocalGraph(
        probabilities=np.full((9, 2), 0.5, np.float32),
        features=np.zeros((9, 1), np.float32),
        edges=np.stack(adjacency.nonzero()),
        examples=np.arange(9),
        label=np.arange(9) % 2,
    )
    step = adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1)
    returns = np.stack([np.diag(np.linalg.matrix_power(step, k)) for k in range(1, 6)], 1)
    norms = np.linalg.norm(returns, axis=1)
    cosines = returns @ returns.T / np.maximum(np.outer(norms, norms), 1e-30)
    trust = (1 + (adjacency * cosines).sum(1)) / (1 + adjacency.sum(1))
    assert reliability(graph, walk=5) == pytest.approx([trust[::2].sum(), trust[1::2].sum()])


def test_nodes_are_joined_to_those_most_alike_themselves_among_them():
    features = torch.tensor([[1.0, 0], [2, 0.1], [0, 1], [0.1, 3]])
    assert joined(features, 2).T.tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]
    assert joined(features, 1).shape == (2, 0)
    assert joined(features, 9).shape == (2, 12)


def test_the_diversity_term():
    # Noise a squared distance of 4 apart (a mean of 4 / 2), features 3 (3 / 2), in two of four pairs.
    noise, features = torch.tensor([[0.0, 0], [2, 0]]), torch.tensor([[1.0, 1], [1, 4]])
    assert float(alikeness(noise, features)) == pytest.approx(math.exp(-(2 * 1.5) / 2))
    assert float(alikeness(noise, features[:1].repeat(2, 1))) == 1


def taught(reliable, epochs=3, **options):
    """The global w after a merge of clients whose w are (2, 0) and (0, 2), by how reliable they are in each class."""
    method = FedTAD(epochs=epochs, nodes=8, steps=1, rate=0.1, decay=0.0, **options).fitted(TaskFacts(node_classes=2))
    before = method.init({"w": np.zeros(2, np.float32)}, clients=2)
    sent = [np.array([2, 0], np.float32), np.array([0, 2], np.float32)]
    updates = [
        Update(client, 0.5, {"w": sent[client], "knowledge.reliability": np.array(reliable[client], np.float32)})
        for client in (0, 1)
    ]
    merged = method.merge(before, updates)
    return method.refined(before, merged, updates, Told(), np.random.default_rng(0))


def test_the_global_model_goes_where_the_reliable_are():
    first, second = taught([[1, 1], [0, 0]])["model"]["w"], taught([[0, 0], [3, 3]])["model"]["w"]
    assert first[0] > 1 > first[1]
    assert second[0] < 1 < second[1]
    nobody = taught([[0, 0], [0, 0]])["model"]["w"]
    assert nobody.tolist() == [1, 1]


def test_without_epochs_nothing_is_drawn_and_it_is_federated_averaging():
    assert taught([[1, 1], [1, 1]], epochs=0)["generator"] == {}
    mine = run(parted(sharing={"name": "fedtad", "epochs": 0}, rounds=3))[0].sharing
    plain = run(parted(sharing={"name": "fedavg"}, rounds=3))[0].sharing
    assert same(mine["model"], plain["model"])


def test_the_generator_hears_of_classes():
    one, other = (
        taught([[1, 1], [1, 1]], generations=3, generator_rate=0.01, semantics=weight) for weight in (1.0, 0.0)
    )
    assert not same(one["generator"], other["generator"])


def test_the_generator_learns_nodes_of_which_the_reliable_are_sure():
    def sure(generations):
        state = taught([[1, 1], [1, 1]], epochs=20, generations=generations, diversity=0.0, generator_rate=0.01)
        return state["generator"]["3.bias"], state["generator_moments"]

    drawn, learnt = sure(0), sure(3)
    assert not drawn[1]
    assert not same(drawn[0], learnt[0])


def test_what_is_sent_is_what_was_announced():
    method = FedTAD().fitted(TaskFacts(node_classes=3))
    (spec,) = method.uploads(Layout(()))
    assert spec.shape == reliability(STAR, 5).shape


def test_bad_options_and_other_tasks_are_refused():
    with pytest.raises(InputError, match=r"FedTAD\.walk must be >= 1; got 0"):
        FedTAD(walk=0)
    with pytest.raises(InputError, match=r"FedTAD\.nodes must be >= 7, the number of classes; got 5"):
        FedTAD(nodes=5).fitted(TaskFacts(node_classes=7))
    with pytest.raises(InputError, match=r"which task Graph does not show; node does\."):
        load("cefgl", {"sharing.name": "fedtad"})
