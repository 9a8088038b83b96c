"""Graphs side by side, and what is told of nodes' places."""

import numpy as np
import pytest
import torch

from fedgraft.graphs.batches import Collator, structure_features
from fedgraft.graphs.sets import GraphShard


def shard_of(adjacencies, kinds=3):
    """A shard of graphs given as dense matrices; node k of the shard has kind k modulo `kinds`."""
    sizes = np.array([len(a) for a in adjacencies])
    firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    edges = np.concatenate([np.argwhere(a) + first for a, first in zip(adjacencies, firsts, strict=True)])
    nodes, graphs = int(sizes.sum()), len(sizes)
    return GraphShard(
        name="here",
        sizes=sizes,
        edges=edges.T.astype(np.int32).reshape(2, -1),
        kind=(np.arange(nodes) % kinds).astype(np.int32),
        kinds=kinds,
        attributes=np.arange(2 * nodes, dtype=np.float32).reshape(nodes, 2),
        label=np.arange(graphs) % 2,
        classes=("a", "b"),
        split=(np.arange(graphs) % 3).astype(np.int8),
        ids=np.arange(graphs).astype(object),
    )


TRIANGLE = np.ones((3, 3)) - np.eye(3)
PAIR = np.array([[0, 1], [1, 0]])
LONE = np.zeros((1, 1))
PATH = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
SHARD = shard_of([TRIANGLE, PAIR, LONE, PATH])


def test_a_batch_by_hand():
    batch = Collator(SHARD).batch(np.array([3, 1]))
    assert batch.sizes.tolist() == [3, 2]
    assert batch.label.tolist() == [1, 1]
    assert batch.kind.tolist() == [0, 1, 2, 0, 1]
    assert batch.attributes[:, 0].tolist() == [12, 14, 16, 6, 8]
    assert batch.graph.degree.tolist() == [1, 2, 1, 1, 1]
    assert batch.graph.sums(torch.tensor([[1.0], [10], [100], [1000], [10000]]))[:, 0].tolist() == [
        10,
        101,
        10,
        10000,
        1000,
    ]
    assert batch.pooled(torch.ones(5, 2)).tolist() == [[3, 3], [2, 2]]


def test_a_node_of_no_kind_has_a_column_of_its_own():
    shard = shard_of([TRIANGLE, PAIR, LONE, PATH])
    shard.kind[0] = -1
    assert Collator(shard).batch(np.array([0])).kind.tolist() == [3, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_any_choice_of_graphs_is_the_graphs_one_by_one(seed):
    g = np.random.default_rng(seed)
    matrices = []
    for size in g.integers(1, 9, 12):
        upper = np.triu(g.random((size, size)) < 0.4, 1)
        matrices.append((upper | upper.T).astype(float))
    collator, graphs = Collator(shard_of(matrices)), g.integers(0, 12, 20)
    batch = collator.batch(graphs)
    states = torch.from_numpy(g.standard_normal((int(batch.sizes.sum()), 3)).astype(np.float32))
    found = batch.graph.sums(states).split(batch.sizes.tolist())
    for graph, part, own in zip(graphs, found, states.split(batch.sizes.tolist()), strict=True):
        torch.testing.assert_close(part, torch.from_numpy(matrices[graph].astype(np.float32)) @ own)


def test_a_batch_of_graphs_without_any_edge():
    batch = Collator(SHARD).batch(np.array([2, 2]))
    assert batch.graph.sums(torch.ones(2, 3)).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_walks_back_by_hand():
    """From a corner of a triangle a walk is never back after one step, after two with 1/2, after three with 1/4."""
    found = structure_features(SHARD, 4, 2)
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
    found = structure_features(shard_of([matrix, PAIR, PAIR]), 9, 3)[:12, :9]
    expected = np.stack([np.diag(np.linalg.matrix_power(walk, k)) for k in range(1, 10)], 1)
    np.testing.assert_allclose(found, expected, atol=1e-6)
