"""AUC, average precision and hits@k of one ranking, and of several clients'."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from fedgraft.domains.links.metrics import loss_of, measures, ranked, sums_of
from fedgraft.domains.links.shards import LinkShard, whole
from fedgraft.domains.nodes.base.shards import cut
from helpers import toy_nodes


def shard_of(edge, part=None):
    """A client with these pairs, all of them test."""
    (graph,) = cut(toy_nodes.whole(toy_nodes.RING), np.zeros(6, int), ["client"])
    count = len(edge)
    pairs = np.stack([np.zeros(count), np.ones(count)]).astype(np.int32)
    parts = np.zeros(count) if part is None else np.array(part)
    return LinkShard(
        whole(graph).graph, pairs, np.full(count, 2, np.int8), np.array(edge, bool), parts.astype(np.int32)
    )


def test_worked_example():
    # From above: edge, none, edge, none, none. Of six pairs of an edge and a pair without, five are in order.
    scores, edge = np.array([0.9, 0.8, 0.7, 0.2, 0.1]), np.array([1, 0, 1, 0, 0], bool)
    auc, precision, hits = ranked(scores, edge, k=1)
    assert auc == pytest.approx(5 / 6)
    # Three pairs without an edge weigh as much as two with: at the first edge 1 of 1, at the second 2 of 2 + 2/3.
    assert precision == pytest.approx((1 + 2 / (2 + 2 / 3)) / 2)
    assert hits == 1 / 2
    assert ranked(scores, edge, k=2)[2] == 1.0


def test_equal_scores_tell_nothing():
    auc, precision, hits = ranked(np.zeros(10), np.arange(10) < 4, k=3)
    assert (auc, precision, hits) == (0.5, 0.5, 0.0)


def test_with_fewer_pairs_than_k_every_edge_is_a_hit():
    assert ranked(np.array([0.0, 1.0]), np.array([True, False]), k=10)[2] == 1.0


def test_is_what_scikit_learn_finds():
    g = np.random.default_rng(0)
    for _ in range(20):
        edge = g.random(60) < 0.4
        scores = np.round(g.random(60) + edge * 0.3, 1)  # with ties
        auc, precision, _ = ranked(scores, edge, k=5)
        weight = np.where(edge, 1.0, edge.sum() / (~edge).sum())
        assert auc == pytest.approx(roc_auc_score(edge, scores))
        assert precision == pytest.approx(average_precision_score(edge, scores, sample_weight=weight))


def test_what_is_not_finite_has_no_score():
    assert np.isnan(ranked(np.array([np.nan, 1.0]), np.array([True, False]), k=1)).all()


def test_of_several_clients_each_edge_counts_as_much_as_its_own_ranking_reaches():
    # One edge of a client whose ranking is right, three of one whose is wrong; scores of the two are never compared.
    shard = shard_of([1, 0, 1, 1, 1, 0], part=[0, 0, 1, 1, 1, 1])
    sums = sums_of(shard, np.array([-5.0, -6.0, 1.0, 2.0, 3.0, 4.0]))
    assert sums["test"]["edges"] == 4
    assert measures(sums["test"])["auc"] == pytest.approx(1 / 4)
    assert np.isnan(measures(sums["validation"])["auc"])
    assert list(measures(sums["test"], k=7)) == ["auc", "average_precision", "hits_at_7"]


def test_a_client_without_either_kind_of_pair_is_left_out():
    assert sums_of(shard_of([1, 1]), np.zeros(2))["test"]["edges"] == 0


def test_the_loss_weighs_pairs_with_and_without_an_edge_alike():
    shard = shard_of([1, 0, 0, 0])
    odds = np.array([0.0, 0.0, 0.0, 0.0])
    assert loss_of(shard, odds, "test") == pytest.approx(np.log(2))
    odds = np.array([50.0, 0.0, 0.0, 0.0])
    assert loss_of(shard, odds, "test") == pytest.approx(np.log(2) / 2)
