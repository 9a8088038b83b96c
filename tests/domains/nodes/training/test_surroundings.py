"""What a whole network is called on for a batch of nodes."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn import GraphSAGE

from fedgraft.domains.nodes.training.neighbour_sampling import Reach, Surroundings
from fedgraft.nn.whole_networks import WholeNetwork, tried
from helpers.toy_nodes import shard_of

PATH = shard_of(4, [*pairwise(range(4)), (1, 4), (3, 4)], halo=1)
"""0 - 1 - 2 - 3, and 4, which is elsewhere, beside 1 and 3."""


def asked(shard, targets, hops, most=0, seed=0, known=None):
    known = np.ones(shard.own + shard.halo, bool) if known is None else np.array(known)
    (hop,) = Surroundings(shard, known, hops).around(np.array(targets), 1, Reach([known], (most,), True, seed))
    return hop


def edges_of(hop):
    """{(sender, receiver): how often it counts}, by the shard's numbers."""
    nodes = np.concatenate([hop.fresh, hop.stored])
    sender, receiver = (nodes[ends.numpy()].tolist() for ends in hop.block.edge_index)
    return dict(zip(zip(sender, receiver, strict=True), hop.block.edge_weight.tolist(), strict=True))


def test_two_hops_by_hand():
    hop = asked(PATH, [0], 2)
    assert (hop.receivers.tolist(), hop.fresh.tolist(), hop.stored.tolist()) == ([0], [0, 1, 2], [4])
    assert edges_of(hop) == {(1, 0): 1, (0, 1): 1, (2, 1): 1, (4, 1): 1}


def test_a_node_elsewhere_receives_from_own_nodes():
    hop = asked(PATH, [0], 3)
    assert hop.fresh.tolist() == [0, 1, 2, 3]
    assert {edge for edge in edges_of(hop) if edge[1] == 4} == {(1, 4), (3, 4)}


def test_a_node_of_which_nothing_is_known_is_left_out():
    assert not any(4 in edge for edge in edges_of(asked(PATH, [0, 1, 2, 3], 3, known=[True] * 4 + [False])))


def test_a_network_that_looks_at_nobody_gets_no_edge():
    hop = asked(PATH, [2, 0], 0)
    assert (hop.fresh.tolist(), edges_of(hop)) == ([2, 0], {})


def test_of_many_neighbours_some_are_drawn_and_count_for_the_others():
    star = shard_of(9, [(0, k) for k in range(1, 9)])
    drawn = [edges_of(asked(star, [0], 1, most=2, seed=seed)) for seed in range(5)]
    assert all(len(edges) == 2 and set(edges.values()) == {4.0} for edges in drawn)
    assert len({tuple(edges) for edges in drawn}) > 1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 11)), min_size=4, max_size=30), st.integers(0, 99))
@pytest.mark.parametrize("layers", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_batch_is_told_what_it_is_told_among_all(layers, edges, seed):
    shard, g = shard_of(8, [(0, 1), *edges], halo=4), torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = GraphSAGE(3, 4, layers)
        whole = WholeNetwork(network, tried(network, 3, "model")).eval()
    x = torch.randn(12, 3, generator=g)

    def told(nodes):
        hop = asked(shard, nodes, layers)
        return whole(x[np.concatenate([hop.fresh, hop.stored])], hop.block)

    torch.testing.assert_close(told([5, 2]), told(range(8))[[5, 2]], rtol=1e-4, atol=1e-5)
