"""Laws of encoders that are a stack of convolutions, on a small graph whose nodes hear along edges and back."""

import dataclasses
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts.encoder import EdgeLayeredEncoder, LayeredEncoder
from fedgraft.nn.layers import row_linear
from fedgraft.nn.propagate import Block, EdgeValues, Sparse, Stacked
from fedgraft.testing.laws import Laws, expect

NODES, INPUTS, OUTPUTS, EDGE_WIDTH = 7, 5, 6, 2
EDGES = np.array([[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [4, 5]])
"""Node 6 has none."""
NEAR = [0, 1, 2]
"""Node 0 and its neighbours."""


LAWS: Laws[LayeredEncoder] = Laws()
READING_EDGES: Laws[EdgeLayeredEncoder] = Laws()


@LAWS.having(LayeredEncoder)
def has_a_depth_and_a_width(encoder: LayeredEncoder) -> None:
    """Tell how many convolutions there are, and their widths."""
    expect(encoder.depth >= 1 and encoder.width >= 1, "depth and width must be >= 1", encoder.depth, encoder.width)
    expect(encoder.depth == len(encoder.widths), "there must be a width for each convolution", encoder.widths)
    if "layers" in {each.name for each in dataclasses.fields(cast(Any, encoder))}:
        deeper = dataclasses.replace(cast(Any, encoder), layers=3)
        expect(deeper.depth == 3, "three layers must be three convolutions", deeper.depth)


@LAWS.having(LayeredEncoder)
def one_that_is_not_stochastic_leaves_torchs_generators_alone(encoder: LayeredEncoder) -> None:
    """Draw from no generator in training, or say `stochastic`."""
    if encoder.stochastic:
        return
    before = torch.get_rng_state()
    _drawn(encoder).train()(_features(), graph_of(EDGES)).sum().backward()
    untouched = torch.equal(torch.get_rng_state(), before)
    expect(untouched, "with stochastic = False nothing may be drawn", "a change of torch's own generator")


@LAWS.having(LayeredEncoder)
def gives_every_node_a_finite_state(encoder: LayeredEncoder) -> None:
    """Return [receivers, outputs]."""
    states = _drawn(encoder)(_features(), graph_of(EDGES))
    expect(states.shape == (NODES, OUTPUTS), f"states must be [{NODES}, {OUTPUTS}]", states.shape)
    expect(torch.isfinite(states).all(), "states must be finite", states)


@LAWS.having(LayeredEncoder)
def relabelling_nodes_relabels_states(encoder: LayeredEncoder) -> None:
    """Depend on no node's number."""
    module, order = _drawn(encoder), torch.randperm(NODES, generator=torch.Generator().manual_seed(1))
    moved = graph_of(torch.argsort(order).numpy()[EDGES])
    expected = module(_features(), graph_of(EDGES))[order]
    torch.testing.assert_close(module(_features()[order], moved), expected, rtol=1e-4, atol=1e-5)


@LAWS.having(LayeredEncoder)
def neighbours_matter_and_nobody_else(encoder: LayeredEncoder) -> None:
    """Let a node move itself and its neighbours; itself alone, if it is said to look at nobody."""
    module, states = _drawn(encoder), _features()
    changed = states.clone()
    changed[0] += 1
    moved = (module(changed, graph_of(EDGES)) - module(states, graph_of(EDGES))).abs().amax(1)
    near = NEAR if encoder.reads_neighbours else [0]
    far = [node for node in range(NODES) if node not in near]
    expect((moved[near] > 1e-6).all(), f"node 0 must matter to {near}", moved)
    expect((moved[far] == 0).all(), f"node 0 must not matter to {far}", moved)


@LAWS.having(LayeredEncoder)
def a_node_without_neighbours_keeps_a_state_of_its_own(encoder: LayeredEncoder) -> None:
    """Tell nodes without edges apart by their features."""
    module, nothing = _drawn(encoder), graph_of(np.zeros((0, 2), np.int64))
    states = module(_features(), nothing)
    expect(torch.isfinite(states).all(), "states must be finite", states)
    different = len(torch.unique(states, dim=0))
    expect(different == NODES, f"{NODES} nodes without edges must have as many states", different)


@LAWS.having(LayeredEncoder)
def gradients_reach_every_parameter_and_are_those_of_finite_differences(encoder: LayeredEncoder) -> None:
    """Let every parameter learn; have the gradients that small steps show."""
    module, states = _drawn(encoder), _features().requires_grad_()
    weights = torch.randn(NODES, OUTPUTS, generator=torch.Generator().manual_seed(2))
    (module(states, graph_of(EDGES)) * weights).sum().backward()
    for name, parameter in module.named_parameters():
        reached = parameter.grad is not None and bool(parameter.grad.abs().max() > 0)
        expect(reached, "every parameter must have a gradient that is not zero", name)
    direction = torch.randn(states.shape, generator=torch.Generator().manual_seed(3))
    expect(states.grad is not None, "the senders' states must have a gradient", states.grad)
    expected = float((states.grad * direction).sum()) if states.grad is not None else 0.0
    with torch.no_grad():
        step = 1e-3
        ends = [(module(states + sign * step * direction, graph_of(EDGES)) * weights).sum() for sign in (1, -1)]
    slope = float(ends[0] - ends[1]) / (2 * step)
    near = abs(slope - expected) <= max(0.05 * abs(expected), 1e-2)
    expect(near, f"the gradient of states along a direction must be {expected:.6g}", slope)


@LAWS.having(LayeredEncoder)
def equal_generators_draw_equal_convolutions_and_touch_no_global_one(encoder: LayeredEncoder) -> None:
    """Draw a convolution from the given generator and from nothing else."""
    before = torch.get_rng_state()
    one, again, other = (_drawn(encoder, seed).state_dict() for seed in (1, 1, 2))
    untouched = torch.equal(before, torch.get_rng_state())
    expect(untouched, "only the given generator may be drawn from", "a change of torch's own")
    expect(all(torch.equal(one[name], again[name]) for name in one), "equal seeds must draw equal modules", again)
    expect(any(not torch.equal(one[name], other[name]) for name in one), "other seeds must draw others", other)


@LAWS.having(LayeredEncoder)
def sparse_and_stacked_states_give_what_dense_ones_give(encoder: LayeredEncoder) -> None:
    """Take the senders' states in every form that tasks have them in."""
    module = encoder.convolution(300, OUTPUTS, torch.Generator().manual_seed(0), row_linear)
    dense = torch.zeros(200, 300)
    dense[torch.arange(200), torch.arange(200) + 50] = 2.0  # beyond what is stored with its zeros
    rows, columns = dense.nonzero().T.numpy()
    sparse = Sparse(rows, columns, dense[rows, columns].numpy(), (200, 300))
    graph = graph_of(EDGES, 200)
    results = []
    for states in (sparse, dense, Stacked(dense[:50], dense[50:])):
        module.zero_grad()
        output = module(states, graph)
        output.square().sum().backward()
        results.append([output, *(p.grad for p in module.parameters())])
    for one, other, third in zip(*results, strict=True):
        torch.testing.assert_close(third, other, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@READING_EDGES.having(EdgeLayeredEncoder)
def what_edges_carry_and_their_direction_matter(encoder: EdgeLayeredEncoder) -> None:
    """Move every node with edges where these carry other numbers, or go the other way; no other node.

    Of what the encoder does not read nothing may matter.
    """
    module = encoder.edge_convolution(INPUTS, OUTPUTS, EDGE_WIDTH, torch.Generator().manual_seed(0))
    graph = graph_of(EDGES)
    along = cast(EdgeValues, graph.edges).along
    values = torch.randn(len(along), EDGE_WIDTH, generator=torch.Generator().manual_seed(4))
    told, others, turned = (
        module(_features(), dataclasses.replace(graph, edges=EdgeValues(*carried)))
        for carried in ((values, along), (values + 1, along), (values, ~along))
    )
    reads = "columns" in encoder.reads(INPUTS, EDGE_WIDTH), encoder.reads_direction
    matters = [(graph.degree > 0) & each for each in reads]
    whats = "numbers that edges carry", "the edges' direction"
    for what, states, where in zip(whats, (others, turned), matters, strict=True):
        moved = (states - told).abs().amax(1)
        expect((moved[where] > 1e-6).all(), f"{what} must matter to nodes with edges", moved)
        expect((moved[~where] == 0).all(), f"{what} must not matter to other nodes, or if not read", moved)


@READING_EDGES.having(EdgeLayeredEncoder)
def the_order_of_edges_does_not_matter_and_repeats_count(encoder: EdgeLayeredEncoder) -> None:
    """Make the same of edges of the same two nodes in any order, and something else of one of them less."""
    module = encoder.edge_convolution(INPUTS, OUTPUTS, EDGE_WIDTH, torch.Generator().manual_seed(0))
    values = torch.randn(len(EDGES) + 1, EDGE_WIDTH, generator=torch.Generator().manual_seed(4))
    repeats = np.concatenate([EDGES, EDGES[:1]])
    states, again, once = (
        module(_features(), listed(repeats[order], values[order]))
        for order in (np.arange(len(repeats)), np.arange(len(repeats))[::-1].copy(), np.arange(len(EDGES)))
    )
    torch.testing.assert_close(again, states, rtol=1e-4, atol=1e-5)
    if "columns" in encoder.reads(INPUTS, EDGE_WIDTH):
        moved = (once - states).abs().amax(1)
        expect((moved[EDGES[0]] > 1e-6).all(), f"a second edge must matter to its ends, {EDGES[0].tolist()}", moved)


@READING_EDGES.having(EdgeLayeredEncoder)
def weights_of_edges_count_where_they_are_read(encoder: EdgeLayeredEncoder) -> None:
    """Take an edge of weight 2 as the edge twice, and a weight of 1 as none."""
    if "weights" not in encoder.reads(INPUTS, EDGE_WIDTH):
        return
    module = encoder.edge_convolution(INPUTS, OUTPUTS, EDGE_WIDTH, torch.Generator().manual_seed(0))
    values = torch.randn(len(EDGES), EDGE_WIDTH, generator=torch.Generator().manual_seed(4))
    twice = module(_features(), listed(np.repeat(EDGES, 2, 0), values.repeat_interleave(2, 0)))
    double = module(_features(), listed(EDGES, values, 2.0))
    torch.testing.assert_close(double, twice, rtol=1e-4, atol=1e-5)
    one, none = (module(_features(), listed(EDGES, values, each)) for each in (1.0, None))
    expect(torch.equal(one, none), "a weight of 1 must change no bit", one - none)


@READING_EDGES.having(EdgeLayeredEncoder)
def a_block_that_was_moved_is_another_one_and_gives_the_same(encoder: EdgeLayeredEncoder) -> None:
    """Remember nothing of a block that its `to` does not take along."""
    module = encoder.edge_convolution(INPUTS, OUTPUTS, EDGE_WIDTH, torch.Generator().manual_seed(0))
    values = torch.randn(len(EDGES), EDGE_WIDTH, generator=torch.Generator().manual_seed(4))
    block = listed(EDGES, values, 2.0)
    states = module(_features(), block)
    moved = module(_features(), block.to("cpu"))
    expect(torch.equal(moved, states), "a block that was moved must give the same", moved - states)
    if torch.cuda.is_available():
        there = module.to("cuda")(_features().to("cuda"), block.to("cuda"))
        torch.testing.assert_close(there.cpu(), states, rtol=1e-4, atol=1e-5)


@READING_EDGES.having(EdgeLayeredEncoder)
def gradients_reach_what_maps_columns(encoder: EdgeLayeredEncoder) -> None:
    """Let every parameter of a convolution for edges with columns learn."""
    module = encoder.edge_convolution(INPUTS, OUTPUTS, EDGE_WIDTH, torch.Generator().manual_seed(0))
    values = torch.randn(len(EDGES), EDGE_WIDTH, generator=torch.Generator().manual_seed(4))
    module(_features(), listed(EDGES, values)).square().sum().backward()
    for name, parameter in module.named_parameters():
        reached = parameter.grad is not None and bool(torch.isfinite(parameter.grad).all() and parameter.grad.any())
        expect(reached, "every parameter must have a finite gradient that is not zero", name)


def listed(edges: NDArray[np.int64], values: Tensor, weight: float | None = None) -> Block:
    """Return a graph of edges, int64 [edges, 2], that may repeat, with columns [edges, any] and one weight of all."""
    receiver, sender = np.concatenate([edges[:, 1], edges[:, 0]]), np.concatenate([edges[:, 0], edges[:, 1]])
    row, order = np.tile(np.arange(len(edges)), 2), np.argsort(receiver, kind="stable")
    each = np.full(len(receiver), 1.0 if weight is None else weight, np.float32)
    told = None if weight is None else torch.from_numpy(each)
    carried = EdgeValues(values[row[order]], torch.from_numpy(order < len(edges)), told)
    matrix = Sparse(receiver[order], sender[order], each, (NODES, NODES), small=0)
    degree = torch.from_numpy(np.bincount(receiver, each, minlength=NODES).astype(np.float32))
    return Block(matrix, torch.arange(NODES), degree, degree, carried)


def graph_of(edges: NDArray[np.int64], nodes: int = NODES) -> Block:
    """Return a graph of edges, int64 [edges, 2], from the first to the second; nodes hear along each and back."""
    adjacency = np.zeros((nodes, nodes))
    adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = 1
    rows, columns = np.nonzero(adjacency)
    forwards = np.zeros((nodes, nodes), bool)
    forwards[edges[:, 1], edges[:, 0]] = True
    carried = EdgeValues(torch.zeros(len(rows), 0), torch.from_numpy(forwards[rows, columns]))
    matrix = Sparse(rows, columns, adjacency[rows, columns], (nodes, nodes))
    degree = torch.from_numpy(adjacency.sum(1).astype(np.float32))
    return Block(matrix, torch.arange(nodes), degree, degree, carried)


def _features(nodes: int = NODES, seed: int = 0) -> Tensor:
    return torch.randn(nodes, INPUTS, generator=torch.Generator().manual_seed(seed))


def _drawn(encoder: LayeredEncoder, seed: int = 0) -> torch.nn.Module:
    return encoder.convolution(INPUTS, OUTPUTS, torch.Generator().manual_seed(seed))
