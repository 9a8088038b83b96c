"""Edges that carry columns and a direction: stored at both ends, cut over clients and put together again."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft.domains.edge_data.edge_rows import EdgeRows, both_ways
from fedgraft.domains.nodes.base.partitions import apart, thin
from fedgraft.domains.nodes.base.shards import WholeGraph, cut, each_once, merge_shards
from fedgraft.domains.nodes.training.halo_setup import inside
from fedgraft.domains.nodes.training.neighbour_sampling import Neighbourhoods, Reach
from fedgraft.domains.nodes.training.neighbour_sums import Neighbours
from fedgraft.domains.nodes.training.smoothed_inputs import Within
from fedgraft.errors import InputError
from helpers.toy_nodes import whole

TRANSFERS = np.array([[0, 0, 1, 2, 3, 1], [1, 1, 0, 3, 0, 2]])
"""Two transfers from 0 to 1, one back, 2 to 3, 3 to 0, 1 to 2."""
AMOUNTS = np.array([[10], [20], [30], [40], [50], [60]], np.float32)
OWNER = np.array([0, 0, 1, 1])


def transfers(is_directed: bool = True) -> WholeGraph:
    pointers, senders, rows = both_ways(TRANSFERS, AMOUNTS, 4, is_directed)
    return replace(whole([(0, 1)], [0, 1, 0, 1]), pointers=pointers, senders=senders, edge_rows=rows)


def listed(graph) -> set[tuple[str, str, float, bool, int]]:
    """All stored edges: receiver, sender, amount, whether it goes along, its number."""
    receiver = np.repeat(np.arange(len(graph.label)), graph.degree)
    rows = graph.edge_rows
    return {
        (graph.ids[to], graph.ids[by], amount, along, number)
        for to, by, (amount,), along, number in zip(
            receiver, graph.senders, rows.values.tolist(), rows.along.tolist(), rows.number.tolist(), strict=True
        )
    }


def test_an_edge_is_stored_at_both_ends_and_repeats_stay() -> None:
    graph = transfers()
    # Node 0 hears from 1 backwards of what it sent, twice, and forwards of what 1 sent; and from 3.
    assert graph.senders[:4].tolist() == [1, 1, 1, 3]
    assert graph.edge_rows.values[:4, 0].tolist() == [10, 20, 30, 50]
    assert graph.edge_rows.along[:4].tolist() == [False, False, True, True]
    assert graph.degree.tolist() == [4, 4, 2, 2]
    assert transfers(False).edge_rows.along.all()


def test_both_clients_of_an_edge_know_what_it_carries() -> None:
    a, b = cut(transfers(), OWNER, ("a", "b"))
    assert (a.edge_width, len(a.edge_rows), len(b.edge_rows)) == (1, 8, 4)
    # Node 2, b's first, hears forwards from a's node 1, and backwards from its own neighbour 3.
    assert b.edge_rows.take(b.senders >= b.own).number.tolist() == [5, 4]
    assert b.edge_rows.take(b.senders >= b.own).along.tolist() == [True, False]
    assert listed(merge_shards([a, b])) == listed(transfers())


def test_edges_that_are_left_out_take_what_they_carry_along() -> None:
    a, _ = cut(transfers(), OWNER, ("a", "b"))
    assert inside(a).edge_rows.number.tolist() == [0, 1, 2, 0, 1, 2]
    assert set(apart(transfers(), OWNER).edge_rows.number.tolist()) == {0, 1, 2, 3}
    half = thin(transfers(), 0.5, np.random.default_rng(0)).edge_rows
    assert len(half) == 6, "three edges, each at both ends"
    assert sorted(half.number.tolist()) == sorted([*np.unique(half.number), *np.unique(half.number)])


def test_a_layer_reads_edges_in_the_order_of_its_matrix() -> None:
    shard = merge_shards(cut(transfers(), OWNER, ("a", "b")))
    reach = Reach([np.ones(4, bool)], (0,), True)
    (hop,) = Neighbourhoods(shard).around(np.array([1, 0]), 1, reach)
    senders, receivers = (each.tolist() for each in hop.block.edge_index)
    nodes = np.concatenate([hop.fresh, hop.stored])
    told = hop.block.edges
    found = [
        (hop.receivers[to], nodes[by], amount, along)
        for by, to, (amount,), along in zip(senders, receivers, told.values.tolist(), told.along.tolist(), strict=True)
    ]
    assert found[:4] == [(1, 0, 10.0, True), (1, 0, 20.0, True), (1, 0, 30.0, False), (1, 2, 60.0, False)]
    assert found[4:] == [(0, 1, 10.0, False), (0, 1, 20.0, False), (0, 1, 30.0, True), (0, 3, 50.0, True)]


def test_who_is_joined_to_whom_counts_a_neighbour_once() -> None:
    a, b = cut(transfers(), np.array([0, 1, 0, 0]), ("a", "b"))
    once = each_once(a)
    # Of the nodes 0, 2 and 3; node 1, b's, is 3 here.
    assert once.pointers.tolist() == [0, 2, 4, 6]
    assert once.senders.tolist() == [2, 3, 2, 3, 0, 1]
    assert once.edge_rows is None
    assert each_once(once) is once
    assert Neighbours(a).boundary.counts.tolist() == [1, 1]
    assert Neighbours(b).boundary.place.tolist() == [0, 1]
    within = Within.of(merge_shards([a, b]))
    assert within.edges.data.tolist() == [1] * 8
    assert within.degree.tolist() == [2, 2, 2, 2]


def test_rows_that_do_not_fit() -> None:
    graph = transfers()
    with pytest.raises(InputError, match="edge_rows of"):
        replace(graph, edge_rows=graph.edge_rows.take(np.arange(3)))
    with pytest.raises(InputError, match=r"EdgeRows.number must be of shape \(2,\); got \(1,\)"):
        EdgeRows(np.zeros((2, 1), np.float32), np.ones(2, bool), np.zeros(1, np.int64))
