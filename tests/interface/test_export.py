"""Trained models as modules that need no fedgraft: they say what the run does."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import fedgraft
from fedgraft.contracts import given_networks
from fedgraft.errors import InputError
from helpers import networks

SMALL = {"rounds": 2, "training.epochs": 1, "runtime.workers": 0, "baselines": []}
NODES = {**SMALL, "data": {"name": "blocks", "nodes": 90, "clients": 2, "features": 8}, "selector.name": "all"}
GRAPHS = {**SMALL, "data": {"name": "molecules", "clients": 2, "graphs": 20}}


def trained(folder, recipe, changes):
    return fedgraft.run(recipe, out=folder / "run", overrides=changes, progress=False)


def whole(run):
    """The whole graph, its features and edges, and what the run's model says of it."""
    task, finished = run.experiment.plan.task, run._finished
    pooled = task.pooled(finished.shards)
    features = np.asarray(pooled.features if isinstance(pooled.features, np.ndarray) else pooled.features.todense())
    edges = np.stack([pooled.senders, np.repeat(np.arange(pooled.own), pooled.degree)])
    shares = task.scored(run.model, task.prepare(pooled, {}))
    return torch.from_numpy(features), torch.from_numpy(edges.astype(np.int64)), shares


@pytest.mark.parametrize(
    "options",
    [
        {"model": {"name": "sage", "hidden": [6, 4]}},
        pytest.param({"model": {"name": "gcn", "hidden": [6, 4]}}, marks=pytest.mark.slow),
        {"model": {"name": "gin", "hidden": 4}, "inputs.scale": 2.0},
        pytest.param({"model": {"name": "mlp", "hidden": 4}}, marks=pytest.mark.slow),
        {"model": {"name": "mlp", "hidden": []}},
        {"model": {"name": "sage", "hidden": 4}, "task.head": "convolution"},
        {"model": {"name": "sage", "hidden": 4}, "data.sparse": True},
        {"model": {"name": "torch_geometric.nn:GCN", "hidden_channels": 6, "num_layers": 2}},
        pytest.param({"model": {"name": "helpers.networks:Two"}, "inputs.scale": 2.0}, marks=pytest.mark.slow),
        pytest.param(
            {"model": {"name": "mlp", "hidden": 4}, "inputs.scale": 2.0, "inputs.propagate": 2}, marks=pytest.mark.slow
        ),
        {"model": {"name": "gcn", "hidden": 4}, "data.sparse": True, "inputs.propagate": 1},
        {"model": {"name": "helpers.networks:Two"}, "inputs.propagate": 1, "inputs.hop_pooling": "attention"},
        pytest.param(
            {"model": {"name": "mlp", "hidden": []}, "inputs.propagate": 2, "inputs.hop_pooling": "last"},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"model": {"name": "mlp", "hidden": []}, "inputs.propagate": 2, "inputs.hop_pooling": "mean"},
            marks=pytest.mark.slow,
        ),
        {"model": {"name": "mlp", "hidden": [4]}, "inputs.propagate": 2, "inputs.hop_pooling": "attention"},
        {"model": {"name": "gat", "hidden": 4, "embedding": 4}},
        {"model": {"name": "multigraph", "hidden": 4, "maxima": True}, "inputs.propagate": 1},
    ],
    ids=[
        *("sage", "gcn", "gin-scaled", "mlp", "linear", "convolution", "sparse", "network", "network-scaled"),
        *("averaged-scaled", "averaged-sparse", "averaged-network", "averaged-last", "averaged-mean"),
        *("averaged-attention", "gat", "multigraph"),
    ],
)
def test_a_node_model_says_of_the_whole_graph_what_the_runs_does(tmp_path, options):
    run = trained(tmp_path, "fedais", {**NODES, **options})
    features, edges, shares = whole(run)
    along = [torch.ones(edges.shape[1], dtype=torch.bool)] * (options["model"]["name"] == "multigraph")
    with torch.no_grad():
        found = run.export()(features, edges, *along).softmax(1)
    np.testing.assert_allclose(found.numpy(), shares, atol=1e-6 if "inputs.propagate" in options else 1e-5)


def test_a_model_of_nodes_numbers_tells_them_in_the_unit_of_the_user(tmp_path):
    g = np.random.default_rng(0)
    names = [f"n{number}" for number in range(40)]
    nodes = pd.DataFrame({"node": names, "x": g.normal(size=40), "y": g.normal(5, 3, 40), "client": ["a", "b"] * 20})
    edges = pd.DataFrame({"source": names, "target": names[2:] + names[:2]})
    data = {"nodes": nodes, "edges": edges, "label": "y"}
    run = fedgraft.run("node_regression", data=data, out=tmp_path / "run", overrides=SMALL, progress=False)
    pooled = run.experiment.plan.task.pooled(run._finished.shards)
    ends = np.stack([pooled.senders, np.repeat(np.arange(pooled.own), pooled.degree)]).astype(np.int64)
    with torch.no_grad():
        found = run.export()(torch.from_numpy(np.asarray(pooled.features)), torch.from_numpy(ends))[:, 0]
    told = run.predict(pd.DataFrame({"node": pooled.ids}))
    np.testing.assert_allclose(found.numpy(), told["prediction"], rtol=1e-4)


@pytest.mark.parametrize(
    ("encoder", "places"),
    [
        ("sage", True),
        ("gcn", False),
        ("gcn", True),
        ("gin", False),
        ("mlp", True),
        ("helpers.networks:Two", True),
        ("helpers.networks:Pooling", False),
    ],
)
def test_a_graph_model_says_of_graphs_what_the_clients_does(tmp_path, encoder, places):
    model = {"name": encoder, "hidden": 4 if ":" in encoder else [4, 4]}
    changes = {**GRAPHS, "model": model, "sharing.name": "fedavg", "task.places": places, "task.walks": 5}
    run = trained(tmp_path, "cefgl", changes)
    finished = run._finished
    for number, name in enumerate(finished.names):
        shard, model = finished.shards[number], run.export(name)
        x = torch.from_numpy(np.concatenate([np.eye(shard.kinds + 1)[shard.kind][:, :-1], shard.attributes], 1)).float()
        edges = torch.from_numpy(shard.edges[::-1].astype(np.int64))
        graph = torch.from_numpy(np.repeat(np.arange(shard.graphs), shard.sizes))
        task = finished.plan.task
        collator = task._collator(shard)
        with torch.no_grad():
            expected = run.models[name](collator.batch(np.arange(shard.graphs)))
            torch.testing.assert_close(model(x, edges, graph), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "changes", [{}, {"sharing.name": "fedavg", "task.structure": True}], ids=["several", "structure"]
)
def test_several_models_and_the_channel_of_structure_are_exported(tmp_path, changes):
    """By default clients of `cefgl` answer with two models."""
    run = trained(tmp_path, "cefgl", {**GRAPHS, "model": {"name": "gin", "hidden": [4, 4]}, "task.walks": 5, **changes})
    (name, *_), (shard, *_) = run._finished.names, run._finished.shards
    graph = torch.from_numpy(np.repeat(np.arange(shard.graphs), shard.sizes))
    x = torch.from_numpy(np.concatenate([np.eye(shard.kinds + 1)[shard.kind][:, :-1], shard.attributes], 1)).float()
    with torch.no_grad():
        found = run.export(name)(x, torch.from_numpy(shard.edges[::-1].astype(np.int64)), graph)
        expected = run.experiment.plan.task.outputs_of(run.models[name], shard)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("encoder", ["gin", "sage"])
def test_a_model_of_graphs_numbers_tells_them_in_the_unit_of_the_user(tmp_path, encoder):
    changes = {**GRAPHS, "model": {"name": encoder, "hidden": [4, 4]}, "task.walks": 5}
    run = trained(tmp_path, "graph_regression", changes)
    finished, task = run._finished, run._finished.plan.task
    for number, name in enumerate(finished.names):
        shard, model = finished.shards[number], run.export(name, tmp_path / name)
        x = torch.from_numpy(np.concatenate([np.eye(shard.kinds + 1)[shard.kind][:, :-1], shard.attributes], 1)).float()
        edges = torch.from_numpy(shard.edges[::-1].astype(np.int64))
        graph = torch.from_numpy(np.repeat(np.arange(shard.graphs), shard.sizes))
        with torch.no_grad():
            outputs = run.models[name](task._collator(shard).batch(np.arange(shard.graphs)))
            expected = task.labels.answers(outputs, task.unit_of(shard))["prediction"]
            np.testing.assert_allclose(model(x, edges, graph)[:, 0].numpy(), expected, rtol=1e-4, atol=1e-4)
        assert "a number for each graph, in the unit of the labels" in (tmp_path / name / "README.md").read_text()


@pytest.mark.parametrize(
    "options",
    [
        {"task.decoder": "perceptron", "model": {"name": "gin", "hidden": 4}},
        {"task.likeness": True, "inputs.scale": 2.0, "model": {"name": "sage", "hidden": [6, 4]}},
        {"model": {"name": "mlp", "hidden": []}},
        {"model": {"name": "torch_geometric.nn:GCN", "hidden_channels": 6, "num_layers": 2}},
        {"inputs.propagate": 2, "task.likeness": True, "inputs.scale": 2.0, "model": {"name": "mlp", "hidden": 4}},
        {"inputs.propagate": 2, "inputs.hop_pooling": "attention", "model": {"name": "sage", "hidden": 4}},
        {"inputs.propagate": 2, "model": {"name": "torch_geometric.nn:GCN", "hidden_channels": 6, "num_layers": 2}},
    ],
    ids=["perceptron", "likeness", "linear", "network", "averaged", "averaged-attention", "averaged-network"],
)
def test_a_model_of_links_says_of_pairs_what_the_runs_does(tmp_path, options):
    run = trained(tmp_path, "links", {**NODES, **options})
    finished, model = run._finished, run.export()
    shard = finished.shards[0]
    graph, pairs = shard.graph, shard.pairs.astype(np.int64)
    edges = np.stack([graph.senders, np.repeat(np.arange(graph.own), graph.degree)]).astype(np.int64)
    with torch.no_grad():
        found = model(*map(torch.from_numpy, (np.asarray(graph.features), edges, pairs)))
    expected = finished.plan.task.prepare(shard, {}).scores(run.model, pairs)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_the_folder_needs_no_fedgraft(tmp_path):
    run = trained(tmp_path, "fedais", {**NODES, "model": {"name": "sage", "hidden": 4}})
    features, edges, shares = whole(run)
    run.export(folder=tmp_path / "model")
    np.savez(tmp_path / "graph.npz", x=features.numpy(), edges=edges.numpy())
    script = (
        "import sys; sys.modules['fedgraft'] = None\n"
        "import numpy as np, torch\n"
        "from model import CLASSES, load\n"
        "graph = np.load('../graph.npz')\n"
        "model = load()\n"
        "assert 'model.convolutions.0.mean.weight' in model.state_dict() and len(CLASSES) == 5\n"
        "with torch.no_grad():\n"
        "    logits = model(torch.from_numpy(graph['x']), torch.from_numpy(graph['edges']))\n"
        "np.save('../said.npy', logits.softmax(1).numpy())\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path / "model", check=True)
    np.testing.assert_allclose(np.load(tmp_path / "said.npy"), shares, atol=1e-5)
    assert "float32 [nodes, 8]" in (tmp_path / "model" / "README.md").read_text()


@pytest.mark.parametrize(
    ("recipe", "changes", "client", "message"),
    [
        ("cefgl", {**GRAPHS, "task.wl": 1, "model.hidden": 4, "sharing.name": "fedavg"}, "own", r"task.wl must be 0"),
        ("cefgl", {**GRAPHS, "model.hidden": 4}, None, r"a model of its own; say whose with client, one of '"),
    ],
)
def test_what_has_no_counterpart_is_refused(tmp_path, recipe, changes, client, message):
    run = trained(tmp_path, recipe, changes)
    with pytest.raises(InputError, match=message):
        run.export(client and next(iter(run.models)))


def test_an_instance_of_a_network_cannot_be_exported(tmp_path):
    module = given_networks.keep(given_networks.stored(networks.Two(8)))
    run = trained(tmp_path, "fedais", {**NODES, "model": {"name": "network", "module": module}})
    with pytest.raises(
        InputError, match=r"^model \(an instance of Two\) cannot be written as source text.*torch\.save"
    ):
        run.export()


RATINGS = {
    **SMALL,
    "data": {"name": "shops", "users": 80, "items": 60, "links": 400, "count": 1000, "clients": 3, "categories": 6},
}


def asked(run, name):
    """Pairs of some of the users and all items of a client, and how the run rates them."""
    shard = run._finished.shards[run._finished.number(name)]
    pairs = [(str(user), str(item)) for user in shard.user_ids[:6] for item in shard.item_ids]
    answers = run.predict(pd.DataFrame(pairs, columns=["user", "item"]).assign(client=name))
    return pairs, answers["rating"].to_numpy()


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        pytest.param("fedacs", {"model": {"name": "gat", "hidden": 4, "embedding": 4}}, marks=pytest.mark.slow),
        ("fedacs", {"model": {"name": "gcn", "hidden": 4, "embedding": 4, "layers": 3}, "task.walk": 3}),
        ("fedacs", {"model": {"name": "mlp", "hidden": 4}, "task.share": "nothing"}),
        ("fedacs", {"model": {"name": "helpers.networks:Two"}}),
        pytest.param("graft_rating", {"sharing.name": "fedper"}, marks=pytest.mark.slow),
        ("graft_rating", {}),
    ],
    ids=["gat", "gcn", "mlp", "network", "private", "alone"],
)
def test_a_rating_model_gives_pairs_the_ratings_that_the_client_does(tmp_path, recipe, options):
    run = trained(tmp_path, recipe, {**RATINGS, "task.share_least": 2, **options, "training.epochs": 2})
    for name in run._finished.names:
        pairs, expected = asked(run, name)
        model = run.export(name, tmp_path / "model")
        client = model.forward.__globals__["Client"](tmp_path / "model")
        with torch.no_grad():
            found = model(*client.inputs(pairs)).clamp(*client.scale)
        assert expected.std() > 0.1
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


def test_a_rating_model_of_all_clients_is_the_one_of_each(tmp_path):
    run = trained(tmp_path, "fedacs", {**RATINGS, "model": {"name": "gcn", "hidden": 4, "embedding": 4}})
    everyones, ones = run.export(folder=tmp_path / "all").state_dict(), run.export(run._finished.names[0]).state_dict()
    assert everyones.keys() == ones.keys()
    assert all(torch.equal(everyones[name], ones[name]) for name in ones)
    assert not (tmp_path / "all" / "client.json").exists()


def test_a_model_of_tables_cannot_be_exported(tmp_path):
    run = trained(tmp_path, "fesog", {**RATINGS})
    with pytest.raises(InputError, match=r"task.embeddings must be false"):
        run.export(run._finished.names[0])
