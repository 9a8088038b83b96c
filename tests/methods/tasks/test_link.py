"""Link prediction: what a step learns from, what it never sees, what its options may be."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from fedgraft.contracts import Batch
from fedgraft.contracts.abilities.tasks import derived_shards
from fedgraft.domains.links.model import LinkData
from fedgraft.domains.links.queries import PairQuery
from fedgraft.domains.links.shards import codes_of, whole
from fedgraft.domains.nodes.base.shards import cut
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.inputs.raw_features import RawFeatures
from fedgraft.methods.losses.pair_entropy import PairEntropy
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.link import Link
from helpers import toy_nodes
from helpers.stages import staged

BLOCKS = Blocks(nodes=120, classes=3, clients=2, features=8, degree=8.0)
SMALL = {"data.name": "blocks", "data.nodes": 150, "data.clients": 3, "data.degree": 12.0, "data.homophily": 0.95}
QUICK = {**SMALL, "data.signal": 3.0, "rounds": 6, "runtime.workers": 0, "baselines": []}


def made(**options):
    """A task fitted to two clients, and one's prepared data with a model."""
    task = Link(SAGE(hidden=8, layers=1), **staged("link", {"width": 4, **options}))
    shards = derived_shards(task, BLOCKS.load(1), 1)
    task = task.fitted(shards)
    return task, task.prepare(shards[0], {}), task.model(torch.Generator().manual_seed(1)).eval()


def test_the_score_of_a_pair_is_the_product_of_its_embeddings_and_a_bias():
    _, data, model = made()
    pairs = data.edges[:, :5]
    with torch.no_grad():
        model.bias.fill_(0.5)
        embeddings = model.nodes(data.nodes.whole().inputs, data.nodes.whole().hops, data.nodes.stored)
        expected = (embeddings[pairs[0]] * embeddings[pairs[1]]).sum(1) + 0.5
    assert np.allclose(data.scores(model, pairs), expected, atol=1e-6)
    assert np.allclose(data.scores(model, pairs[::-1]), expected, atol=1e-6), "a pair has no direction"


@pytest.mark.parametrize("sparse", [False, True])
def test_likeness_adds_ten_times_the_cosine_of_the_features_at_first(sparse):
    """(3, 4) and (4, 3) have a cosine of 0.96; with what has no feature a pair has one of 0."""
    features = np.array([[3, 4], [4, 3], [0, 0], [-3, -4]], np.float32)
    graph = toy_nodes.whole([(0, 1), (1, 2), (2, 3)], label=[0] * 4)
    graph = replace(graph, features=csr_matrix(features) if sparse else features)
    (shard,) = cut(graph, np.zeros(4, int), ["client"])
    pairs, ids = np.array([[0, 0, 0], [1, 2, 3]]), np.array([["a"] * 3, ["b", "c", "d"]], object)
    found = {}
    for likeness in (False, True):
        task = Link(SAGE(hidden=4, layers=1), features=2, sparse=sparse, likeness=likeness)
        model = task.model(torch.Generator().manual_seed(1)).eval()
        data = task.prepare(whole(shard), {})
        found[likeness] = data.scores(model, pairs)
        told = data.log_odds(model, pairs, (0,)).detach()
        assert np.allclose(told, found[likeness], atol=1e-6), "in training as in scores"
        answers = task.predict(model, whole(shard), {}, PairQuery(ids, pairs, None))
        assert np.allclose(answers["score"], 1 / (1 + np.exp(-found[likeness])), atol=1e-6)
    assert np.allclose(found[True] - found[False], [9.6, 0, -10], atol=1e-5)


def test_the_weight_of_likeness_is_learnt():
    task, data, model = made(likeness=True)
    task.loss(model, data, Batch(np.arange(9), seed=2), None).sum().backward()
    assert model.likeness.grad.abs() > 0
    assert {name for name, _ in model.named_parameters()} - {name for name, _ in made()[2].named_parameters()} == {
        "likeness"
    }


def test_the_loss_is_that_of_an_edge_and_the_mean_of_what_it_is_drawn_against():
    task, data, model = made(objective=PairEntropy(3))
    draw = Batch(np.array([4, 2]), seed=9)
    others, found = data.without_edge(draw.examples, 3, 9)
    assert found.all()
    yes, no = data.scores(model, data.edges[:, draw.examples]), data.scores(model, others)
    expected = np.logaddexp(0, -yes) + np.logaddexp(0, no).reshape(2, 3).mean(1)
    assert np.allclose(task.loss(model, data, draw, None).detach(), expected, atol=1e-5)


def test_a_step_learns_against_pairs_without_a_training_edge():
    _, data, _ = made()
    examples = np.arange(data.edges.shape[1])
    pairs, found = data.without_edge(examples, 4, seed=3)
    assert found.all()
    assert not np.isin(codes_of(pairs, 60), codes_of(data.edges, 60)).any()
    assert (pairs[0] != pairs[1]).all()
    assert len(np.unique(codes_of(pairs, 60))) > 300, "they are spread over all pairs"
    one, _ = data.without_edge(examples[7:9], 4, seed=3)
    assert np.array_equal(one, pairs[:, 28:36]), "an edge's pairs do not depend on the rest of the draw"


def test_where_every_pair_has_an_edge_there_is_nothing_to_learn_against():
    edges = [(a, b) for a in range(4) for b in range(a)]
    (complete,) = cut(toy_nodes.whole(edges, label=[0] * 4), np.zeros(4, int), ["client"])
    data = LinkData.of(whole(complete), SAGE(), 1, RawFeatures())
    assert not data.without_edge(np.arange(6), 2, seed=1)[1].any()
    task = Link(SAGE(hidden=4, layers=1), features=2)
    model = task.model(torch.Generator().manual_seed(1))
    assert torch.isfinite(task.loss(model, data, Batch(np.arange(6)), None)).all()


def test_edges_held_out_change_nothing_in_training():
    task = Link(SAGE(hidden=8, layers=1), width=4)
    (shard,) = Blocks(nodes=60, classes=2, clients=1, features=8).load(1)
    derived = task.derived(shard, np.random.default_rng(0))
    bare = whole(derived.graph)  # as if the edges held out had never been
    task = task.fitted([derived])
    model = task.model(torch.Generator().manual_seed(1))
    draw = Batch(np.arange(derived.edges.shape[1]), seed=5)
    losses = [task.loss(model, task.prepare(each, {}), draw, None) for each in (derived, bare)]
    assert torch.equal(*losses)


def test_all_neighbours_drawn_are_all_neighbours():
    task, data, model = made()
    drawn, _, _ = made(**{"exchange.neighbours": 1000})
    draw = Batch(np.arange(9), seed=2)
    assert torch.allclose(task.loss(model, data, draw, None), drawn.loss(model, data, draw, None), atol=1e-6)


def test_a_client_without_edges_does_not_train_and_is_not_scored():
    task = Link(SAGE(hidden=8, layers=1), width=4)
    lonely, ring = cut(toy_nodes.whole(toy_nodes.RING), np.array([1, 1, 1, 1, 1, 0]), ["lonely", "ring"])
    shards = derived_shards(task, [lonely, ring], 1)
    task = task.fitted(shards)
    model = task.model(torch.Generator().manual_seed(1)).eval()
    first, second = (task.prepare(shard, {}) for shard in shards)
    assert [task.examples(first), task.examples(second)] == [0, 3]
    assert task.evaluate(model, first)["test"] == dict.fromkeys(task.sums, 0.0)
    assert 0 <= task.score(task.evaluate(model, second)["test"]) <= 1


@pytest.mark.parametrize("decoder", ["product", "perceptron"])
def test_a_federation_learns_which_nodes_are_joined(decoder):
    summary = execute(load("links", {**QUICK, "task.decoder": decoder}))
    assert summary["test"] > 0.65
    assert summary["measures"]["test"].keys() == {"auc", "average_precision", "hits_at_10"}


def test_all_data_in_one_place_are_scored_on_the_same_pairs():
    summary = execute(load("links", {**QUICK, "rounds": 2, "baselines": ["centralised", "local_only"]}))
    for name in ("centralised", "local_only"):
        assert 0.4 < summary["baselines"][name] <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, r"Link\.width must be >= 1; got 0\."),
        ({"k": 0}, r"Link\.k must be >= 1; got 0\."),
        ({"exchange.neighbours": -1}, r"exchange\.neighbours must be >= 0; got -1\."),
        ({"test": 0.0}, r"Link\.test must be in \(0, 1\); got 0\.0\."),
        ({"validation": 0.5, "test": 0.5}, r"Link\.validation \+ Link\.test must be below 1, so that edges are left"),
        ({"inputs.scale": -1.0}, r"inputs\.scale must be >= 0 \(0 = as they are\); got -1\.0\."),
    ],
)
def test_errors_name_the_option(options, message):
    with pytest.raises(InputError, match=message):
        Link(SAGE(), **staged("link", options))


def test_clients_without_any_edge_are_told():
    task = Link(SAGE())
    shards = derived_shards(task, cut(toy_nodes.whole(), np.array([0, 1, 0, 1, 2, 2]), ["a", "b", "c"]), 1)
    with pytest.raises(InputError, match="None of the 3 clients has an edge between two nodes of its own"):
        task.fitted(shards)


def test_a_task_reads_the_data_that_it_is_for():
    with pytest.raises(InputError, match=r"task\.name = 'link' cannot use this data, which is for 'rating'\."):
        load("links", {"data.name": "shops"})
    with pytest.raises(InputError, match=r"task\.name = 'lnk' cannot use this data, which is for 'node' or .*'link'\."):
        load("links", {"task.name": "lnk"})


@pytest.mark.data
def test_cora(data_root: Path):
    given = {"data.name": "cora", "data.root": str(data_root / "Planetoid"), "data.clients": 5}
    summary = execute(load("links", {**given, "data.partition": "louvain", "rounds": 10, "runtime.workers": 0}))
    assert summary["test"] > 0.8
    assert {"adamic_adar", "feature_cosine", "preferential_attachment"} == summary["baselines"].keys()
