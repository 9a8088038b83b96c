"""A client's edges to nodes of others, as bytes."""

from dataclasses import fields, replace

import numpy as np
import pytest

from fedgraft.contracts.abilities.smoothing import Border
from fedgraft.domains.nodes.training.neighbours import Neighbours
from fedgraft.engine import border_codec
from fedgraft.errors import WireError
from helpers.node_runs import small

BORDER = Border(
    own=9,
    nodes=np.array([2, 3, 8]),
    counts=np.array([2, 1, 3]),
    owner=np.array([1, 4, 0, 1, 1, 7]),
    place=np.array([5, 0, 300, 2, 3, 1]),
)
"""Of client 2: nodes 2, 3 and 8 of nine have neighbours elsewhere."""


def equal(one, other):
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(Border))


def test_a_border_is_a_few_small_numbers():
    coded = border_codec.encode(BORDER)
    assert coded.tolist() == [9, 3, 2, 1, 5, 2, 1, 3, 1, 3, 0, 1, 0, 6, 5, 0, 172, 2, 2, 3, 1]
    assert equal(border_codec.decode(coded, client=2), BORDER)


def test_borders_of_a_graph_come_back_as_they_were():
    _, shards = small(recipe="fedlocal")
    for client, shard in enumerate(shards):
        border = Neighbours(shard).border
        coded = border_codec.encode(border)
        assert equal(border_codec.decode(coded, client), border)
        assert len(coded) < 2.5 * len(border.owner) + 2 * len(border.nodes) + 9


def test_who_has_no_neighbours_elsewhere_says_so():
    nobody = np.zeros(0, np.int64)
    border = Border(4, nobody, nobody, nobody, nobody)
    assert equal(border_codec.decode(border_codec.encode(border), client=0), border)


@pytest.mark.parametrize(
    "changes",
    [
        {"own": 0},
        {"own": 8},  # node 8 is not one of eight
        {"own": 2},  # fewer nodes than in the border
        {"counts": np.array([2, 0, 4])},
        {"counts": np.array([2, 1, 4])},
        {"owner": np.array([1, 4, 2, 1, 1, 7])},  # its own nodes are not elsewhere
        {"place": np.array([5, 0, 300, 2, 2, 1])},  # twice the same node
    ],
)
def test_what_no_client_has_is_refused(changes):
    with pytest.raises(WireError):
        border_codec.decode(border_codec.encode(replace(BORDER, **changes)), client=2)


def test_random_bytes_are_refused_or_are_a_border():
    g = np.random.default_rng(0)
    for size in range(200):
        coded = g.integers(0, 12, size).astype(np.uint8)
        try:
            border = border_codec.decode(coded, client=0)
        except WireError:
            continue
        assert equal(border_codec.decode(border_codec.encode(border), 0), border)
