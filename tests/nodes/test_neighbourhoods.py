"""Neighbours of a batch: what is computed, what is remembered, and how many are drawn."""

import numpy as np
import pytest
import torch

from fedgraft.nodes.neighbourhoods import Neighbourhoods
from fedgraft.nodes.sets import NodeShard


def shard_of(own: int, edges: list[tuple[int, int]], halo: int = 0) -> NodeShard:
    """Nodes 0 .. own - 1 and a halo behind them; an edge to the halo is written from its own end."""
    both = {(a, b) for a, b in edges} | {(b, a) for a, b in edges if b < own}
    receiver, sender = (np.array(column, np.int64) for column in zip(*sorted(both), strict=True))
    return NodeShard(
        name="here",
        ids=np.arange(own).astype(object),
        features=np.zeros((own, 1), np.float32),
        label=np.zeros(own, np.int64),
        classes=("a", "b"),
        split=np.zeros(own, np.int8),
        pointers=np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=own))]),
        senders=sender.astype(np.int32),
        halo_owner=np.ones(halo, np.int32),
        halo_place=np.arange(halo, dtype=np.int32),
    )


PATH = shard_of(4, [(0, 1), (1, 2), (2, 3), (3, 4)], halo=1)
"""0 - 1 - 2 - 3 - (4, elsewhere)."""


def uniform(seed=0):
    return np.random.default_rng(seed).random


def test_two_layers_deep_by_hand():
    first, second = Neighbourhoods(PATH, 0).around(np.array([3]), 2, True, uniform())
    assert (second.receivers.tolist(), second.fresh.tolist(), second.stored.tolist()) == ([3], [3, 2], [4])
    assert (first.receivers.tolist(), first.fresh.tolist(), first.stored.tolist()) == ([3, 2], [3, 2], [1, 4])
    states = torch.tensor([[1.0], [10.0], [100.0]])  # of 3, 2 and 4
    assert second.block.sums(states).tolist() == [[110]]
    assert second.block.own(states).tolist() == [[1]]
    assert second.block.degree.tolist() == [2]
    assert second.block.degree_from.tolist() == [2, 2, 0]


def test_without_depth_only_targets_are_computed():
    first, second = Neighbourhoods(PATH, 0).around(np.array([3, 1]), 2, False, uniform())
    for hop in (first, second):
        assert (hop.receivers.tolist(), hop.fresh.tolist(), hop.stored.tolist()) == ([3, 1], [3, 1], [0, 2, 4])


def test_a_node_without_neighbours():
    lone = shard_of(3, [(0, 1)])
    (hop,) = Neighbourhoods(lone, 2).around(np.array([2]), 1, True, uniform())
    assert (hop.fresh.tolist(), hop.stored.tolist()) == ([2], [])
    assert hop.block.sums(torch.ones(1, 2)).tolist() == [[0, 0]]


@pytest.mark.parametrize("most", [1, 3, 0])
def test_so_many_different_neighbours_are_drawn_and_only_of_those_that_are(most):
    star = shard_of(9, [(0, k) for k in range(1, 9)])
    neighbourhoods, seen = Neighbourhoods(star, most), set()
    for seed in range(60):
        (hop,) = neighbourhoods.around(np.array([0, 4]), 1, True, uniform(seed))
        drawn = hop.block.matrix @ torch.eye(len(hop.fresh) + len(hop.stored))
        assert drawn.max() == 1
        assert hop.block.degree.tolist() == [min(most or 8, 8), 1]
        assert drawn.sum(1).tolist() == hop.block.degree.tolist()
        senders = np.concatenate([hop.fresh, hop.stored])
        seen.add(frozenset(senders[drawn[0].numpy() > 0].tolist()))
    assert all(group <= set(range(1, 9)) for group in seen)
    assert len(set().union(*seen)) == 8
