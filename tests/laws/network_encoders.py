"""Laws of encoders that are whole networks, on a path of nodes and one node alone."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedgraft.contracts.encoder import NetworkEncoder
from fedgraft.nn.propagate import Sparse
from fedgraft.nn.whole_networks import Subgraph
from fedgraft.testing.laws import Laws, expect

PATH, INPUTS = 20, 5
"""Nodes in a row, more than a network is tried over; the node behind them has no edge."""

LAWS: Laws[NetworkEncoder] = Laws()


@LAWS.having(NetworkEncoder)
def gives_every_node_a_finite_state_of_its_width(encoder: NetworkEncoder) -> None:
    """Return float32 [nodes, width]; or, of a network that pools, [graphs, width]."""
    network = _drawn(encoder)
    states, rows = network(_features(_width(encoder)), _block()), 1 if network.pools else PATH + 1
    expect(states.shape == (rows, network.width), f"states must be [{rows}, {network.width}]", states.shape)
    expect(states.dtype == torch.float32, "states must be float32", states.dtype)
    expect(torch.isfinite(states).all(), "states must be finite", states)


@LAWS.having(NetworkEncoder)
def gives_the_nodes_that_are_asked_for(encoder: NetworkEncoder) -> None:
    """Return the same states of some nodes as of all."""
    network = _drawn(encoder)
    if not network.pools:
        states = network(_features(_width(encoder)), _block(targets=4))
        torch.testing.assert_close(states, network(_features(_width(encoder)), _block())[:4], rtol=1e-4, atol=1e-5)


@LAWS.having(NetworkEncoder)
def looks_as_far_as_it_says(encoder: NetworkEncoder) -> None:
    """Let a node as far away as `reach` move a node's state, and nobody farther."""
    network, reach = _drawn(encoder), encoder.reach(_width(encoder))
    expect(reach >= 0, "reach must be >= 0", reach)
    if network.pools or reach >= PATH - 1:
        return
    before = network(_features(_width(encoder)), _block())[0]
    for node, matters in ((reach, True), (reach + 1, False)):
        moved = float((network(_features(_width(encoder), node), _block())[0] - before).abs().max().detach())
        expect((moved > 0) == matters, f"a node {node} edges away must {'' if matters else 'not '}matter", moved)


@LAWS.having(NetworkEncoder)
def gradients_reach_every_parameter(encoder: NetworkEncoder) -> None:
    """Let every parameter learn."""
    network = _drawn(encoder)
    network(_features(_width(encoder)), _block()).square().sum().backward()
    for name, parameter in network.named_parameters():
        expect(parameter.grad is not None, "every parameter must have a gradient", name)
        if parameter.grad is not None:
            expect(torch.isfinite(parameter.grad).all(), "gradients must be finite", name, parameter.grad)


@LAWS.having(NetworkEncoder)
def equal_generators_draw_equal_networks_and_touch_no_global_one(encoder: NetworkEncoder) -> None:
    """Draw a network from the given generator and from nothing else."""
    before = torch.get_rng_state()
    first, again = (encoder.network(_width(encoder), torch.Generator().manual_seed(1)).state_dict() for _ in range(2))
    untouched = torch.equal(before, torch.get_rng_state())
    expect(untouched, "only the given generator may be drawn from", "a change of torch's own")
    expect(list(first) == list(again), "names must not depend on chance", list(again))
    expect(all(torch.equal(first[name], again[name]) for name in first), "equal seeds must draw equal networks", again)


def _width(encoder: NetworkEncoder) -> int:
    return encoder.inputs or INPUTS


def _drawn(encoder: NetworkEncoder) -> Any:
    return encoder.network(_width(encoder), torch.Generator().manual_seed(0)).eval()


def _features(width: int, moved: int | None = None) -> Tensor:
    x = torch.randn(PATH + 1, width, generator=torch.Generator().manual_seed(1))
    if moved is not None:
        x[moved] += 1.0
    return x


def _block(targets: int = PATH + 1) -> Subgraph:
    row = np.arange(PATH - 1)
    ends = np.concatenate([row, row + 1]), np.concatenate([row + 1, row])
    order = np.lexsort(ends[::-1])
    nodes = PATH + 1
    matrix = Sparse(ends[0][order], ends[1][order], np.ones(len(order), np.float32), (nodes, nodes), small=0)
    degree = torch.from_numpy(np.bincount(ends[0], minlength=nodes).astype(np.float32))
    graph = torch.zeros(nodes, dtype=torch.int64)
    return Subgraph(matrix, torch.arange(targets), degree[:targets], degree, graph=graph, graphs=graph[:1])
