"""Whole networks: what trying one shows, and what is refused."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GCN, GIN, GraphSAGE

from fedgraft.errors import InputError
from fedgraft.nn.propagate import Sparse
from fedgraft.nn.whole_networks import FARTHEST, Subgraph, Tried, WholeNetwork, tried, width_taken
from helpers import networks


def lazy():
    return GraphSAGE(-1, 8, 2)


def frozen():
    network = networks.Two(3)
    network.first.lin_l.weight.requires_grad_(False)
    return network


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (GraphSAGE(3, 8, 2), Tried(8, 2, False, frozenset({"batch"}))),
        (GraphSAGE(3, 8, 3, 5), Tried(5, 3, False, frozenset({"batch"}))),
        (GCN(3, 8, 2, jk="cat"), Tried(8, 2, False, frozenset({"batch", "edge_weight"}), frozenset({"weights"}))),
        (GIN(3, 8, 2, norm="graph_norm"), Tried(8, FARTHEST, False, frozenset({"batch"}))),
        (networks.Pooling(3), Tried(8, FARTHEST, True, frozenset({"batch"}))),
        (networks.made(3, 2), Tried(3, 0, False, frozenset())),
    ],
)
def test_trying_a_network_shows_what_it_does_and_leaves_it_as_it_was(network, expected):
    torch.manual_seed(1)
    before = copy.deepcopy(network.state_dict())
    assert tried(network, 3, "model") == expected
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in before.items())
    assert network.training


def test_a_network_that_begins_with_zeros_is_seen_through():
    network = networks.Two(3)
    nn.init.zeros_(network.second.lin_l.weight)
    assert tried(network, 3, "model").reach == 2


def test_features_of_edges_are_given_where_there_are_any():
    assert tried(networks.Attending(3, edge_dim=2), 3, "model", edge_width=2).takes == {"edge_attr"}
    with pytest.raises(InputError, match=r"^model needs 'edge_attr', and edges have no features in this task\.$"):
        tried(networks.Attending(3, edge_dim=2), 3, "model")


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (networks.Two(4), r"cannot be called as module\(x, edge_index\) with x float32 \[nodes, 3\].*: RuntimeError"),
        (networks.Timed(3), r"^model needs 'times'; a network is called as module\(x, edge_index\), with edge_weight"),
        (networks.Pair(3), r"^model must give \[nodes, width\] .* got tuple for 19 nodes in 2 graphs"),
        (nn.Identity(), r"cannot be called as module\(x, edge_index\).*TypeError"),
        (lazy(), r"convs\.0\.lin_l\.weight has no shape yet"),
        (networks.Two(3).double(), r"first\.lin_l\.weight must be float32; got torch\.float64"),
        (frozen(), r"first\.lin_l\.weight has requires_grad = False"),
    ],
)
def test_what_is_no_network_is_refused(network, said):
    with pytest.raises(InputError, match=said):
        tried(network, 3, "model")


def test_the_width_that_a_network_takes_is_found():
    assert width_taken(GraphSAGE(5, 8, 2), "model") == 5
    assert width_taken(networks.Pooling(7), "model") == 7
    with pytest.raises(InputError, match=r"takes nodes' states of no width that its weights have: it has no weights"):
        width_taken(networks.made(3, layers=0), "model")


def block_of(edges, nodes, graph, graphs, times=None):
    row, column = np.array(sorted((b, a) for a, b in edges)).T
    times = np.ones(len(row), np.float32) if times is None else np.array(times, np.float32)
    degree = torch.zeros(nodes)
    matrix = Sparse(row, column, times, (nodes, nodes), small=0)
    return Subgraph(matrix, torch.arange(nodes), degree, degree, graph=torch.tensor(graph), graphs=torch.tensor(graphs))


def test_graphs_that_are_asked_for_come_in_that_order_and_as_often():
    network = networks.Pooling(3)
    both = WholeNetwork(network, tried(network, 3, "model")).eval()
    x, edges = torch.randn(5, 3), [(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)]
    found = both(x, block_of(edges, 5, [4, 4, 4, 9, 9], [9, 4, 9]))
    alone = both(x[3:], block_of([(0, 1), (1, 0)], 2, [9, 9], [9]))
    torch.testing.assert_close(found, torch.cat([alone, both(x[:3], block_of(edges[:4], 3, [4, 4, 4], [4])), alone]))


def test_an_edge_that_counts_twice_is_given_twice_or_weighs_two():
    x, edges = torch.randn(3, 3), [(0, 1), (2, 1)]
    once, twice = block_of(edges, 3, [0, 0, 0], [0]), block_of(edges, 3, [0, 0, 0], [0], [2.0, 1.0])
    for network in (GCN(3, 4, 1), GIN(3, 4, 1)):
        whole = WholeNetwork(network, tried(network, 3, "model")).eval()
        repeated = network.eval()(x, torch.tensor([[0, 0, 2], [1, 1, 1]]))
        torch.testing.assert_close(whole(x, twice), repeated)
        assert not torch.allclose(whole(x, once), repeated)
