"""Correct and smooth: by hand, and better than the perceptron that it begins with where neighbours are alike."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.nn import CorrectAndSmooth as PygCorrectAndSmooth
from torch_geometric.utils import to_undirected

from fedgraft.domains.nodes.base.shards import pooled
from fedgraft.domains.nodes.training.perceptron import ACCURACY
from fedgraft.errors import InputError
from fedgraft.methods.baselines.correct_and_smooth import CorrectAndSmooth, _errors, _labelled, _normalised
from fedgraft.methods.baselines.mlp import Mlp
from fedgraft.methods.data.blocks import Blocks
from helpers.toy_nodes import shard_of

WORDS = Blocks(nodes=300, classes=3, clients=3, features=20, signal=0.5)


@pytest.fixture(scope="module")
def graph():
    return pooled(WORDS.load(1))


def cut_nowhere(edges, label, split):
    """A client that has the whole graph."""
    shard = shard_of(len(label), edges)
    return replace(shard, label=np.array(label), split=np.array(split, np.int8), classes=("a", "b", "c"))


def test_spreading_is_the_equation_of_huang(graph):
    """E_(t+1) = a S E_t + (1 - a) E_0, whose limit solves (1 - a S) E = (1 - a) E_0."""
    start = np.random.default_rng(0).standard_normal((graph.own, 3))
    found = CorrectAndSmooth(steps=200)._spread(graph, start, 0.8, lambda values: values)
    left = sparse.eye(graph.own) - 0.8 * _normalised(graph)
    assert np.allclose(left @ found, 0.2 * start, atol=1e-9)


def test_two_steps_by_hand():
    """A path 0 - 1 - 2, where 0 trains with class 0. S has 1 / sqrt(2) at both edges; a = 0.5.

    The error of node 0 stays (0.5, -0.5). Of node 1 it is 0.5 / sqrt(2) / 2 = 0.1768 after each step, and of node 2,
    after the second, 0.1768 / sqrt(2) / 2 = 0.0625. With scale 10 the answers of nodes 1 and 2 are 0.5 + 1.768 = 2.268
    and 0.5 + 0.625 = 1.125. Smoothing for a step: node 1 gets (1 + 1.125) / sqrt(2) / 2 + 2.268 / 2 = 1.885, which
    is clamped to 1, and node 2 gets 2.268 / sqrt(2) / 2 + 1.125 / 2 = 1.364, clamped to 1 too.
    """
    path = cut_nowhere([(0, 1), (1, 2)], label=[0, 1, 1], split=[0, 1, 2])
    half = np.full((3, 2), 0.5)
    errors = CorrectAndSmooth(steps=2)._spread_errors(path, half, 0.5)
    assert errors[:, 0] == pytest.approx([0.5, 0.1768, 0.0625], abs=1e-4)
    assert errors[:, 1] == pytest.approx(-errors[:, 0])
    assert CorrectAndSmooth(steps=1)._smoothed(path, half + 10 * errors, 0.5)[1:, 0] == pytest.approx([1, 1])


@pytest.mark.parametrize(("correct", "scale", "smooth"), [(0.8, 1.0, 0.5), (0.95, 4.0, 0.8), (0.3, 2.0, 0.0)])
def test_it_is_that_of_pyg(correct, scale, smooth):
    g = np.random.default_rng(5)
    edges = np.argwhere(np.triu(g.random((40, 40)) < 0.1, 1))
    graph = cut_nowhere(edges.tolist(), label=g.integers(3, size=40), split=g.integers(3, size=40))
    said, train = g.dirichlet(np.ones(3), 40), torch.from_numpy(graph.rows("train"))
    known = torch.from_numpy(graph.label[graph.rows("train")].astype(np.int64))
    theirs = PygCorrectAndSmooth(50, correct, 50, smooth, autoscale=False, scale=scale)
    edge_index = to_undirected(torch.from_numpy(edges.T))
    corrected = theirs.correct(torch.from_numpy(said), known, train, edge_index)
    ours = CorrectAndSmooth()
    own = said + scale * ours._spread_errors(graph, said, correct)
    assert np.allclose(own, corrected, atol=1e-6)  # PyG's weights of edges are float32
    smoothed = theirs.smooth(corrected, known, train, edge_index)
    assert np.allclose(ours._smoothed(graph, own, smooth), smoothed, atol=1e-6)
    assert (own < 0).any() or (own > 1).any()  # so that the clamp has something to do


def test_the_adjacency_is_normalised_on_both_sides(graph):
    dense = _normalised(graph).toarray()
    assert np.allclose(dense, dense.T)
    edge = graph.senders[0]
    assert dense[0, edge] == pytest.approx(1 / np.sqrt(graph.degree[0] * graph.degree[edge]))


def test_errors_and_labels_are_of_training_nodes_alone(graph):
    said = np.full((graph.own, 3), 1 / 3)
    train = np.isin(np.arange(graph.own), graph.rows("train"))
    errors = _errors(graph, said)
    assert np.allclose(said + errors, _labelled(graph, said))
    assert not errors[~train].any()
    assert np.allclose(_labelled(graph, said)[train].argmax(1), graph.label[train])


def test_it_beats_its_perceptron_where_neighbours_are_alike(graph):
    shards = WORDS.load(1)
    smooth, plain = (baseline.score(shards) for baseline in (CorrectAndSmooth(), Mlp()))
    assert smooth["validation"] > plain["validation"]
    assert smooth["test"] > plain["test"] + 0.02


def test_labels_for_test_play_no_part(graph):
    blind = type(graph)(**{**vars(graph), "label": np.where(graph.split == 2, 0, graph.label)})
    quick = CorrectAndSmooth(alphas=(0.5,), scales=(1.0,))
    assert np.array_equal(*(quick.answers(each, ACCURACY).argmax(1) for each in (graph, blind)))


@pytest.mark.parametrize("options", [{"alphas": ()}, {"alphas": (1.0,)}, {"scales": (-1.0,)}, {"steps": 0}])
def test_what_does_not_fit_is_refused(options):
    with pytest.raises(InputError, match=rf"CorrectAndSmooth\.{next(iter(options))}"):
        CorrectAndSmooth(**options)
