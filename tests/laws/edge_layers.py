"""Laws of encoders whose convolutions read what edges carry."""

import dataclasses
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts.encoder import EdgeLayeredEncoder
from fedgraft.nn.propagate import Block, EdgeValues, Sparse
from fedgraft.testing.encoders import EDGES, INPUTS, NODES, OUTPUTS, features, graph_of
from fedgraft.testing.laws import Laws, expect

EDGE_WIDTH = 2

LAWS: Laws[EdgeLayeredEncoder] = Laws()


@LAWS.having(EdgeLayeredEncoder)
def what_edges_carry_and_their_direction_matter(encoder: EdgeLayeredEncoder) -> None:
    """Move every node with edges where these carry other numbers, or go the other way; no other node.

    Of what the encoder does not read nothing may matter.
    """
    module = encoder.edge_convolution(INPUTS, OUTPUTS, EDGE_WIDTH, torch.Generator().manual_seed(0))
    graph = graph_of(EDGES)
    along = cast(EdgeValues, graph.edges).along
    values = torch.randn(len(along), EDGE_WIDTH, generator=torch.Generator().manual_seed(4))
    told, others, turned = (
        module(features(), dataclasses.replace(graph, edges=EdgeValues(*carried)))
        for carried in ((values, along), (values + 1, along), (values, ~along))
    )
    reads = "columns" in encoder.reads(INPUTS, EDGE_WIDTH), encoder.reads_direction
    matters = [(graph.degree > 0) & each for each in reads]
    whats = "numbers that edges carry", "the edges' direction"
    for what, states, where in zip(whats, (others, turned), matters, strict=True):
        moved = (states - told).abs().amax(1)
        expect((moved[where] > 1e-6).all(), f"{what} must matter to nodes with edges", moved)
        expect((moved[~where] == 0).all(), f"{what} must not matter to other nodes, or if not read", moved)


@LAWS.having(EdgeLayeredEncoder)
def the_order_of_edges_does_not_matter_and_repeats_count(encoder: EdgeLayeredEncoder) -> None:
    """Make the same of edges of the same two nodes in any order, and something else of one of them less."""
    module = encoder.edge_convolution(INPUTS, OUTPUTS, EDGE_WIDTH, torch.Generator().manual_seed(0))
    values = torch.randn(len(EDGES) + 1, EDGE_WIDTH, generator=torch.Generator().manual_seed(4))
    repeats = np.concatenate([EDGES, EDGES[:1]])
    states, again, once = (
        module(features(), listed(repeats[order], values[order]))
        for order in (np.arange(len(repeats)), np.arange(len(repeats))[::-1].copy(), np.arange(len(EDGES)))
    )
    torch.testing.assert_close(again, states, rtol=1e-4, atol=1e-5)
    if "columns" in encoder.reads(INPUTS, EDGE_WIDTH):
        moved = (once - states).abs().amax(1)
        expect((moved[EDGES[0]] > 1e-6).all(), f"a second edge must matter to its ends, {EDGES[0].tolist()}", moved)


@LAWS.having(EdgeLayeredEncoder)
def weights_of_edges_count_where_they_are_read(encoder: EdgeLayeredEncoder) -> None:
    """Take an edge of weight 2 as the edge twice, and a weight of 1 as none."""
    if "weights" not in encoder.reads(INPUTS, EDGE_WIDTH):
        return
    module = encoder.edge_convolution(INPUTS, OUTPUTS, EDGE_WIDTH, torch.Generator().manual_seed(0))
    values = torch.randn(len(EDGES), EDGE_WIDTH, generator=torch.Generator().manual_seed(4))
    twice = module(features(), listed(np.repeat(EDGES, 2, 0), values.repeat_interleave(2, 0)))
    double = module(features(), listed(EDGES, values, 2.0))
    torch.testing.assert_close(double, twice, rtol=1e-4, atol=1e-5)
    one, none = (module(features(), listed(EDGES, values, each)) for each in (1.0, None))
    expect(torch.equal(one, none), "a weight of 1 must change no bit", one - none)


@LAWS.having(EdgeLayeredEncoder)
def a_block_that_was_moved_is_another_one_and_gives_the_same(encoder: EdgeLayeredEncoder) -> None:
    """Remember nothing of a block that its `to` does not take along."""
    module = encoder.edge_convolution(INPUTS, OUTPUTS, EDGE_WIDTH, torch.Generator().manual_seed(0))
    values = torch.randn(len(EDGES), EDGE_WIDTH, generator=torch.Generator().manual_seed(4))
    block = listed(EDGES, values, 2.0)
    states = module(features(), block)
    moved = module(features(), block.to("cpu"))
    expect(torch.equal(moved, states), "a block that was moved must give the same", moved - states)
    if torch.cuda.is_available():
        there = module.to("cuda")(features().to("cuda"), block.to("cuda"))
        torch.testing.assert_close(there.cpu(), states, rtol=1e-4, atol=1e-5)


@LAWS.having(EdgeLayeredEncoder)
def gradients_reach_what_maps_columns(encoder: EdgeLayeredEncoder) -> None:
    """Let every parameter of a convolution for edges with columns learn."""
    module = encoder.edge_convolution(INPUTS, OUTPUTS, EDGE_WIDTH, torch.Generator().manual_seed(0))
    values = torch.randn(len(EDGES), EDGE_WIDTH, generator=torch.Generator().manual_seed(4))
    module(features(), listed(EDGES, values)).square().sum().backward()
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
