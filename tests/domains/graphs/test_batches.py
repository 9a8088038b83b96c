"""Batches: what is in one, by hand."""

import numpy as np
import pytest
import torch

from fedgraft.domains.graphs.batches import Collator
from helpers.small_graphs import LONE, PAIR, PATH, TRIANGLE, random_graphs, shard_of

ALIKE = shard_of([TRIANGLE, PAIR, LONE, PATH], kinds=1)


def written_out(matrix, columns):
    return (matrix @ torch.eye(columns)).tolist()


def test_a_batch_by_hand():
    """A path of three and a pair, all nodes of one kind: after one layer there are ends and middles."""
    batch = Collator(ALIKE, 1, degrees=False).batch(np.array([3, 1]))
    assert batch.label.tolist() == [1, 1]
    assert (batch.kind.tolist(), batch.attributes.shape) == ([0], (1, 0))
    assert written_out(batch.counts, 1) == [[3], [2]]
    (layer,) = batch.layers
    ends, middle = (0, 1) if layer.block.degree[0] == 1 else (1, 0)
    assert layer.block.degree[[ends, middle]].tolist() == [1, 2]
    assert layer.block.degree_from.shape == (1,)
    assert (layer.block.sums(torch.tensor([[5.0]]))[[ends, middle], 0]).tolist() == [5, 10]
    assert layer.block.own(torch.tensor([[5.0]]))[:, 0].tolist() == [5, 5]
    assert [[row[ends], row[middle]] for row in written_out(layer.counts, 2)] == [[2, 1], [2, 0]]
    torch.testing.assert_close(layer.share[[ends, middle]], torch.tensor([0.8, 0.2]))


def test_a_node_of_no_kind_has_a_column_of_its_own():
    shard = shard_of([TRIANGLE, PAIR, LONE, PATH])
    shard.kind[0] = -1
    assert sorted(Collator(shard, 1, degrees=False).batch(np.array([0])).kind.tolist()) == [1, 2, 3]


def test_a_graph_may_come_twice():
    batch = Collator(ALIKE, 1, degrees=False).batch(np.array([0, 0, 2]))
    assert written_out(batch.counts, 1) == [[3], [3], [1]]
    assert batch.label.tolist() == [0, 0, 0]


def test_a_batch_of_graphs_without_any_edge():
    batch = Collator(ALIKE, 2, degrees=True).batch(np.array([2, 2]))
    for layer in batch.layers:
        assert layer.block.sums(torch.ones(1, 3)).tolist() == [[0, 0, 0]]
        assert layer.share.tolist() == [1]


@pytest.mark.parametrize("attributes", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_batches_do_not_depend_on_what_was_put_together_before(seed, attributes):
    g = np.random.default_rng(seed)
    shard = shard_of(random_graphs(g, 12), attributes=attributes)
    used, graphs = Collator(shard, 2, degrees=False), g.integers(0, 12, 5)
    used.batch(np.arange(12))
    one, other = used.batch(graphs), Collator(shard, 2, degrees=False).batch(graphs)
    for a, b in zip(one.layers, other.layers, strict=True):
        torch.testing.assert_close(a.share, b.share)
        assert written_out(a.counts, len(a.share)) == written_out(b.counts, len(b.share))
        assert a.block.place.tolist() == b.block.place.tolist()
