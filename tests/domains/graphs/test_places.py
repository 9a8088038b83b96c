"""What is told of nodes' places."""

import numpy as np
import pytest

from fedgraft.domains.graphs import batches as places_module
from fedgraft.domains.graphs.batches import places
from helpers.small_graphs import LONE, PAIR, PATH, TRIANGLE, random_graphs, shard_of

SHARD = shard_of([TRIANGLE, PAIR, LONE, PATH])


def test_walks_back_by_hand():
    """From a corner of a triangle a walk is never back after one step, after two with 1/2, after three with 1/4."""
    found = places(SHARD, 4, 2)
    assert found[:3, :4].tolist() == [[0, 0.5, 0.25, 0.375]] * 3
    assert found[3:5, :4].tolist() == [[0, 1, 0, 1]] * 2
    assert found[5, :4].tolist() == [0, 0, 0, 0]
    assert found[6:9, :4].tolist() == [[0, 0.5, 0, 0.5], [0, 1, 0, 1], [0, 0.5, 0, 0.5]]
    assert found[:, 4:].argmax(1).tolist() == [1, 1, 1, 0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("seed", range(3))
def test_walks_back_are_diagonals_of_powers(seed):
    g = np.random.default_rng(seed)
    upper = np.triu(g.random((12, 12)) < 0.3, 1)
    matrix = (upper | upper.T).astype(float)
    walk = matrix / np.maximum(matrix.sum(0), 1)
    found = places(shard_of([matrix, PAIR, PAIR]), 9, 3)[:12, :9]
    expected = np.stack([np.diag(np.linalg.matrix_power(walk, k)) for k in range(1, 10)], 1)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("filling", "entries"), [(0, 1 << 22), (0, 100), (100, 100)])
def test_with_zeros_or_without_and_however_many_at_a_time_places_are_the_same(filling, entries, monkeypatch):
    shard = shard_of(random_graphs(np.random.default_rng(3), 40, largest=12))
    expected = places_module.places(shard, 9, 3)
    monkeypatch.setattr(places_module, "FILLING", filling)
    monkeypatch.setattr(places_module, "ENTRIES", entries)
    np.testing.assert_allclose(places_module.places(shard, 9, 3), expected, atol=1e-7)
