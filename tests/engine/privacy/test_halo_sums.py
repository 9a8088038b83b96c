"""Rows of nodes that are added up over clients: what each adds comes to what the server's means are of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.contracts.abilities.smoothing import STEPS, Boundary
from fedgraft.engine.privacy.halo_sums import (
    COUNTS,
    DEGREES,
    MOST_CODES,
    PLACES,
    at_places,
    bits_of,
    check_places,
    placed,
)
from fedgraft.engine.server.smoothing import CrossClientEdges
from fedgraft.errors import BeyondLimitError, ClientError


def boundaries(edges, owners, weights=None):
    """{client: boundary} of undirected edges between nodes of given owners; nodes count from 0 at each."""
    place = [owners[:node].count(owners[node]) for node in range(len(owners))]
    found = {}
    for client in sorted(set(owners)):
        ends = [pair for edge in edges for pair in (edge, edge[::-1]) if owners[pair[0]] == client]
        ends = sorted((place[one], owners[other], place[other], one, other) for one, other in ends)
        nodes, counts = np.unique([each[0] for each in ends], return_counts=True)
        weight = None
        if weights is not None:
            weight = np.array([weights[frozenset(each[3:])] for each in ends], np.float32)
        owner, at = (np.array([each[part] for each in ends], np.int64) for part in (1, 2))
        found[client] = Boundary(owners.count(client), nodes.astype(np.int64), counts, owner, at, weight)
    return found


def added(joined, rows, clients):
    """The sum of what clients add, int64 [rows, width]."""
    parts = []
    for client in clients:
        told = placed(joined.whole, joined.of_client(client))
        mine = rows[joined.of_client(client)]
        check_places(told, len(rows), joined.whole.sum(), *mine.shape)
        parts.append(at_places(told, len(rows), mine))
    return sum(parts, np.zeros(rows.shape, np.int64))


def test_a_sum_by_hand():
    """Node 0 of client 0 is joined to both nodes of client 1, and the second of these to client 2's."""
    joined = CrossClientEdges.of(boundaries([(0, 1), (0, 2), (2, 3)], [0, 1, 1, 2]), 3)
    rows = np.array([[10], [20], [40], [-7]], np.int8)
    assert added(joined, rows, range(3)).tolist() == [[60], [10], [3], [40]]
    assert added(joined, rows, [0, 2]).tolist() == [[0], [10], [3], [0]]
    told = placed(joined.whole, joined.of_client(1))
    assert {name: array.tolist() for name, array in told.items()} == {DEGREES: [1, 2], PLACES: [0, 0, 3], COUNTS: []}


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_sums_over_those_who_are_there_are_what_means_are_of(seed, weighted):
    g = np.random.default_rng(seed)
    owners = sorted(g.integers(0, 4, 12).tolist())
    pairs = {frozenset(pair) for pair in g.integers(0, 12, (20, 2)).tolist() if owners[pair[0]] != owners[pair[1]]}
    edges = [tuple(sorted(pair)) for pair in pairs]
    weights = {pair: float(g.choice([0.5, 1.0, 2.0])) for pair in pairs} if weighted else None
    joined = CrossClientEdges.of(boundaries(edges, owners, weights), 4)
    rows = g.integers(-127, 128, (int(joined.sizes.sum()), 2)).astype(np.int8)
    there = [client for client in range(4) if g.random() < 0.8]
    known = np.zeros(len(rows), bool)
    for client in there:
        known[joined.of_client(client)] = True
    means, has = joined.means(rows, known)
    total, count = added(joined, rows, there), joined.whole @ known.astype(np.int64)
    assert (has == (count > 0)).all()
    np.testing.assert_allclose(total / np.maximum(count, 1)[:, None], means, atol=1.5 if weighted else 1e-9)
    most = int((joined.whole @ np.ones(len(rows), np.int64)).max(initial=0))
    assert np.abs(total).max(initial=0) <= STEPS * most < 2 ** (bits_of(most) - 1)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"rows": MOST_CODES}, BeyondLimitError),
        ({"rows": 1.5}, BeyondLimitError),
        ({"rows": float("nan")}, BeyondLimitError),
        ({"most": 2.0**26}, BeyondLimitError),
        ({"most": -1.0}, BeyondLimitError),
        ({"nodes": 2}, ClientError),
        ({DEGREES: np.array([3], np.uint32)}, ClientError),
        ({PLACES: np.array([0, 4], np.uint32)}, ClientError),
        ({COUNTS: np.array([1], np.uint8)}, ClientError),
    ],
)
def test_sums_that_are_none_are_refused(change, error):
    told = {DEGREES: np.array([2], np.uint32), PLACES: np.array([0, 3], np.uint32), COUNTS: np.zeros(0, np.uint8)}
    usual = {"rows": 4.0, "most": 2.0, "nodes": 1}
    check_places(told, **usual, width=2)
    numbers = {**usual, **{name: value for name, value in change.items() if name in usual}}
    with pytest.raises(error):
        check_places({**told, **{name: value for name, value in change.items() if name in told}}, **numbers, width=2)
