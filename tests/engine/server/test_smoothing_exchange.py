"""How the server joins what clients tell of edges to nodes of others, and averages over them."""

import numpy as np

from fedgraft.contracts.abilities.smoothing import Boundary
from fedgraft.domains.nodes.training.neighbour_sums import Neighbours
from fedgraft.engine.server.smoothing import CrossClientEdges
from helpers.node_runs import small


def boundary(own, *edges):
    """A boundary from (own node, owner, place), sorted."""
    nodes, counts = np.unique([edge[0] for edge in edges], return_counts=True)
    owner, place = (np.array([edge[part] for edge in edges], np.int64) for part in (1, 2))
    return Boundary(own, nodes.astype(np.int64), counts, owner, place)


def test_means_by_hand():
    """Node 1 of client 0 is joined to both nodes of client 1."""
    joined = CrossClientEdges.of({0: boundary(3, (1, 1, 0), (1, 1, 1)), 1: boundary(2, (0, 0, 1), (1, 0, 1))}, 2)
    assert joined.sizes.tolist() == [1, 2]
    rows = np.array([[10], [20], [40]], np.int8)
    means, known = joined.means(rows, np.ones(3, bool))
    assert means.tolist() == [[30], [10], [10]]
    assert known.all()
    means, known = joined.means(rows, np.array([True, True, False]))
    assert means.tolist() == [[20], [10], [10]]
    means, known = joined.means(rows, np.array([True, False, False]))
    assert known.tolist() == [False, True, True]


def test_an_edge_that_one_end_alone_tells_of_does_not_count():
    """Client 1 claims to be joined to a node that does not say so, to one that is not there, and to nobody's."""
    liar = boundary(2, (0, 0, 1), (1, 0, 2), (1, 0, 99), (1, 7, 0))
    joined = CrossClientEdges.of({0: boundary(3, (1, 1, 0)), 1: liar}, 3)
    means, known = joined.means(np.array([[10], [20], [30]], np.int8), np.ones(3, bool))
    assert means.tolist() == [[20], [10], [0]]
    assert known.tolist() == [True, True, False]


def test_clients_that_did_not_tell_have_no_rows():
    joined = CrossClientEdges.of({0: boundary(3, (1, 2, 0)), 2: boundary(1, (0, 0, 1))}, 4)
    assert joined.own.tolist() == [3, 0, 1, 0]
    assert joined.senders.tolist() == [1, 0]


def test_nobody_may_have_told():
    joined = CrossClientEdges.of({}, 3)
    assert joined.fits(3)
    assert (joined.own.tolist(), len(joined.senders)) == ([0, 0, 0], 0)


def test_every_cut_edge_of_a_graph_is_found():
    _, shards = small(recipe="fedlocal")
    boundaries = {client: Neighbours(shard).boundary for client, shard in enumerate(shards)}
    joined = CrossClientEdges.of(boundaries, len(shards))
    assert len(joined.senders) == sum((shard.senders >= shard.own).sum() for shard in shards)
