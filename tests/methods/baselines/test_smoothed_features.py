from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from fedgraft.domains.examples import scaled
from fedgraft.domains.nodes.base.shards import NodeShard, cut, pooled
from fedgraft.domains.nodes.training.perceptron import ACCURACY
from fedgraft.errors import InputError
from fedgraft.methods.baselines import smoothed_features
from fedgraft.methods.baselines.smoothed_features import SmoothedFeatures
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.data.pyg_nodes import PygNodes
from helpers.toy_nodes import whole

BLOCKS = Blocks(nodes=300, classes=3, clients=3, features=20)


def products(graph: NodeShard, hops: int) -> np.ndarray:
    """[X, SX ...] in full."""
    features = scaled(graph.features, 1.0)
    parts = [features.toarray() if sparse.issparse(features) else features]
    ones = np.ones(len(graph.senders))
    loops = sparse.csr_matrix((ones, graph.senders, graph.pointers), (graph.own, graph.own)).toarray() + np.eye(
        graph.own
    )
    means = loops / loops.sum(axis=1, keepdims=True)
    for _ in range(hops):
        parts.append(means @ parts[-1])
    return np.hstack(parts)


def test_a_path_of_three_by_hand() -> None:
    graph = whole([(0, 1), (1, 2)], [0, 1, 0])
    graph = replace(graph, features=np.array([[-1], [5], [1]], np.float32))
    fit = smoothed_features._Fit(pooled(cut(graph, np.array([0, 1, 1]), ("a", "b"))), hops=2)
    # x, rows of length one: -1, 1, 1. Means: 0, 1/3, 1; means of these: 1/6, 4/9, 2/3. Weights 1, 10, 100; 7 beside.
    found = fit.scores(np.array([[1, 0], [10, 0], [100, 0], [7, 3]], np.float64).ravel())
    assert found[:, 0] == pytest.approx(np.array([-1 + 100 / 6, 1 + 10 / 3 + 400 / 9, 1 + 10 + 200 / 3]) + 7, rel=1e-5)
    assert found[:, 1].tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("hops", [0, 1, 3])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_scores_are_those_of_the_products(hops: int, is_sparse: bool) -> None:
    graph = pooled(replace(BLOCKS, sparse=is_sparse).load(0))
    fit = smoothed_features._Fit(graph, hops)
    weights = np.random.default_rng(0).standard_normal((fit.size // 3, 3))
    expected = products(graph, hops) @ weights[:-1] + weights[-1]
    np.testing.assert_allclose(fit.scores(weights.ravel()), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("hops", [0, 2])
def test_the_gradient_is_that_of_finite_differences(hops: int) -> None:
    fit = smoothed_features._Fit(pooled(BLOCKS.load(0)), hops)
    g = np.random.default_rng(1)
    at, direction = g.standard_normal((2, fit.size))
    ends = [fit.loss(at + sign * 1e-2 * direction, 0.5)[0] for sign in (1, -1)]
    assert (ends[0] - ends[1]) / 2e-2 == pytest.approx(float(fit.loss(at, 0.5)[1] @ direction), rel=1e-2)


@pytest.mark.parametrize("penalty", [0.1, 10.0])
def test_the_fit_is_scikit_learn_s_on_the_products(penalty: float) -> None:
    graph = pooled(BLOCKS.load(0))
    train, inputs = graph.rows("train"), products(graph, 2)
    theirs = LogisticRegression(C=penalty, max_iter=5000, tol=1e-6).fit(inputs[train], graph.label[train])
    fit = smoothed_features._Fit(graph, 2)
    ours = fit.scores(fit.minimise(np.zeros(fit.size), penalty, 500)).astype(np.float64)
    log_odds = theirs.decision_function(inputs)
    centred = ours - ours.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(centred, log_odds - log_odds.mean(axis=1, keepdims=True), atol=0.05)


def test_neighbours_tell_more() -> None:
    shards = replace(BLOCKS, nodes=600, signal=1.0, homophily=0.9).load(0)
    assert SmoothedFeatures().score(shards)["test"] > SmoothedFeatures(hops=0).score(shards)["test"] + 0.1


def test_it_does_not_matter_who_has_which_node() -> None:
    graph = BLOCKS.graph(0)
    graph = replace(graph, split=(np.arange(graph.nodes) % 3).astype(np.int8))
    owners = [np.arange(graph.nodes) // 150, np.arange(graph.nodes) % 2]
    found = [SmoothedFeatures().score(cut(graph, owner, ("a", "b"))) for owner in owners]
    assert found[0] == pytest.approx(found[1], abs=0.02)


def test_classes_without_training_nodes_are_never_predicted() -> None:
    graph = pooled(BLOCKS.load(0))
    split = np.where((graph.label == 1) & (graph.split == 0), -1, graph.split).astype(np.int8)
    assert set(SmoothedFeatures().answers(replace(graph, split=split), ACCURACY).argmax(1).tolist()) == {0, 2}


def test_test_labels_change_no_prediction() -> None:
    graph = pooled(BLOCKS.load(0))
    blind = replace(graph, label=np.where(graph.split == 2, 0, graph.label))
    first, second = (SmoothedFeatures().answers(each, ACCURACY).argmax(1) for each in (graph, blind))
    assert (first == second).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hops": -1}, "SmoothedFeatures.hops must be >= 0; got -1"),
        ({"penalties": ()}, "SmoothedFeatures.penalties must be at least one number, each > 0"),
        ({"penalties": (1.0, 0.0)}, "SmoothedFeatures.penalties must be at least one number, each > 0"),
        ({"iterations": 0}, "SmoothedFeatures.iterations must be >= 1; got 0"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SmoothedFeatures(**options)  # type: ignore[arg-type]


@pytest.mark.data
def test_pubmed(data_root: Path) -> None:
    assert 0.88 < SmoothedFeatures().score(PygNodes(data_root / "Planetoid").load(1))["test"] < 0.92
