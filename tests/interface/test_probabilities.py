"""Beside the likeliest class: every class's probability, and the last hidden layer."""

import numpy as np
import pandas as pd
import pytest
import torch

import fedgraft
from fedgraft.errors import InputError

SMALL = {"rounds": 2, "runtime.workers": 0, "baselines": [], "model.hidden": 4}
NODES = {**SMALL, "data": {"name": "blocks", "nodes": 90, "clients": 2, "features": 8}, "selector.name": "all"}
GRAPHS = {**SMALL, "data": {"name": "molecules", "clients": 2, "graphs": 60}}
TYPED = {**SMALL, "data": {"name": "typed_blocks", "papers": 40, "clients": 2, "features": 8}, "selector.name": "all"}
TYPED["model.hidden"] = 8


@pytest.fixture(scope="module", params=[("fedais", NODES), ("rafhgl", TYPED)], ids=["node", "typed"])
def run(request, tmp_path_factory):
    recipe, changes = request.param
    return fedgraft.run(recipe, out=tmp_path_factory.mktemp("run") / "run", overrides=changes, progress=False)


@pytest.fixture(scope="module")
def graph_run(tmp_path_factory):
    return fedgraft.run("cefgl", out=tmp_path_factory.mktemp("run") / "run", overrides=GRAPHS, progress=False)


def asked_graphs(run):
    shard = run._finished.shards[0]
    nodes = pd.DataFrame({"graph": ["g"] * 2 + ["h"] * 3, "node": [0, 1, 0, 1, 2], "kind": shard.kind_names[0]})
    edges = pd.DataFrame({"graph": ["g", "h", "h"], "source": [0, 0, 1], "target": [1, 1, 2]})
    return {"nodes": nodes, "edges": edges, "client": shard.name}


def check_shares(found):
    columns = [name for name in found if name.startswith("probability_")]
    shares = found[columns].dropna(axis=1)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(shares.max(axis=1), found["probability"])
    assert ("probability_" + found["class"]).tolist() == shares.idxmax(axis=1).tolist()


def test_nodes_get_the_probability_of_every_class_where_it_is_asked_for(run):
    test = run.embeddings()["node"][:4].tolist()
    nodes = pd.DataFrame({"node": test})
    check_shares(run.predict(nodes, probabilities=True))
    assert "probability_0" not in run.predict(nodes)


def test_graphs_get_the_probability_of_every_class(graph_run):
    check_shares(graph_run.predict(**asked_graphs(graph_run), probabilities=True))


def test_ratings_have_no_classes(finished_run):
    pairs = pd.DataFrame({"user": ["user-01"], "item": ["item-01"]})
    with pytest.raises(InputError, match=r"Task 'rating' tells no probabilities of classes"):
        fedgraft.open(finished_run).predict(pairs, probabilities=True)


def test_embeddings_are_of_all_test_nodes_or_of_those_asked_for(run):
    every = run.embeddings()
    assert len(every) == sum(len(shard.rows("test")) for shard in run._finished.shards)
    assert list(every)[:3] == ["client", "node", "embedding_0"]
    some = run.embeddings(pd.DataFrame({"node": every["node"][[2, 0]].tolist()}))
    columns = [name for name in every if name.startswith("embedding_")]
    np.testing.assert_allclose(some[columns], every.loc[[2, 0], columns], atol=1e-6)


def test_embeddings_of_nodes_are_what_the_last_layer_reads(run):
    if run.experiment.data.task != "node":
        pytest.skip("the head of the task 'typed_node' is tested with its model")
    every = run.embeddings()
    hidden = torch.tensor(every[[name for name in every if name.startswith("embedding_")]].to_numpy(np.float32))
    with torch.no_grad():
        shares = run.model.head(hidden).softmax(1).numpy()
    told = run.predict(every[["node", "client"]], probabilities=True)
    np.testing.assert_allclose(told[[name for name in told if name.startswith("probability_")]], shares, atol=1e-5)


def test_embeddings_of_graphs(graph_run):
    every = graph_run.embeddings()
    assert set(every["client"]) == set(graph_run.models)
    asked = graph_run.embeddings(**asked_graphs(graph_run))
    assert asked["graph"].tolist() == ["g", "h"]
    assert asked.filter(like="embedding_").shape == (2, 4)


def test_ratings_have_no_embeddings(finished_run):
    with pytest.raises(InputError, match=r"Task 'rating' has no embeddings to tell"):
        fedgraft.open(finished_run).embeddings()
