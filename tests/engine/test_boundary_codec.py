"""A client's edges to nodes of others, as bytes."""

from dataclasses import fields, replace

import numpy as np
import pytest

from fedgraft.contracts.abilities.smoothing import Boundary
from fedgraft.domains.nodes.training.neighbour_sums import Neighbours
from fedgraft.engine import boundary_codec
from fedgraft.errors import WireError
from helpers.node_runs import small

BOUNDARY = Boundary(
    own=9,
    nodes=np.array([2, 3, 8]),
    counts=np.array([2, 1, 3]),
    owner=np.array([1, 4, 0, 1, 1, 7]),
    place=np.array([5, 0, 300, 2, 3, 1]),
)
"""Of client 2: nodes 2, 3 and 8 of nine have neighbours elsewhere."""


def equal(one, other):
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(Boundary))


def test_a_boundary_is_a_few_small_numbers():
    coded = boundary_codec.encode(BOUNDARY)
    assert coded.tolist() == [9, 3, 2, 1, 5, 2, 1, 3, 1, 3, 0, 1, 0, 6, 5, 0, 172, 2, 2, 3, 1]
    assert equal(boundary_codec.decode(coded, client=2), BOUNDARY)


def test_boundaries_of_a_graph_come_back_as_they_were():
    _, shards = small(recipe="fedlocal")
    for client, shard in enumerate(shards):
        boundary = Neighbours(shard).boundary
        coded = boundary_codec.encode(boundary)
        assert equal(boundary_codec.decode(coded, client), boundary)
        assert len(coded) < 2.5 * len(boundary.owner) + 2 * len(boundary.nodes) + 9


def test_who_has_no_neighbours_elsewhere_says_so():
    nobody = np.zeros(0, np.int64)
    boundary = Boundary(4, nobody, nobody, nobody, nobody)
    assert equal(boundary_codec.decode(boundary_codec.encode(boundary), client=0), boundary)


@pytest.mark.parametrize(
    "changes",
    [
        {"own": 0},
        {"own": 8},  # node 8 is not one of eight
        {"own": 2},  # fewer nodes than in the boundary
        {"counts": np.array([2, 0, 4])},
        {"counts": np.array([2, 1, 4])},
        {"owner": np.array([1, 4, 2, 1, 1, 7])},  # its own nodes are not elsewhere
        {"place": np.array([5, 0, 300, 2, 2, 1])},  # twice the same node
    ],
)
def test_what_no_client_has_is_refused(changes):
    with pytest.raises(WireError):
        boundary_codec.decode(boundary_codec.encode(replace(BOUNDARY, **changes)), client=2)


def test_random_bytes_are_refused_or_are_a_boundary():
    g = np.random.default_rng(0)
    for size in range(200):
        coded = g.integers(0, 12, size).astype(np.uint8)
        try:
            boundary = boundary_codec.decode(coded, client=0)
        except WireError:
            continue
        assert equal(boundary_codec.decode(boundary_codec.encode(boundary), 0), boundary)
