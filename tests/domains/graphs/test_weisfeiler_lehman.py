"""Colours: refinement by hand and what it may never do; counts of subtrees, and the kernel that they stand for."""

import dataclasses

import numpy as np
import pytest

from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.graphs.weisfeiler_lehman import refine, subtree_counts
from fedgraft.methods.baselines.wl_kernel import WLKernel
from helpers.small_graphs import LONE, PATH, TRIANGLE, random_graphs, shard_of
from helpers.toy_graphs import shard


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


# --- counts of subtrees -----------------------------------------------------------------------------------------------

WIDE = 1 << 24


def counts(given: GraphShard, hops: int, width: int = WIDE, root: bool = False) -> np.ndarray:
    """The columns that hold anything; squared and of length 1, as if there were no roots, unless these are wanted."""
    found = subtree_counts(given, hops, width)
    dense = found[:, np.unique(found.indices)].toarray()
    return dense if root else dense**2 / np.linalg.norm(dense**2, axis=1, keepdims=True)


def test_a_path_and_a_triangle_of_one_kind_differ_from_the_first_hop_on():
    """Three nodes of one kind each: the kernel is 3 x 3; a hop later the path has two ends and a middle of its own.

    The middle of the path has two neighbours like every node of the triangle, so that its colour is theirs:
    dot product 3 x 3 + 1 x 3 = 12, squared lengths 9 + 2^2 + 1^2 = 14 and 9 + 9 = 18.
    """
    pair = shard_of([PATH, TRIANGLE], kinds=1)
    assert counts(pair, 0).tolist() == [[1.0], [1.0]]
    found = counts(pair, 1)
    np.testing.assert_allclose(found @ found.T, [[1, 12 / np.sqrt(14 * 18)], [12 / np.sqrt(14 * 18), 1]], rtol=1e-6)


def test_square_roots_by_hand():
    """The same pair: dot product sqrt(3 x 3) + sqrt(1 x 3), squared lengths 3 + 3."""
    found = counts(shard_of([PATH, TRIANGLE], kinds=1), 1, root=True)
    np.testing.assert_allclose(found[0] @ found[1], (3 + np.sqrt(3)) / 6, rtol=1e-6)


def test_what_hops_do_not_tell_apart_has_equal_counts():
    """A ring of six and two triangles: the pair that no number of hops tells apart."""
    ring = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
    triangles = np.kron(np.eye(2), TRIANGLE)
    found = counts(shard_of([ring, triangles], kinds=1), 5)
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize("root", [False, True])
def test_the_order_of_nodes_does_not_matter(root):
    g = np.random.default_rng(0)
    edges, size = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)], 5
    kind = g.integers(0, 2, size)
    order = g.permutation(size)
    moved = [(int(order[a]), int(order[b])) for a, b in edges]
    kinds = np.empty(size, int)
    kinds[order] = kind
    both = shard([edges, moved], [size, size], [0, 1], kind=[*kind, *kinds], kinds=2)
    found = counts(both, 4, width=64, root=root)
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_the_dot_product_is_the_kernel(hops):
    many = shard_of(random_graphs(np.random.default_rng(hops), 30), kinds=2)
    found = counts(many, hops)
    *_, kernel = WLKernel(rounds=hops).kernels(many, np.arange(30))
    np.testing.assert_allclose(found @ found.T, kernel, rtol=1e-5, atol=1e-6)


def test_a_set_without_kinds_begins_with_degrees():
    bare = dataclasses.replace(shard_of([PATH, LONE], kinds=1), kind=np.full(4, -1, np.int32), kinds=0)
    found = subtree_counts(bare, 0, WIDE)
    np.testing.assert_allclose(sorted(found[0].data), np.sqrt([1 / 3, 2 / 3]), rtol=1e-6)
    assert found[1].data.tolist() == [1.0]


BUCKETS = [101347, 153139, 574543, 622191, 757558]
"""Of a path of three nodes of one kind after two hops, in 2^20 buckets: computed once, the same wherever this runs."""


def test_counts_do_not_depend_on_other_graphs_nor_on_the_machine():
    few, many = shard_of([PATH], kinds=1), shard_of([TRIANGLE, PATH, LONE], kinds=1)
    one, other = subtree_counts(few, 2, 1 << 20), subtree_counts(many, 2, 1 << 20)
    assert (one - other[1]).nnz == 0
    assert sorted(one.indices.tolist()) == BUCKETS
    np.testing.assert_allclose(sorted(3 * one.data), np.sqrt([1, 1, 2, 2, 3]), rtol=1e-6)
