"""Aggregates of edges, by hand."""

from dataclasses import replace

import numpy as np

from fedgraft.domains.edge_data.edge_rows import both_ways
from fedgraft.domains.nodes.base.shards import cut
from fedgraft.domains.nodes.training.boosted import edge_aggregates
from helpers.toy_nodes import whole

TRANSFERS = np.array([[0, 0, 2], [1, 1, 1]])
"""Two transfers from 0 to 1, and one from 2 to 1."""
AMOUNTS = np.array([[1], [5], [6]], np.float32)
NONE = [0, 0, 0, *[np.nan] * 4]
"""Of no edge: how many, others, sum; mean, least, largest, spread."""


def paid(directed: bool = True):
    pointers, senders, rows = both_ways(TRANSFERS, AMOUNTS, 3, directed)
    return replace(whole([(0, 1)], [0, 1, 0]), pointers=pointers, senders=senders, edge_rows=rows)


def test_each_direction_has_its_figures() -> None:
    of_two, one = [2, 1, 6, 3, 1, 5, 2], [1, 1, 6, 6, 6, 6, 0]
    into = [3, 2, 12, 4, 1, 6, np.sqrt(14 / 3)]
    expected = [[*NONE, *of_two], [*into, *NONE], [*NONE, *one]]
    np.testing.assert_allclose(edge_aggregates(paid()), expected)


def test_without_direction_all_come_in_and_without_columns_they_are_counted() -> None:
    graph = paid(directed=False)
    assert edge_aggregates(graph)[:, :2].tolist() == [[2, 1], [3, 2], [1, 1]]
    assert edge_aggregates(graph).shape == (3, 7)
    assert edge_aggregates(replace(graph, edge_rows=None)).tolist() == [[2, 1], [3, 2], [1, 1]]


def test_edges_to_nodes_of_others_are_known_at_both_ends() -> None:
    graph = paid()
    shards = cut(graph, np.array([0, 1, 1]), ("a", "b"))
    np.testing.assert_array_equal(np.vstack([edge_aggregates(each) for each in shards]), edge_aggregates(graph))
