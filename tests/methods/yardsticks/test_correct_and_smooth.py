"""Correct and smooth: by hand, and better than the perceptron that it begins with where neighbours are alike."""

import numpy as np
import pytest
from scipy import sparse

from fedgraft.domains.nodes.base.shards import pooled
from fedgraft.errors import InputError
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.yardsticks.correct_and_smooth import CorrectAndSmooth, _errors, _labelled, _normalised
from fedgraft.methods.yardsticks.mlp import Mlp

WORDS = Blocks(nodes=300, classes=3, clients=3, features=20, signal=0.5)


@pytest.fixture(scope="module")
def graph():
    return pooled(WORDS.load(1))


def test_spreading_is_the_equation_of_huang(graph):
    """E_(t+1) = a S E_t + (1 - a) E_0, whose limit solves (1 - a S) E = (1 - a) E_0."""
    start = np.random.default_rng(0).standard_normal((graph.own, 3))
    found = CorrectAndSmooth(steps=200)._spread(graph, start, 0.8)
    left = sparse.eye(graph.own) - 0.8 * _normalised(graph)
    assert np.allclose(left @ found, 0.2 * start, atol=1e-9)


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
    smooth, plain = (yardstick.score(shards) for yardstick in (CorrectAndSmooth(), Mlp()))
    assert smooth["validation"] > plain["validation"]
    assert smooth["test"] > plain["test"] + 0.02


def test_labels_for_test_play_no_part(graph):
    blind = type(graph)(**{**vars(graph), "label": np.where(graph.split == 2, 0, graph.label)})
    quick = CorrectAndSmooth(alphas=(0.5,), scales=(1.0,))
    assert np.array_equal(quick.predict(graph), quick.predict(blind))


@pytest.mark.parametrize("options", [{"alphas": ()}, {"alphas": (1.0,)}, {"scales": (-1.0,)}, {"steps": 0}])
def test_what_does_not_fit_is_refused(options):
    with pytest.raises(InputError, match=rf"CorrectAndSmooth\.{next(iter(options))}"):
        CorrectAndSmooth(**options)
