"""The two sparse products against dense algebra, and their gradients against finite differences."""

import numpy as np
import pytest
import scipy.sparse
import torch
from jaxtyping import TypeCheckError

from fedgraft.nn import propagate
from fedgraft.nn.propagate import Block, Graph, Sparse, end_sums, sddmm, spmm


@pytest.fixture
def graph() -> Graph:
    """Four nodes, an isolated one among them; edge (0, 1) comes first and must survive as number 0."""
    rows, columns = [0, 0, 1, 3, 3], [1, 3, 1, 0, 1]
    return Graph(scipy.sparse.csr_matrix((np.ones(5), (rows, columns)), shape=(4, 4)))


def dense(graph: Graph, values: torch.Tensor) -> torch.Tensor:
    matrix = torch.zeros(graph.nodes, graph.nodes, dtype=values.dtype)
    matrix[graph.rows, graph.columns] = values
    return matrix


def test_spmm_by_hand(graph):
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    features = torch.tensor([[1.0], [10.0], [100.0], [1000.0]])
    assert spmm(values, features, graph)[:, 0].tolist() == [2010.0, 30.0, 0.0, 54.0]


def test_sddmm_by_hand(graph):
    left = torch.tensor([[1.0, 1.0], [2.0, 0.0], [0.0, 0.0], [0.0, 3.0]])
    right = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    assert sddmm(left, right, graph).tolist() == [7.0, 15.0, 6.0, 6.0, 12.0]


def test_shapes_that_do_not_fit_the_signature_are_refused_after_others_that_do(graph):
    """Tests check each combination of shapes once: that one has passed says nothing of another."""
    left = torch.ones(4, 2)
    sddmm(left, left, graph)
    for _ in range(2):
        with pytest.raises(TypeCheckError, match="right"):
            sddmm(left, torch.ones(4, 3), graph)


def test_end_sums_by_hand(graph):
    left, right = torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[10.0, 20.0, 30.0, 40.0]])
    assert end_sums(left, right, graph)[0].tolist() == [21.0, 41.0, 22.0, 14.0, 24.0]


def test_products_equal_dense_algebra_and_the_transpose_is_the_transpose(graph):
    g = torch.Generator().manual_seed(0)
    values, features = torch.randn(5, generator=g), torch.randn(4, 3, generator=g)
    matrix = dense(graph, values)
    torch.testing.assert_close(spmm(values, features, graph), matrix @ features)
    torch.testing.assert_close(graph.transposed(values) @ features, matrix.T @ features)


def test_gradients(graph):
    g = torch.Generator().manual_seed(0)
    values = torch.randn(5, generator=g, dtype=torch.float64, requires_grad=True)
    a = torch.randn(4, 3, generator=g, dtype=torch.float64, requires_grad=True)
    b = torch.randn(4, 3, generator=g, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v, d: spmm(v, d, graph), (values, a))
    assert torch.autograd.gradcheck(lambda x, y: sddmm(x, y, graph), (a, b))
    assert torch.autograd.gradcheck(lambda x, y: end_sums(x.t(), y.t(), graph), (a, b))


def test_a_graph_without_edges():
    graph = Graph(scipy.sparse.csr_matrix((3, 3)))
    features = torch.ones(3, 2, requires_grad=True)
    product = spmm(torch.zeros(0), features, graph)
    product.sum().backward()
    assert product.abs().sum() == 0
    assert features.grad is not None
    assert features.grad.abs().sum() == 0


@pytest.mark.parametrize("small", [0, 1 << 15])
def test_a_fixed_matrix_by_hand_and_its_gradient(small, monkeypatch):
    """Whether it is stored with its zeros or without."""
    monkeypatch.setattr(propagate, "SMALL", small)
    matrix = Sparse(np.array([0, 0, 2]), np.array([1, 3, 0]), np.array([2.0, 5.0, -1.0]), (3, 4))
    dense = torch.tensor([[1.0], [2.0], [4.0], [8.0]], requires_grad=True)
    product = matrix @ dense
    assert product[:, 0].tolist() == [44.0, 0.0, -1.0]
    (product * torch.tensor([[10.0], [20.0], [30.0]])).sum().backward()
    assert dense.grad is not None
    assert dense.grad[:, 0].tolist() == [-30.0, 20.0, 0.0, 50.0]
    assert (matrix.to("cpu") @ dense)[:, 0].tolist() == [44.0, 0.0, -1.0]


def test_receivers_may_be_other_nodes_than_senders():
    matrix = Sparse(np.array([0, 1, 1]), np.array([0, 0, 2]), np.ones(3), (2, 3))
    block = Block(matrix, torch.tensor([2, 1]), torch.tensor([1.0, 2.0]), torch.ones(3))
    states = torch.tensor([[1.0], [10.0], [100.0]])
    assert block.sums(states)[:, 0].tolist() == [1.0, 101.0]
    assert block.own(states)[:, 0].tolist() == [100.0, 10.0]
    assert block.to("cpu").degree.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("place", "degree_from", "smoothed"),
    [
        ([0, 1], [3.0, 8.0, 15.0], [1 / 4 + 100 / (2 * 4), 10 / 9 + 1 / (3 * 2) + 100 / (3 * 4)]),
        ([2, 1], [15.0, 8.0, 3.0], [100 / 4 + 100 / (2 * 2), 10 / 9 + 1 / (3 * 4) + 100 / (3 * 2)]),
    ],
)
def test_a_block_averages_and_smooths(place, degree_from, smoothed):
    matrix = Sparse(np.array([0, 1, 1]), np.array([2, 0, 2]), np.ones(3, np.float32), (2, 3), small=0)
    block = Block(matrix, torch.tensor(place), torch.tensor([3.0, 8.0]), torch.tensor(degree_from))
    states = torch.tensor([[1.0], [10.0], [100.0]])
    assert block.own(states)[:, 0].tolist() == states[place, 0].tolist()
    assert block.means(states)[:, 0].tolist() == pytest.approx([100 / 3, 101 / 8])
    expected = torch.tensor(smoothed)
    torch.testing.assert_close(block.smoothed(states)[:, 0], expected)
    torch.testing.assert_close(block.smoothed(states, lambda each: 2 * each)[:, 0], 2 * expected)
