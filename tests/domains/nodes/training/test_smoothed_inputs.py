"""Features averaged over neighbours before training: a graph of four nodes worked by hand, and what averages keep."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from fedgraft.domains.examples import scaled
from fedgraft.domains.nodes.base import memory_check
from fedgraft.domains.nodes.base.shards import NodeShard, cut
from fedgraft.domains.nodes.training.smoothed_inputs import HopAttention, prepared, rows_of
from fedgraft.errors import InputError
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.inputs.propagated import Propagated
from fedgraft.methods.models.mlp import MLP
from fedgraft.methods.tasks.link import Link
from helpers.node_runs import model_of, relayed, set_up, small
from helpers.toy_nodes import whole

PATH = [(0, 1), (1, 2), (2, 3)]
FOUR = [[0, 1], [1, 1], [2, 1], [3, 1]]
"""The features of `whole`: a node's number, and 1."""


def four(is_sparse: bool = False) -> NodeShard:
    """A path of four nodes at one client."""
    return cut(whole(PATH, label=(0, 1, 0, 1), is_sparse=is_sparse), np.zeros(4, np.int64), ["here"])[0]


def dense(features: object) -> np.ndarray:
    return features.toarray() if isinstance(features, sparse.csr_matrix) else np.asarray(features)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_four_nodes_by_hand(is_sparse: bool) -> None:
    # R: node 0 has the mean of 0 and 1, node 1 that of 0, 1 and 2. Second hop: (1/2 + 1) / 2, (1/2 + 1 + 2) / 3 ...
    inputs = dense(prepared(Propagated(propagate=2), four(is_sparse)).features)
    np.testing.assert_array_equal(inputs[:, :2], FOUR)
    np.testing.assert_allclose(inputs[:, 2], [1 / 2, 1, 2, 5 / 2], rtol=1e-6)
    np.testing.assert_allclose(inputs[:, 4], [3 / 4, 7 / 6, 11 / 6, 9 / 4], rtol=1e-6)
    np.testing.assert_array_equal(inputs[:, 3::2], 1)  # constant features stay constant


def test_edges_between_clients_have_no_part_in_it() -> None:
    # The path is cut in the middle: each half averages its own two nodes, again and again.
    shards = cut(whole(PATH, label=(0, 1, 0, 1)), np.array([0, 0, 1, 1]), ["one", "other"])
    for shard, mean in zip(shards, (0.5, 2.5), strict=True):
        assert shard.halo == 1
        np.testing.assert_array_equal(prepared(Propagated(propagate=2), shard).features[:, 2::2], mean)


def test_a_node_alone_keeps_its_own_features() -> None:
    graph = cut(whole([(0, 1)], label=(0, 1, 0)), np.zeros(3, np.int64), ["here"])[0]
    np.testing.assert_array_equal(prepared(Propagated(propagate=2), graph).features[2], [2, 1] * 3)


def test_no_hop_is_the_shard_itself() -> None:
    shard = four()
    assert prepared(Propagated(propagate=0), shard) is shard
    assert Propagated(propagate=0).width(7) == 7
    assert Propagated(propagate=2).width(7) == 21


def test_the_kind_of_features_stays_for_the_wire_and_is_chosen_for_the_model() -> None:
    # A ring of 60 with one number a node: the averages have 3 and 5 of 60, so the rows stay sparse.
    ring = cut(
        whole([(v, (v + 1) % 60) for v in range(60)], label=[0, 1] * 30, is_sparse=True), np.zeros(60, np.int64), ["a"]
    )[0]
    ring = replace(ring, features=sparse.csr_matrix(np.eye(60, dtype=np.float32)))
    wide = prepared(Propagated(propagate=2), ring).features
    assert isinstance(wide, sparse.csr_matrix)
    assert wide.nnz == 60 * (1 + 3 + 5)
    assert wide.has_sorted_indices
    assert rows_of(Propagated(propagate=2), wide, wide[:0]).dense is None
    # A path of four with nearly all numbers there: dense, with the halo.
    crowded = prepared(Propagated(propagate=2), four(is_sparse=True)).features
    assert isinstance(crowded, sparse.csr_matrix)
    rows = rows_of(Propagated(propagate=2), crowded, crowded[:1])
    assert rows.dense is not None
    np.testing.assert_array_equal(rows.rows(np.array([4])), dense(crowded[0]))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_are_scaled_before_they_are_averaged(is_sparse: bool) -> None:
    experiment, shards = small("fedlocal", inputs__scale=3.0, inputs__propagate=1, data__sparse=is_sparse)
    task, shard = experiment.plan.task, shards[0]
    rows = dense(prepared(task.inputs, replace(shard, features=scaled(shard.features, 3.0))).features)
    np.testing.assert_allclose(np.linalg.norm(rows[:, :8], axis=1), 3, rtol=1e-5)
    assert np.linalg.norm(rows[:, 8:], axis=1).max() < 3 + 1e-5


def test_what_is_told_of_a_node_is_its_owners_row() -> None:
    experiment, shards = small("fedais", inputs__propagate=2)
    task = experiment.plan.task
    data = set_up(task, shards)
    every = [dense(prepared(Propagated(propagate=2), shard).features) for shard in shards]
    for shard, each in zip(shards, data, strict=True):
        halo = each.features.rows(shard.own + np.arange(shard.halo)).numpy()
        expected = [every[k][v] for k, v in zip(shard.halo_owner, shard.halo_place, strict=True)]
        np.testing.assert_array_equal(halo, expected)


def test_what_a_machine_cannot_hold_is_refused() -> None:
    # Four nodes of two features in three blocks of four bytes.
    memory_check.check_inputs([four()], 2, False, memory_bytes=96)
    memory_check.check_inputs([four()], 0, False, memory_bytes=1)
    with pytest.raises(InputError, match=r"inputs\.propagate = 2 has 1 clients keep 3 times 2 features of 4 nodes"):
        memory_check.check_inputs([four()], 2, False, memory_bytes=95)


def test_of_sparse_features_no_more_is_counted_than_dense_ones_have() -> None:
    ring = cut(whole([(v, (v + 1) % 60) for v in range(60)], label=[0, 1] * 30), np.zeros(60, np.int64), ["a"])[0]
    ring = replace(ring, features=sparse.csr_matrix(np.eye(60, dtype=np.float32)))
    memory_check.check_inputs([ring], 2, False, memory_bytes=8 * 60 * (1 + 3 + 9))
    with pytest.raises(InputError):
        memory_check.check_inputs([ring], 2, False, memory_bytes=8 * 60 * (1 + 3 + 9) - 1)
    memory_check.check_inputs([ring], 4, False, memory_bytes=4 * 60 * 60 * 5)


@pytest.mark.parametrize("options", [{"inputs__propagate": -1}, {"inputs__propagate": 1, "task__generator": True}])
def test_hops_that_cannot_be_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="propagate"):
        small("fedlocal", **options)


def test_the_last_hop_alone_is_as_wide_as_features() -> None:
    last = Propagated(propagate=2, hop_pooling="last")
    assert last.width(7) == 7
    np.testing.assert_array_equal(
        prepared(last, four()).features, prepared(Propagated(propagate=2), four()).features[:, 4:]
    )


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_mean_of_hops_is_as_wide_as_features(is_sparse: bool) -> None:
    mean = Propagated(propagate=2, hop_pooling="mean")
    assert mean.width(7) == 7
    hops = dense(prepared(Propagated(propagate=2), four(is_sparse)).features).reshape(4, 3, 2)
    np.testing.assert_allclose(dense(prepared(mean, four(is_sparse)).features), hops.mean(1), rtol=1e-6)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_attention_weighs_each_nodes_hops(is_sparse: bool) -> None:
    inputs, attention = Propagated(propagate=2, hop_pooling="attention"), HopAttention(2, 2)
    wide = prepared(inputs, four(is_sparse)).features
    rows = rows_of(inputs, wide, wide[:0]).dense
    assert rows is not None
    hops = dense(wide).reshape(4, 3, 2)
    np.testing.assert_allclose(attention(rows).detach().numpy(), hops.mean(1), rtol=1e-6)  # all alike at first
    with torch.no_grad():
        attention.score += torch.tensor([1.0, 0.0])
    # The score of a hop is its first number: node 3 has 3, 5/2 and 9/4, and a column of ones stays one.
    weights = np.exp([3, 5 / 2, 9 / 4]) / np.exp([3, 5 / 2, 9 / 4]).sum()
    found = attention(rows).detach().numpy()
    np.testing.assert_allclose(found[3], [weights @ [3, 5 / 2, 9 / 4], 1], rtol=1e-6)


@pytest.mark.parametrize("recipe", ["fedais", "fedlocal"])
@pytest.mark.parametrize("joined", ["concatenate", "last", "mean", "attention"])
def test_a_graph_in_parts_is_scored_layer_by_layer_as_at_once(recipe: str, joined: str) -> None:
    experiment, shards = small(recipe, inputs__propagate=2, inputs__hop_pooling=joined)
    task = experiment.plan.task
    model = model_of(task)
    for data in relayed(task, shards, model):
        at_once = data.scored(model)
        data.memory.relayed.clear()
        torch.testing.assert_close(data.scored(model), at_once)


def test_links_are_averaged_over_training_edges_alone() -> None:
    link = Link(encoder=MLP(hidden=4), inputs=Propagated(propagate=1))
    shards = Blocks(nodes=60, classes=3, clients=2, features=8).load(0)
    held = link.derived(shards[0], np.random.default_rng(0))
    data = link.fitted([held]).prepare(held, {})
    assert len(held.graph.senders) == 2 * held.edges.shape[1] < int((shards[0].senders < shards[0].own).sum())
    expected = prepared(Propagated(propagate=1), held.graph).features
    np.testing.assert_array_equal(data.nodes.features.rows(np.arange(held.graph.own)), expected)
