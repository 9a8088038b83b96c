"""Attention of several heads: by hand, against dense algebra, its gradients against finite differences."""

import numpy as np
import pytest
import scipy.sparse
import torch

from fedgraft.nn import attention
from fedgraft.nn.attention import HeadedGraph

SLOPE = 0.2
EVERY, NONE = 10**9, 0
KERNELS = {
    "listed": {"FILLED": NONE},
    "listed, head by head": {"FILLED": NONE, "MOST_ENTRIES": 0},
    "filled": {"FILLED": EVERY},
    "filled, in tiles": {"FILLED": EVERY, "TILE": 200},
}


@pytest.fixture(params=KERNELS)
def kernel(request, monkeypatch):
    for name, value in KERNELS[request.param].items():
        monkeypatch.setattr(attention, name, value)


class Attend(torch.autograd.Function):
    """With its gradient, for autograd."""

    @staticmethod
    def forward(ctx, values, receiver, sender, graphs, slope):
        outputs, ctx.back = attention.attend(values, receiver, sender, graphs, slope)
        return outputs

    @staticmethod
    def backward(ctx, gradient):
        return *ctx.back(gradient.contiguous()), None, None


def attend(values, receiver, sender, graph, slope):
    """Of one graph."""
    return Attend.apply(values, receiver[None], sender[None], [graph], slope)[0]


def matrix(nodes=5, density=0.4, seed=0):
    """A random structure in which every node attends to itself."""
    drawn = scipy.sparse.random(nodes, nodes, density, format="csr", random_state=seed)
    return (drawn + scipy.sparse.identity(nodes)).tocsr()


def dense(values, receiver, sender, structure):
    scores = torch.nn.functional.leaky_relu(receiver[:, :, None] + sender[:, None, :], SLOPE)
    absent = torch.from_numpy(structure.toarray() == 0)
    return scores.masked_fill(absent, -torch.inf).softmax(2) @ values


def drawn(heads, nodes, width, dtype=torch.float32):
    g = torch.Generator().manual_seed(1)
    shapes = ((heads, nodes, width), (heads, nodes), (heads, nodes))
    return [torch.randn(shape, generator=g, dtype=dtype, requires_grad=True) for shape in shapes]


@pytest.mark.usefixtures("kernel")
def test_two_nodes_by_hand():
    graph = HeadedGraph(scipy.sparse.csr_matrix(np.array([[1, 1], [0, 1]])), heads=1)
    values, zeros = torch.tensor([[[1.0], [3.0]]]), torch.zeros(1, 2)
    assert attend(values, zeros, zeros, graph, SLOPE)[0, :, 0].tolist() == [2.0, 3.0]
    sender = torch.tensor([[0.0, float(np.log(3))]])  # the other node weighs three times as much
    assert attend(values, zeros, sender, graph, SLOPE)[0, :, 0].tolist() == pytest.approx([2.5, 3.0])
    below = torch.tensor([[0.0, float(-np.log(3) / SLOPE)]])  # and a third, once the slope has acted
    assert attend(values, zeros, below, graph, SLOPE)[0, :, 0].tolist() == pytest.approx([1.5, 3.0])


@pytest.mark.usefixtures("kernel")
def test_equals_dense_algebra_and_so_do_its_gradients():
    structure = matrix(30, 0.3)
    graph = HeadedGraph(structure, heads=4)
    mine, theirs = drawn(4, 30, 3), drawn(4, 30, 3)
    weights = torch.randn(4, 30, 3, generator=torch.Generator().manual_seed(2))
    for inputs, found in (
        (mine, attend(*mine, graph, SLOPE)),
        (theirs, dense(*theirs, structure)),
    ):
        (found * weights).sum().backward()
        inputs.append(found)
    for one, other in zip(mine[:3], theirs[:3], strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine[3], theirs[3], rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("kernel")
def test_gradients_against_finite_differences():
    graph = HeadedGraph(matrix(), heads=2)
    assert torch.autograd.gradcheck(lambda *given: attend(*given, graph, SLOPE), drawn(2, 5, 3, torch.float64))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("shift", [500, -500])
def test_scores_beyond_float32_s_exponentials_are_no_matter(shift):
    structure = matrix(12, 0.5)
    values, receiver, sender = (each.detach() for each in drawn(2, 12, 3))
    found = attend(values, receiver + shift, sender, HeadedGraph(structure, 2), SLOPE)
    torch.testing.assert_close(found, dense(values, receiver + shift, sender, structure), rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("kernel")
def test_a_node_whose_neighbours_weigh_next_to_nothing_has_their_mean():
    values, receiver, sender = (each.detach() for each in drawn(1, 4, 3))
    sender[:, 3] += 1000  # which attends to itself alone, and which nobody attends to
    structure = scipy.sparse.block_diag([np.ones((3, 3)), [[1]]], format="csr")
    found = attend(values, receiver, sender, HeadedGraph(structure, 1), SLOPE)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found[0, 3], values[0, 3])
    assert (found[0, :3] <= values[0, :3].amax(0) + 1e-6).all()


def test_several_graphs_are_what_each_is_alone():
    graphs = [HeadedGraph(matrix(20, density), heads=2) for density in (0.01, 0.5)]
    assert [type(graph._kernel).__name__ for graph in graphs] == ["_Listed", "_Filled"]
    values, *_ = drawn(2, 20, 3)
    receiver, sender = torch.randn(2, 2, 2, 20, generator=torch.Generator().manual_seed(3))
    together = Attend.apply(values, receiver, sender, graphs, SLOPE)
    together.square().sum().backward()
    gradient, values.grad = values.grad, None
    for number, graph in enumerate(graphs):
        alone = attend(values, receiver[number], sender[number], graph, SLOPE)
        alone.square().sum().backward()
        torch.testing.assert_close(together[number], alone, rtol=0, atol=0)
    torch.testing.assert_close(gradient, values.grad)


@pytest.mark.usefixtures("kernel")
def test_counts_what_it_computes():
    from fedgraft.nn import flops

    graph = HeadedGraph(matrix(), heads=2)
    with flops.Meter() as meter:
        attend(*drawn(2, 5, 3), graph, SLOPE).sum().backward()
    assert meter.flops == 3 * 2 * (2 * graph.edges * 3)
