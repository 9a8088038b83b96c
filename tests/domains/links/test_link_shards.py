"""Which edges are held out, and against which pairs without an edge they are scored."""

import numpy as np
import pytest

from fedgraft.domains.links.shards import FEWEST, LinkShard, codes_of, hold_out, merge_links, whole
from fedgraft.domains.nodes.base.shards import cut
from fedgraft.errors import InputError
from helpers import toy_nodes

RINGS = [(v, (v + 1) % 30) for v in range(30)] + [(v, (v + 7) % 30) for v in range(30)]
"""Sixty edges among thirty nodes."""


def part(edges=RINGS, nodes=30, clients=1):
    """One client's part of a graph; with several, nodes are dealt in blocks."""
    graph = toy_nodes.whole(edges, label=[0] * nodes)
    return cut(graph, np.arange(nodes) * clients // nodes, [f"client {k}" for k in range(clients)])


def pairs_of(shard, split, edge):
    kept = (shard.split == split) & (shard.edge == edge)
    return {tuple(pair) for pair in shard.pairs[:, kept].T.tolist()}


def test_worked_example():
    (ring,) = part(toy_nodes.RING, nodes=5)
    found = hold_out(ring, 0.2, 0.2, np.random.default_rng(0))
    every = {(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)}
    validation, test = pairs_of(found, 1, True), pairs_of(found, 2, True)
    train = {tuple(edge) for edge in found.edges.T.tolist()}
    assert (len(train), len(validation), len(test)) == (3, 1, 1)
    assert train | validation | test == every
    # Five pairs of five nodes have no edge: all of them take part, each in one split.
    assert pairs_of(found, 1, False) | pairs_of(found, 2, False) == {(0, 2), (0, 3), (1, 3), (1, 4), (2, 4)}
    assert len(found.split) == 7
    assert found.graph.degree.sum() == 6


def test_shares_are_kept_and_no_held_out_edge_carries_messages():
    (shard,) = part()
    found = hold_out(shard, 0.1, 0.2, np.random.default_rng(1))
    assert [len(pairs_of(found, split, True)) for split in (1, 2)] == [6, 12]
    assert [len(pairs_of(found, split, False)) for split in (1, 2)] == [FEWEST, FEWEST]
    known, held = codes_of(shard_edges(shard), 30), codes_of(found.pairs[:, found.edge], 30)
    assert not np.isin(codes_of(found.edges, 30), held).any()
    assert np.isin(held, known).all()
    assert not np.isin(codes_of(found.pairs[:, ~found.edge], 30), known).any()
    assert len(np.unique(codes_of(found.pairs, 30))) == found.pairs.shape[1]
    assert (found.pairs[0] < found.pairs[1]).all()


def shard_edges(shard):
    return whole(shard).edges


def test_one_generator_holds_out_one_set_of_edges():
    (shard,) = part()
    one, same, other = (hold_out(shard, 0.1, 0.1, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.pairs, same.pairs)
    assert not np.array_equal(one.pairs, other.pairs)


def test_a_large_graph_draws_its_pairs_without_looking_at_all():
    g = np.random.default_rng(0)
    (shard,) = part(g.integers(0, 3000, (4000, 2)).tolist(), nodes=3000)
    found = hold_out(shard, 0.1, 0.1, np.random.default_rng(1))
    codes = codes_of(found.pairs[:, ~found.edge], 3000)
    assert len(np.unique(codes)) == len(codes) == found.edge.sum()
    assert not np.isin(codes, codes_of(shard_edges(shard), 3000)).any()


def test_edges_between_clients_have_no_part():
    shards = part(clients=2)
    assert all(shard.halo for shard in shards)
    for shard in shards:
        found = hold_out(shard, 0.1, 0.1, np.random.default_rng(0))
        inside = (shard.senders < shard.own).sum() // 2
        assert (found.graph.halo, found.edges.shape[1] + found.edge.sum()) == (0, inside)


@pytest.mark.parametrize("edges", [[], [(0, 1)], [(0, 1), (1, 2)]])
def test_of_fewer_than_three_edges_none_is_held_out(edges):
    (shard,) = part(edges, nodes=4)
    found = hold_out(shard, 0.1, 0.1, np.random.default_rng(0))
    assert (found.edges.shape[1], len(found.split)) == (len(edges), 0)


@pytest.mark.parametrize("shares", [(0.1, 0.1), (0.01, 0.98), (0.5, 0.49)])
def test_of_three_edges_each_split_has_one(shares):
    (shard,) = part([(0, 1), (1, 2), (2, 3)], nodes=4)
    found = hold_out(shard, *shares, np.random.default_rng(0))
    assert (found.edges.shape[1], [len(pairs_of(found, split, True)) for split in (1, 2)]) == (1, [1, 1])


def test_a_complete_graph_has_no_pair_to_be_ranked_against():
    (shard,) = part([(a, b) for a in range(5) for b in range(a)], nodes=5)
    found = hold_out(shard, 0.2, 0.2, np.random.default_rng(0))
    assert (found.edge.all(), found.rankings("test"), found.rows("test").tolist()) == (True, [], [])


def test_rows_are_the_edges_that_a_score_is_the_mean_over():
    shards = [hold_out(shard, 0.2, 0.1, np.random.default_rng(0)) for shard in part(clients=2)]
    both = merge_links(shards)
    for split, number in (("validation", 1), ("test", 2)):
        rows = both.rows(split)
        assert both.edge[rows].all()
        assert (both.split[rows] == number).all()
        assert (
            len(rows) == sum(len(shard.rows(split)) for shard in shards) == (both.edge & (both.split == number)).sum()
        )


def test_clients_in_one_place_keep_their_pairs_and_are_ranked_apart():
    shards = [hold_out(shard, 0.2, 0.2, np.random.default_rng(0)) for shard in part(clients=2)]
    both = merge_links(shards)
    assert both.edges.shape[1] == sum(shard.edges.shape[1] for shard in shards)
    first, second = both.rankings("test")
    assert [len(first), len(second)] == [len(shard.rankings("test")[0]) for shard in shards]
    for shard, places in zip(shards, (first, second), strict=True):
        (mine,) = shard.rankings("test")
        assert np.array_equal(both.graph.ids[both.pairs[:, places]], shard.graph.ids[shard.pairs[:, mine]])
    three = merge_links([both, shards[0]])
    assert len(three.rankings("test")) == 3


def test_pairs_of_nodes_that_are_not_there_are_refused():
    (shard,) = part(toy_nodes.RING, nodes=5)
    none = np.zeros(1, np.int32)
    with pytest.raises(InputError, match=r"LinkShard\.pairs of client 0 must be 0\.\.4, own nodes; got 5\."):
        LinkShard(shard, np.array([[0], [5]], np.int32), none.astype(np.int8), none.astype(bool), none)
    with pytest.raises(InputError, match=r"LinkShard\.edge of client 0 must be of shape \(1,\); got \(0,\)\."):
        LinkShard(shard, np.array([[0], [1]], np.int32), none.astype(np.int8), none[:0].astype(bool), none)
