"""Sums of neighbours elsewhere, hop by hop: two clients by hand, the graph as a whole, the least number behind a sum.

All is exchanged as the server does, without one.
"""

import logging
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.domains.nodes.base.shards import NodeShard, cut, merge_shards
from fedgraft.domains.nodes.training.smoothed_inputs import SmoothedInputs
from fedgraft.errors import InputError, WireError
from fedgraft.methods.models.mlp import MLP
from fedgraft.methods.tasks.node import Node
from fedgraft.testing.task_cases import in_stages
from fedgraft.wire.layouts import Arrays
from helpers.toy_nodes import whole

STAR = [(0, 1), (0, 2), (0, 3), (1, 2)]
"""Node 0 is joined to 1, 2 and 3, and these are at the other client, where 1 and 2 are joined."""


def task(shards: list[NodeShard], **options: object) -> Node:
    given = {"share_features": False, "share_states": False, "share_sums": True, "propagate": 1, **options}
    return Node(encoder=MLP(hidden=4), **given).fitted(shards)


def published(how: Node, shards: list[NodeShard]) -> dict[int, Arrays]:
    """What clients publish, in all stages."""
    first = {client: how.statistics(shard) for client, shard in enumerate(shards)}
    for each in first.values():
        how.check(each)
    return dict(in_stages(how, shards, first))


def inputs(how: Node, shards: list[NodeShard]) -> list[np.ndarray]:
    """Every client's inputs, [own, columns]."""
    told = how.combine(published(how, shards))
    rows = [how.prepare(shard, told[client]).features.rows(np.arange(shard.own)) for client, shard in enumerate(shards)]
    return [each.matrix.tensor.to_dense().numpy() if hasattr(each, "matrix") else each.numpy() for each in rows]


def star(is_sparse: bool = False) -> list[NodeShard]:
    return cut(whole(STAR, label=(0, 1, 0, 1), is_sparse=is_sparse), np.array([0, 1, 1, 1]), ["centre", "tips"])


@pytest.mark.parametrize("is_sparse", [False, True])
def test_two_clients_by_hand(is_sparse: bool) -> None:
    # Features are a node's number and 1. Three nodes elsewhere are joined to node 0: their sum is told, (6, 3), and its
    # mean is (0 + 6) / 4. One node elsewhere is joined to each tip: it stays home, and they average what they have.
    shards = star(is_sparse)
    centre, tips = inputs(task(shards), shards)
    np.testing.assert_allclose(centre, [[0, 1, 6 / 4, 1]])
    np.testing.assert_allclose(tips, [[1, 1, 3 / 2, 1], [2, 1, 3 / 2, 1], [3, 1, 3, 1]])
    # With one behind a sum all is told: nodes 1 and 2 have 0 + 1 + 2 by three, node 3 has 0 + 3 by two.
    centre, tips = inputs(task(shards, least=1), shards)
    np.testing.assert_allclose(centre, [[0, 1, 6 / 4, 1]])
    np.testing.assert_allclose(tips, [[1, 1, 1, 1], [2, 1, 1, 1], [3, 1, 3 / 2, 1]])


def test_the_second_hop_sums_what_the_first_has_made() -> None:
    # After a hop the tips have 3/2, 3/2 and 3 as above, and node 0 has 3/2; after two it has (3/2 + 3/2 + 3/2 + 3) / 4.
    shards = star()
    centre, tips = inputs(task(shards, propagate=2), shards)
    np.testing.assert_allclose(centre[:, 4:], [[7.5 / 4, 1]])
    np.testing.assert_allclose(tips[:, 4], [3 / 2, 3 / 2, 3])


def test_what_would_be_a_sum_of_fewer_stays_home(caplog: pytest.LogCaptureFixture) -> None:
    shards = star()
    with caplog.at_level(logging.WARNING, "fedgraft.data"):
        every = published(task(shards), shards)
    # The centre tells nothing of its features, the tips a row for node 0.
    assert not len(every[0]["sums.features.1"])
    np.testing.assert_array_equal(every[1]["sums.features.1"], [[6, 3]])
    assert "of 6 ends of edges between clients 3 stay home, at nodes with fewer than task.least = 3" in caplog.text


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.booleans(), st.integers(0, 2**32 - 1))
def test_with_one_behind_a_sum_a_graph_in_parts_is_averaged_as_in_one(hops: int, is_sparse: bool, seed: int) -> None:
    g = np.random.default_rng(seed)
    graph = whole(g.integers(0, 12, (20, 2)).tolist(), label=[0, 1] * 6, is_sparse=is_sparse)
    shards = cut(graph, np.array([0, 1, 2, *g.integers(0, 3, 9)]), ["a", "b", "c"])
    pooled = SmoothedInputs(hops).of(merge_shards(shards)).features
    expected = pooled.toarray() if is_sparse else pooled
    found = np.concatenate(inputs(task(shards, propagate=hops, least=1), shards))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_no_sum_of_fewer_is_told_to_anybody(least: int, seed: int) -> None:
    g = np.random.default_rng(seed)
    graph = whole(g.integers(0, 12, (30, 2)).tolist(), label=[0, 1] * 6)
    owner = np.array([0, 1, 2, *g.integers(0, 3, 9)])
    shards = cut(graph, owner, ["a", "b", "c"])
    how = task(shards, propagate=2, least=least)
    every = published(how, shards)
    elsewhere = [
        np.bincount(np.repeat(np.arange(shard.own), shard.degree)[shard.senders >= shard.own], minlength=shard.own)
        for shard in shards
    ]
    for client, shard in enumerate(shards):
        marks = np.unpackbits(every[client]["sums.told.1"], count=shard.halo)
        joined = np.array([elsewhere[k][v] for k, v in zip(shard.halo_owner, shard.halo_place, strict=True)])
        np.testing.assert_array_equal(marks, joined >= least)
        told = how.combine(every)[client]
        for hop in (1, 2):
            places = told[f"sums.place.{hop}"]
            np.testing.assert_array_equal(places, np.flatnonzero(elsewhere[client] >= least))
            np.testing.assert_array_equal(told[f"sums.joined.{hop}"], elsewhere[client][places])


def test_what_else_is_published_stays() -> None:
    shards = star()
    how = task(shards, share_states=True, class_weights="balanced")
    every = published(how, shards)
    assert {"owner", "boundary", "class_counts", "sums.owner", "sums.features.1"} <= every[0].keys()
    told = how.combine(every)
    assert {"needed", "class_weights", "sums.place.1"} <= told[1].keys()
    assert told[1].keys() == {spec.name for spec in how.combined_layout}
    np.testing.assert_allclose(how.prepare(shards[0], told[0]).features.rows(np.array([0])), [[0, 1, 6 / 4, 1]])


def test_constant_features_stay_constant() -> None:
    shards = [replace(shard, features=np.full((shard.own, 2), 7, np.float32)) for shard in star()]
    for rows in inputs(task(shards, propagate=3), shards):
        np.testing.assert_allclose(rows, 7, rtol=1e-6)


def test_a_client_that_failed_is_missing_in_sums_and_in_their_numbers() -> None:
    # Three clients with a node each joined to node 0: without the last, two stand behind the sum, which is not told.
    shards = cut(whole(STAR[:3], label=(0, 1, 0, 1)), np.arange(4), ["centre", "a", "b", "c"])
    every = published(task(shards), shards)
    assert task(shards).combine(every)[0]["sums.joined.1"].tolist() == [3]
    del every[3]
    assert task(shards).combine(every)[0]["sums.joined.1"].tolist() == []
    two = task(shards, least=2).combine(every)[0]
    assert two["sums.joined.1"].tolist() == [2]
    np.testing.assert_array_equal(two["sums.features.1"], [[1 + 2, 2]])


def test_what_a_client_says_of_its_own_nodes_does_not_count() -> None:
    shards = star()
    how = task(shards)
    first = {client: how.statistics(shard) for client, shard in enumerate(shards)}
    first[1]["sums.owner"], first[1]["sums.place"] = np.array([0, 1], np.uint32), np.array([0, 0], np.uint32)
    first[1]["sums.joined"] = np.array([3, 9], np.uint32)  # nine of its own at its own node 0
    assert np.unpackbits(how.combine(first)[0]["sums.told"], count=3).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("sums.place", np.array([0, 0, 1], np.uint32), "ascend"),
        ("sums.place", np.array([0], np.uint32), "1 places"),
        ("sums.joined", np.array([1, 0, 1], np.uint32), "no own one is joined to"),
    ],
)
def test_nonsense_is_refused(name: str, value: np.ndarray, why: str) -> None:
    shards = star()
    how = task(shards)
    with pytest.raises(WireError, match=why):
        how.check({**how.statistics(shards[0]), name: value})


def test_sums_that_do_not_fit_what_was_said_are_refused() -> None:
    shards = star()
    how, every = task(shards), published(task(shards), shards)
    first = {name: every[1][name] for name in how.statistics(shards[1])}
    sound = {"sums.told": every[1]["sums.told.1"], "sums.features": every[1]["sums.features.1"]}
    how.check_further(first, sound)
    for other in (
        {**sound, "sums.told": np.array([64], np.uint8)},
        {**sound, "sums.told": np.array([128, 0], np.uint8)},
        {**sound, "sums.features": np.zeros((2, 2), np.float32)},
    ):
        with pytest.raises(WireError):
            how.check_further(first, other)


@pytest.mark.parametrize("options", [{"propagate": 0}, {"share_features": True}, {"least": 0}])
def test_options_that_cannot_be_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        task(star(), **options)
