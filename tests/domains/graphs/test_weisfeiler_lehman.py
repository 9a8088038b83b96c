"""Colours: refinement by hand, and what it may never do."""

import numpy as np
import pytest

from fedgraft.domains.graphs.weisfeiler_lehman import refine
from helpers.small_graphs import LONE, PATH, TRIANGLE, random_graphs, shard_of


def parts(of: np.ndarray) -> list[list[int]]:
    """Nodes by colour."""
    return sorted(np.flatnonzero(of == colour).tolist() for colour in np.unique(of))


def plain(shard, degrees=False, layers=2):
    return refine(shard, np.zeros((len(shard.kind), 0), np.float32), layers, degrees)


def test_two_layers_by_hand():
    """A path of four nodes and a triangle, all of one kind."""
    longer = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)
    levels = plain(shard_of([longer, TRIANGLE], kinds=1))
    assert parts(levels[0].of) == [[0, 1, 2, 3, 4, 5, 6]]
    assert parts(levels[1].of) == [[0, 3], [1, 2, 4, 5, 6]]
    assert parts(levels[2].of) == [[0, 3], [1, 2], [4, 5, 6]]


def test_degrees_tell_apart_from_the_start_if_asked_for():
    assert parts(plain(shard_of([PATH], kinds=1), degrees=True)[0].of) == [[0, 2], [1]]


def test_kinds_and_features_tell_apart():
    shard = shard_of([LONE] * 4, kinds=2)
    assert parts(plain(shard)[0].of) == [[0, 2], [1, 3]]
    features = np.array([[0.0], [0.0], [-0.0], [1.0]], np.float32)
    assert parts(refine(shard, features, 1, False)[0].of) == [[0, 2], [1], [3]]


def test_examples_have_their_colours():
    levels = plain(shard_of(random_graphs(np.random.default_rng(0), 20)))
    assert all((level.of[level.example] == np.arange(len(level.example))).all() for level in levels)


@pytest.mark.parametrize("seed", range(5))
def test_colours_are_those_of_the_definition(seed):
    """Own colour and the multiset of neighbours' colours, written out."""
    shard = shard_of(random_graphs(np.random.default_rng(seed), 15))
    neighbours = [shard.edges[1][shard.edges[0] == node] for node in range(len(shard.kind))]
    expected = shard.kind.tolist()
    for level in plain(shard, layers=3):
        assert len(set(zip(expected, level.of.tolist(), strict=True))) == len(set(expected)) == len(level.example)
        expected = [(own, *sorted(expected[k] for k in near)) for own, near in zip(expected, neighbours, strict=True)]
        expected = [sorted(set(expected)).index(colour) for colour in expected]
