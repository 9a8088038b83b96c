"""AdaFGL's topology by hand: who hears from whom, and how well labels are told by neighbours."""

import numpy as np
import pytest
import torch
from scipy import sparse

from fedgraft.domains.nodes.task.variants import block_graph
from fedgraft.domains.nodes.training.refinement import (
    confidence,
    cosines,
    normalised,
    propagated,
    topology,
)
from fedgraft.domains.nodes.training.smoothed_inputs import Within


def path(nodes):
    """A path over so many nodes, as a matrix."""
    upper = sparse.diags([np.ones(nodes - 1, np.float32)], [1])
    return sparse.csr_matrix(upper + upper.T)


def test_edges_and_answers_by_hand():
    # Edges 0-1, 1-2; 0 and 2 answer alike. a A + (1 - a) S + I with a = 1/2 has ones and halves, row sums 2 each.
    answers = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1]])
    found = topology(answers, path(3), np.array([0, 1, 0]), np.arange(3))
    expected = torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]])
    assert torch.allclose(found.matrix, expected)
    assert found.answers is answers


def test_symmetric_normalisation():
    weights = torch.tensor([[0.0, 3.0], [3.0, 0.0]])
    assert torch.allclose(normalised(weights), torch.tensor([[0.25, 0.75], [0.75, 0.25]]))
    uneven = normalised(torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    assert torch.allclose(uneven[0], torch.tensor([1 / 2, 1 / 6**0.5, 0]))
    assert torch.allclose(uneven, uneven.t())


def test_cosines_of_answers():
    found = cosines(torch.tensor([[3.0, 4.0], [4.0, 3.0], [0.0, 2.0]]))
    assert torch.allclose(found, torch.tensor([[0, 0.96, 0.8], [0.96, 0, 0.6], [0.8, 0.6, 0]]))


def test_label_propagation_by_hand():
    # Two nodes: the matrix is all halves. From (1, 0) and (1/2, 1/2) the mean is (3/4, 1/4) in every step: the fixed
    # point says (7/8, 1/8) of the known and (5/8, 3/8) of the other.
    said = propagated(path(2), np.array([0, 1]), np.array([0]), 2)
    assert said == pytest.approx(np.array([[7 / 8, 1 / 8], [5 / 8, 3 / 8]]), abs=1e-6)


def test_confidence_where_neighbours_are_alike_and_where_not():
    nodes = 40
    alike, everybody = np.arange(nodes) // 20, np.arange(nodes)
    assert confidence(path(nodes), alike, everybody, 2) >= 0.95
    assert confidence(path(nodes), np.arange(nodes) // 2 % 2, everybody, 2) < 0.6
    assert confidence(path(nodes), alike, everybody[:1], 2) == 0.5, "one label tells nothing"


def test_edges_between_own_nodes():
    graph = block_graph(np.random.default_rng(1), 3, ("a",))
    edges = Within.of(graph).edges
    assert edges.shape == (graph.own, graph.own)
    assert (edges != edges.T).nnz == 0
    assert edges.sum() == len(graph.senders)
    assert np.array_equal(np.asarray(edges.sum(1)).ravel(), graph.degree)
