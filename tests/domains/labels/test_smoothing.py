"""Answers smoothed over edges: by hand, as equations, and the same in parts as in one piece."""

import numpy as np
import pytest

from fedgraft.contracts.abilities.smoothing import Means, coded, decoded
from fedgraft.domains.labels.ridge_fits import LocalFit
from fedgraft.domains.labels.smoothing import Apart, Choice, Smoothing
from fedgraft.domains.nodes.base.shards import cut, merge_shards
from fedgraft.domains.nodes.training.neighbour_sums import Neighbours
from fedgraft.engine.server.smoothing import CrossClientEdges, chosen
from helpers.node_runs import small
from helpers.toy_nodes import whole

PATH = [(0, 1), (1, 2)]


def shard_of(**options):
    graph = whole(**options)
    return cut(graph, np.zeros(graph.nodes, np.int64), ["all"])[0]


def answers_of(shard, seed=0):
    g = np.random.default_rng(seed)
    return g.dirichlet(np.ones(len(shard.classes)), shard.own).astype(np.float32)


def joined_hops(shards, smoothing, answers):
    """What each client is sent, hop by hop, as the server computes it; nothing is rounded."""
    graphs = [Neighbours(shard) for shard in shards]
    joined = CrossClientEdges.of({client: graph.boundary for client, graph in enumerate(graphs)}, len(shards))
    means = [[] for _ in shards]
    for _ in range(smoothing.hops):
        told = [smoothing.rows(graph, own, got) for graph, own, got in zip(graphs, answers, means, strict=True)]
        rows, known = joined.means(np.concatenate(told), np.ones(joined.sizes.sum(), bool))
        for client, got in enumerate(means):
            part = joined.of_client(client)
            got.append(Means(rows[part].astype(np.float32), known[part]))
    return graphs, means


def test_one_hop_by_hand():
    """A path 0 - 1 - 2; nodes 0 and 1 train, and 2 is asked for. All nodes of this graph have label 0 or 1."""
    shard = shard_of(edges=PATH, label=(0, 1, 0), split=(0, 0, 2))
    answers = np.array([[0.6, 0.4], [0.5, 0.5], [0.2, 0.8]], np.float32)
    graph = Neighbours(shard)
    assert np.allclose(graph.errors(answers), [[0.4, -0.4], [-0.5, 0.5], [0, 0]])
    assert np.allclose(graph.mean(answers, None, 2), [[0.5, 0.5], [0.4, 0.6], [0.5, 0.5]])
    smoothing = Smoothing(hops=1, classes=2, share_labels=True)
    # Node 2: 0.7 of its own answer and 0.3 of node 1's; twice 0.8 of node 1's error.
    expected = np.array([0.7 * 0.2 + 0.3 * 0.5 + 2 * 0.8 * -0.5, 0.7 * 0.8 + 0.3 * 0.5 + 2 * 0.8 * 0.5])
    found = smoothing.smoothed(graph, answers, [], {}, Choice(0.7, 0.2, 2.0))[2]
    assert np.allclose(found, np.maximum(expected, 1e-6) / np.maximum(expected, 1e-6).sum())


def test_two_hops_are_the_equation_of_appnp():
    """Gasteiger et al., Eq. (5): Z_0 = P; Z_k = (1 - a) M Z_(k-1) + a P."""
    shard = shard_of()
    answers, share = answers_of(shard), 0.3
    neighbours = np.zeros((6, 6))
    for node in range(5):
        neighbours[node, [(node - 1) % 5, (node + 1) % 5]] = 0.5
    neighbours[5, 5] = 1  # nobody beside it
    expected = answers
    for _ in range(2):
        expected = (1 - share) * neighbours @ expected + share * answers
    found = Smoothing(2, 2, False).smoothed(Neighbours(shard), answers, [], {}, Choice(share))
    assert np.allclose(found, expected, atol=1e-6)


def test_the_first_choice_leaves_answers_alone():
    shard, smoothing = shard_of(), Smoothing(2, 2, True)
    answers = answers_of(shard)
    assert smoothing.choices[0] == Choice(1.0)
    assert np.allclose(smoothing.smoothed(Neighbours(shard), answers, [], {}, smoothing.choices[0]), answers)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_clients_together_do_what_one_place_would(hops):
    _, shards = small(recipe="fedlocal")
    smoothing = Smoothing(hops, 3, share_labels=True)
    answers = [answers_of(shard, client) for client, shard in enumerate(shards)]
    graphs, means = joined_hops(shards, smoothing, answers)
    together, everything = Neighbours(merge_shards(shards)), np.concatenate(answers)
    for choice in smoothing.choices[:: 7 if hops > 1 else 1]:
        parts = [
            smoothing.smoothed(graph, own, got, {}, choice)
            for graph, own, got in zip(graphs, answers, means, strict=True)
        ]
        assert np.allclose(np.concatenate(parts), smoothing.smoothed(together, everything, [], {}, choice), atol=1e-5)


def test_without_shared_labels_rows_do_not_depend_on_them():
    _, shards = small(recipe="fedlocal")
    shard, smoothing = shards[0], Smoothing(2, 3, share_labels=False)
    answers = answers_of(shard)
    boundary = Neighbours(shard).boundary
    means = [Means(np.full((len(boundary.nodes), 2), 0.3, np.float32), np.ones(len(boundary.nodes), bool))]
    blind = type(shard)(**{**vars(shard), "label": (shard.label + 1) % 3})
    for got in ([], means):
        assert np.array_equal(*(smoothing.rows(Neighbours(each), answers, got) for each in (shard, blind)))
    with_labels = Smoothing(2, 3, share_labels=True)
    assert not np.array_equal(*(with_labels.rows(Neighbours(each), answers, []) for each in (shard, blind)))


def test_neighbours_elsewhere_that_are_not_known_are_left_out():
    _, shards = small(recipe="fedlocal")
    graph = Neighbours(shards[0])
    answers = answers_of(shards[0])
    rows = np.full((len(graph.boundary.nodes), 3), 0.5, np.float32)
    nobody = Means(rows, np.zeros(len(rows), bool))
    assert np.array_equal(graph.mean(answers, nobody, 3), graph.mean(answers, None, 3))


def test_a_number_of_a_row_is_off_by_half_a_step_at_most():
    rows = np.random.default_rng(0).uniform(-1, 1, (50, 4)).astype(np.float32)
    assert np.abs(decoded(coded(rows)) - rows).max() <= 0.5 / 127 + 1e-6
    assert coded(np.array([[2.0, -2.0]], np.float32)).tolist() == [[127, -127]]


def test_the_class_prior_by_hand():
    """Three of four training examples have class 0; the model gives half of each held-out one to either class."""
    label = np.array([0, 0, 0, 1, 0, 1])
    around = Apart(label, {"train": np.arange(4), "validation": np.array([4]), "test": np.array([5])})
    answers = np.array([[0.9, 0.1]] * 4 + [[0.6, 0.4], [0.4, 0.6]], np.float32)
    # Held-out answers have the mean (0.5, 0.5); own shares are (3 + 0.5, 1 + 0.5) / 5.
    assert np.allclose(around.prior(answers), [0.7 / 0.5, 0.3 / 0.5])
    found = Smoothing(0, 2, class_prior=True).smoothed(around, answers, [], {}, Choice(1.0, prior_weight=1.0))
    assert np.allclose(found[5], np.array([0.4 * 1.4, 0.6 * 0.6]) / (0.4 * 1.4 + 0.6 * 0.6))


@pytest.mark.parametrize("labelled", ["nobody", "nothing held out"])
def test_where_nothing_is_known_the_prior_changes_nothing(labelled):
    nodes = np.arange(3)
    train = nodes[:0] if labelled == "nobody" else nodes
    around = Apart(np.zeros(3, np.int64), {"train": train, "validation": nodes[: 3 - len(train)], "test": nodes[:0]})
    answers = np.array([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]], np.float32)
    assert np.allclose(around.prior(answers), 1.0)


def test_a_prior_that_the_model_has_already_changes_nothing():
    """Saerens et al., Eq. (4): with equal shares before and after, probabilities stay as they are."""
    around = Apart(np.array([0, 1, 0, 1]), {"train": np.arange(2), "validation": np.arange(2, 4), "test": np.arange(0)})
    answers = np.array([[0.9, 0.1], [0.1, 0.9], [0.8, 0.2], [0.2, 0.8]], np.float32)
    assert np.allclose(around.prior(answers), 1.0)


def test_few_ways_with_a_prior_and_their_words():
    few = Smoothing(2, 3, class_prior=True).choices
    assert few[0] == Choice(1.0)
    assert len(few) == len(set(few)) == 18
    assert Smoothing(0, 3, class_prior=True).choices == tuple(Choice(1.0, prior_weight=w) for w in (0.0, 0.5, 1.0))
    assert few[0].text == ""
    assert Choice(0.5, 0.5, 2.0, 0.5).text == "50% by neighbours, errors on training examples 2 times, class prior 0.5"


def test_few_ways_with_a_fit_to_own_labels():
    for options, count in (({}, 6), ({"refit": True}, 9)):
        every = Smoothing(2, 3, class_prior=True, **options).choices
        with_fit = Smoothing(2, 3, class_prior=True, local_fit=True, **options).choices
        assert with_fit[: len(every)] == every
        assert len(with_fit) == len(set(with_fit)) == len(every) + count
        assert all(choice.penalty for choice in with_fit[len(every) :])
    assert with_fit[-1].text == "a linear layer behind all hops, a fit to the client's own labels, penalty 0.03"


def test_a_fit_to_own_labels_reads_answers_after_all_hops_and_inputs():
    shard = shard_of(edges=PATH, label=(0, 1, 0), split=(0, 0, 2))
    answers, inputs = np.array([[0.6, 0.4], [0.5, 0.5], [0.2, 0.8]], np.float32), np.eye(3, dtype=np.float32)
    graph, smoothing = Neighbours(shard, inputs), Smoothing(hops=1, classes=2, local_fit=True)
    after = graph.mean(answers, None, 2)
    known = [np.stack([answers[:, 0], after[:, 0]], axis=1), inputs]
    expected = np.maximum(LocalFit(known, np.array([0, 1]), shard.label).fitted((answers + after) / 2, 0.3), 1e-6)
    found = smoothing.smoothed(graph, answers, [], {}, Choice(0.5, penalty=0.3))
    assert np.allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=1e-6)
    label, every = smoothing.validated(graph, answers, [], {})
    assert len(label) == 0
    assert all(shares.shape == (0, 2) for shares in every)


def test_the_way_with_the_largest_gain_less_half_its_error_is_chosen():
    """By hand: 9 - 0 - 3/2 = 7.5; 20 - 5 - 5/2 = 12.5; 30 - 20 - 3.5 = 6.5; 1 - 0 - 1/2."""
    tallies = np.array([[0, 0], [9, 0], [20, 5], [30, 20], [1, 0]])
    assert chosen(tallies) == 2
    assert chosen(tallies[[0, 3, 4]]) == 1


@pytest.mark.parametrize("tallies", [[[0, 0], [5, 5]], [[0, 0], [3, 4]], [[0, 0], [8, 7], [2, 2]]])
def test_a_gain_that_luck_explains_changes_nothing(tallies):
    assert chosen(np.array(tallies)) == 0
