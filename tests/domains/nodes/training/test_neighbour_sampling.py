"""Neighbours of a batch: what is computed, what is remembered, and how many are drawn."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.domains.nodes.training.neighbour_sampling import Neighbourhoods, Reach, scattered, smallest
from fedgraft.nn.propagate import Stacked
from helpers.toy_nodes import shard_of

PATH = shard_of(4, [(0, 1), (1, 2), (2, 3), (3, 4)], halo=1)
"""0 - 1 - 2 - 3 - (4, elsewhere)."""
STAR = shard_of(9, [(0, k) for k in range(1, 9)])


def reach(layers, nodes, deep=True, most=0, seed=0, unknown=()):
    """Everything is known in every layer but the (layer, node)s that are not."""
    known = [np.ones(nodes, bool) for _ in range(layers)]
    for layer, node in unknown:
        known[layer][node] = False
    return Reach(known, (most,) * layers, deep, seed)


def matrix_of(hop):
    """The weights of all senders, dense."""
    return (hop.block.matrix @ torch.eye(len(hop.fresh) + len(hop.stored))).numpy()


def drawn(hop):
    """{receiver: {sender: weight}}, by the shard's numbers."""
    senders, weights = np.concatenate([hop.fresh, hop.stored]), matrix_of(hop)
    return {
        int(receiver): {int(senders[at]): float(row[at]) for at in np.flatnonzero(row)}
        for receiver, row in zip(hop.receivers, weights, strict=True)
    }


def test_two_layers_deep_by_hand():
    around = Neighbourhoods(PATH, np.array([7]))
    first, second = around.around(np.array([3]), 2, reach(2, 5))
    assert (second.receivers.tolist(), second.fresh.tolist(), second.stored.tolist()) == ([3], [3, 2], [4])
    assert (first.receivers.tolist(), first.fresh.tolist(), first.stored.tolist()) == ([3, 2], [3, 2], [1, 4])
    states = torch.tensor([[1.0], [10.0], [100.0]])  # of 3, 2 and 4
    assert second.block.sums(states).tolist() == [[110]]
    assert second.block.own(states).tolist() == [[1]]
    assert second.block.degree.tolist() == [2]
    assert second.block.degree_from.tolist() == [2, 2, 7]


def test_without_depth_only_targets_are_computed():
    first, second = Neighbourhoods(PATH).around(np.array([3, 1]), 2, reach(2, 5, deep=False))
    for hop in (first, second):
        assert (hop.receivers.tolist(), hop.fresh.tolist(), hop.stored.tolist()) == ([3, 1], [3, 1], [0, 2, 4])
        assert drawn(hop) == {3: {2: 1, 4: 1}, 1: {0: 1, 2: 1}}


def test_targets_are_senders_to_each_other_with_what_is_computed_now():
    _, second = Neighbourhoods(PATH).around(np.array([2, 1]), 2, reach(2, 5, deep=False, unknown=[(1, 1), (1, 2)]))
    assert drawn(second) == {2: {1: 1, 3: 1}, 1: {0: 1, 2: 1}}, "whether or not they have been computed before"


def test_of_whom_nothing_is_known_is_left_out_and_the_others_count_for_it():
    (hop,) = Neighbourhoods(PATH).around(np.array([3]), 1, reach(1, 5, unknown=[(0, 4)]))
    assert drawn(hop) == {3: {2: 2.0}}
    assert hop.block.degree.tolist() == [2], "its degree is that in the graph"
    alone = shard_of(1, [(0, 1)], halo=1)
    (hop,) = Neighbourhoods(alone).around(np.array([0]), 1, reach(1, 2, unknown=[(0, 1)]))
    assert (drawn(hop), hop.block.degree.tolist()) == ({0: {}}, [1])
    deep = reach(2, 5, unknown=[(1, 0), (1, 2), (1, 4)])
    _, second = Neighbourhoods(PATH).around(np.array([1, 3]), 2, deep)
    assert drawn(second) == {1: {0: 1, 2: 1}, 3: {2: 2}}, "own nodes are computed, others cannot be"
    shallow = reach(2, 5, deep=False, unknown=[(1, 0), (1, 2), (1, 4)])
    _, second = Neighbourhoods(PATH).around(np.array([1, 3]), 2, shallow)
    assert drawn(second) == {1: {}, 3: {}}


def test_a_node_without_neighbours():
    lone = shard_of(3, [(0, 1)])
    (hop,) = Neighbourhoods(lone).around(np.array([2]), 1, reach(1, 3, most=2))
    assert (hop.fresh.tolist(), hop.stored.tolist()) == ([2], [])
    assert hop.block.sums(torch.ones(1, 2)).tolist() == [[0, 0]]
    bare = shard_of(2, [])
    (hop,) = Neighbourhoods(bare).around(np.array([1, 0]), 1, reach(1, 2))
    assert drawn(hop) == {1: {}, 0: {}}


@pytest.mark.parametrize("most", [1, 3, 0])
def test_so_many_different_neighbours_are_drawn_and_only_of_those_that_are(most):
    around, seen = Neighbourhoods(STAR), []
    for seed in range(200):
        (hop,) = around.around(np.array([0, 4]), 1, reach(1, 9, most=most, seed=seed))
        count = most or 8
        assert drawn(hop)[4] == {0: 1}
        assert set(drawn(hop)[0].values()) == {np.float32(8 / count)}, "each makes up for the others"
        assert hop.block.degree.tolist() == [8, 1]
        seen += drawn(hop)[0]
    counts = np.bincount(seen, minlength=9)
    assert counts[0] == 0
    assert counts.sum() == 200 * (most or 8)
    assert np.abs(counts[1:] - counts[1:].mean()).max() <= 5 * np.sqrt(200), "all are as likely"


def test_the_mean_over_draws_is_the_sum_over_all():
    states = torch.arange(9.0)[:, None]
    sums = []
    for seed in range(400):
        (hop,) = Neighbourhoods(STAR).around(np.array([0]), 1, reach(1, 9, most=2, seed=seed))
        sums.append(hop.block.sums(states[np.concatenate([hop.fresh, hop.stored])]).item())
    assert np.mean(sums) == pytest.approx(36, abs=4 * np.std(sums) / 20)


def test_equal_seeds_draw_equal_neighbours_whatever_the_batch():
    around = Neighbourhoods(shard_of(30, [(a, b) for a in range(30) for b in range(a)]))
    for deep in (True, False):
        one, other = (
            around.around(np.array(targets), 2, reach(2, 30, deep, 3, seed=5)) for targets in ([7], [3, 7, 20])
        )
        assert all(drawn(a)[7] == drawn(b)[7] for a, b in zip(one, other, strict=True))
    layers = around.around(np.arange(30), 2, reach(2, 30, True, 3, seed=5))
    assert drawn(layers[0]) != drawn(layers[1]), "each layer draws its own"
    again = around.around(np.arange(30), 2, reach(2, 30, True, 3, seed=500))
    assert drawn(again[1]) != drawn(layers[1])


@settings(deadline=None)
@given(runs=st.lists(st.lists(st.integers(0, 5), min_size=5, max_size=9), max_size=5), most=st.integers(1, 4))
def test_the_smallest_of_every_run_are_found_and_of_equal_ones_the_first(runs, most):
    lengths, halves = np.array([len(run) for run in runs], np.int64), np.array([*chain(*runs)], np.uint64)
    numbers = halves << np.uint64(32) | np.arange(len(halves), dtype=np.uint64)[::-1]  # lower halves do not count
    wanted, first = [], 0
    for run in runs:
        wanted += sorted(range(first, first + len(run)), key=halves.__getitem__)[:most]
        first += len(run)
    assert sorted(smallest(numbers, lengths, most).tolist()) == sorted(wanted)


def test_scattered_numbers_are_spread_and_the_same_whenever_their_seed_is():
    numbers = np.arange(20_000)
    found = scattered(numbers, 3)
    np.testing.assert_array_equal(found[100:200], scattered(numbers[100:200], 3))
    assert len(np.unique(found)) == len(numbers)
    shares = np.bincount((found >> np.uint64(60)).astype(np.int64), minlength=16) / len(numbers)
    assert np.abs(shares - 1 / 16).max() < 0.01
    order = np.argsort(found)
    assert abs(np.corrcoef(order, numbers)[0, 1]) < 0.03
    assert abs(np.corrcoef(order, np.argsort(scattered(numbers, 4)))[0, 1]) < 0.03


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    layers=st.integers(1, 3),
    most=st.integers(0, 4),
    deep=st.booleans(),
    drawn_by=st.integers(0, 2**31),
)
def test_hops_fit_together(seed, layers, most, deep, drawn_by):
    g = np.random.default_rng(seed)
    own, halo = int(g.integers(1, 15)), int(g.integers(0, 8))
    pairs = {(int(a), int(b)) for a, b in g.integers(0, own + halo, (40, 2)) if a < own and a != b}
    edges = [(a, b) for a, b in sorted(pairs) if b >= own or a < b]
    shard = shard_of(own, edges, halo)
    known = [g.random(own + halo) < 0.6 for _ in range(layers)]
    known[0][:own] = True
    targets = g.permutation(own)[: int(g.integers(1, own + 1))]
    degrees = g.integers(0, 9, halo)
    hops = Neighbourhoods(shard, degrees).around(targets, layers, Reach(known, (most,) * layers, deep, drawn_by))
    assert len(hops) == layers
    np.testing.assert_array_equal(hops[-1].receivers, targets)
    for layer, hop in enumerate(hops):
        senders = np.concatenate([hop.fresh, hop.stored])
        assert len(np.unique(senders)) == len(senders)
        np.testing.assert_array_equal(hop.fresh[: len(hop.receivers)], hop.receivers)
        assert (hop.fresh < own).all()
        if layer:
            np.testing.assert_array_equal(hops[layer - 1].receivers, hop.fresh)
        assert known[layer][hop.stored].all(), "nothing is read that is not known"
        np.testing.assert_array_equal(hop.block.place.numpy(), np.arange(len(hop.receivers)))
        np.testing.assert_array_equal(hop.block.degree_from.numpy(), np.concatenate([shard.degree, degrees])[senders])
        for receiver, weights in drawn(hop).items():
            neighbours = shard.senders[shard.pointers[receiver] : shard.pointers[receiver + 1]]
            assert set(weights) <= set(neighbours.tolist())
            assert len(weights) <= (most or len(neighbours))
            assert not weights or sum(weights.values()) == pytest.approx(len(neighbours), rel=1e-5)


@pytest.mark.parametrize("deep", [True, False])
def test_the_first_layer_can_be_over_all_nodes_by_number(deep):
    around, targets = Neighbourhoods(PATH, np.array([7])), np.array([3, 1])
    picked = around.around(targets, 2, reach(2, 5, deep))
    over_all = around.around(targets, 2, replace(reach(2, 5, deep), whole=True))
    assert matrix_of(over_all[1]).tolist() == matrix_of(picked[1]).tolist()
    first, block = picked[0], over_all[0].block
    senders = np.concatenate([first.fresh, first.stored])
    states = torch.arange(1.0, 6)[:, None]
    assert torch.equal(block.sums(states), first.block.sums(states[senders]))
    assert torch.equal(block.own(states), first.block.own(states[senders]))
    # One is multiplied with its zeros, the other without: processors differ in the order of such sums.
    torch.testing.assert_close(block.smoothed(states), first.block.smoothed(states[senders]))
    stacked = Stacked(states[:4], states[4:])
    for how in ("sums", "own", "means", "smoothed"):
        assert torch.equal(getattr(block, how)(stacked), getattr(block, how)(states)), how


def test_of_nodes_that_are_alone_no_neighbour_takes_part():
    for hop in Neighbourhoods(PATH).around(np.array([3, 1]), 2, replace(reach(2, 5), alone=True)):
        assert hop.receivers.tolist() == hop.fresh.tolist() == [3, 1]
        assert not len(hop.stored)
        assert not matrix_of(hop).any()
