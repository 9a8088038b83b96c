"""Runs of whole networks: in every kind of task, the same bits wherever they run, and what a folder keeps."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.nn import GraphSAGE

import fedgraft
from fedgraft.contracts import given_networks
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage import outside_classes
from helpers.killed_runs import measured
from helpers.resumed_runs import KILL, resumed_alike, worked_alike
from helpers.tiny import TINY

OFTEN = {"runtime.workers": 0, "baselines": [], "checkpoint.every_seconds": 0, "rounds": 3}
NODES = {**OFTEN, "data": {"name": "blocks", "nodes": 90, "clients": 2, "features": 8}, "selector.name": "all"}
GRAPHS = {**OFTEN, "data": {"name": "molecules", "clients": 2, "graphs": 40}}
RATINGS = {**OFTEN, **TINY}
MINE = "helpers.networks"
SAGE = {"name": "torch_geometric.nn:GraphSAGE", "hidden_channels": 8, "num_layers": 2}
RUNS = {
    "fedall": {**NODES, "model": {"name": f"{MINE}:Two"}},
    "node_regression": {**OFTEN, "data.nodes": 90, "data.clients": 2, "data.features": 8, "model": SAGE},
    "cefgl": {**GRAPHS, "model": {"name": f"{MINE}:Pooling", "hidden": 4}},
    "graph_regression": {**OFTEN, "data.clients": 2, "data.graphs": 20, "model": SAGE},
    "fedacs": {**RATINGS, "model": {"name": f"{MINE}:Attending", "edge_dim": 6}},
}


@pytest.fixture
def network():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        yield GraphSAGE(8, 8, 2)


def instance_of(network):
    return {"name": "network", "module": given_networks.keep(given_networks.stored(network))}


@pytest.mark.parametrize("recipe", RUNS)
def test_a_resumed_run_ends_alike(whole_run, tmp_path, recipe):
    resumed_alike(whole_run, load(recipe, RUNS[recipe]), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RUNS)
def test_two_workers_end_alike(whole_run, recipe):
    worked_alike(whole_run, load(recipe, RUNS[recipe]))


@pytest.mark.slow
def test_so_does_a_run_of_an_instance_wherever_its_folder_is(whole_run, tmp_path, network):
    experiment = load("fedall", {**NODES, "model": instance_of(network)})
    worked_alike(whole_run, experiment)
    run = whole_run(experiment, (KILL,))
    given_networks._KEPT.clear()  # as in another process
    assert measured(resume(run.killed(KILL, tmp_path / "moved"))) == run.summary


def test_an_instance_is_an_argument_and_its_weights_are_the_first_model(tmp_path, network):
    before = {name: value.clone() for name, value in network.state_dict().items()}
    data = {"name": "blocks", "nodes": 90, "clients": 2, "features": 8}
    quick = {"rounds": 1, "runtime": {"workers": 0}, "baselines": [], "progress": False}
    run = fedgraft.run("fedall", data=data, model=network, selector={"name": "all"}, out=tmp_path / "run", **quick)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items()), "it is not touched"
    first = run.experiment.plan.build_model().module.convolutions[0].module.state_dict()
    assert all(torch.equal(before[name], value) for name, value in first.items())
    assert not torch.equal(run.model.convolutions[0].module.convs[0].lin_l.weight, before["convs.0.lin_l.weight"])
    assert torch.load(tmp_path / "run" / "network.pt", weights_only=False).hidden_channels == 8
    answers = fedgraft.open(tmp_path / "run").predict(pd.DataFrame({"node": [0, 1]}))
    assert {"node", "class"} <= {*answers.columns}
    assert len(fedgraft.open(tmp_path / "run").embeddings()) > 0


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.unlink(), r"network\.pt is missing, and with it the network that the run was given"),
        (lambda path: path.write_bytes(b"another"), r"network\.pt is damaged: it is not the network that the run was"),
    ],
)
def test_a_folder_without_its_network_is_told(tmp_path, network, spoil, said):
    execute(load("fedall", {**NODES, "rounds": 1, "model": instance_of(network)}), tmp_path / "run")
    spoil(tmp_path / "run" / "network.pt")
    given_networks._KEPT.clear()
    with pytest.raises(InputError, match=said):
        resume(tmp_path / "run")
    with pytest.raises(InputError, match=r"is a network that was given in Python; network\.pt in the folder"):
        load(str(tmp_path / "run" / "experiment.toml"))


def test_the_network_of_somebody_else_is_not_loaded(tmp_path, network, monkeypatch):
    execute(load("fedall", {**NODES, "rounds": 1, "model": instance_of(network)}), tmp_path / "run")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user's"))
    monkeypatch.setattr(outside_classes, "_KNOWN", set())
    monkeypatch.setattr(given_networks, "loaded", lambda content: pytest.fail("it was loaded"))
    with pytest.raises(InputError, match=r"names classes outside fedgraft, whose code would run: network\.pt:"):
        fedgraft.open(tmp_path / "run").model  # noqa: B018


def test_the_nodes_of_a_federation_are_given_no_file(tmp_path, network):
    with pytest.raises(InputError, match=r"given as an instance, which the nodes of a federation do not have"):
        execute(load("fedall", {**NODES, "model": instance_of(network)}), tmp_path / "run", sites=object())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("recipe", "changes", "said"),
    [
        ("fedall", {"task.head": "convolution"}, r"task\.head must be 'linear' with a whole network"),
        ("fedgcn", {}, r"inputs\.aggregates must be false with a whole network"),
        ("fedsage_plus", {}, r"needs a task that offers generator"),
        ("fedall", {"model": {"name": f"{MINE}:Pooling"}}, r"gives a state for each graph; tasks about nodes need"),
        ("fedall", {"model": {"name": f"{MINE}:Attending", "edge_dim": 2}}, r"needs 'edge_attr', and edges have no"),
    ],
)
def test_what_no_whole_network_can_do_is_refused(recipe, changes, said):
    given = {**NODES, "model": SAGE, **changes}
    with pytest.raises(InputError, match=said):
        execute(load(recipe, given))


def test_ratings_need_a_state_of_every_node():
    with pytest.raises(InputError, match=r"task 'rating' needs \[nodes, width\] of a network"):
        execute(load("fedacs", {**RATINGS, "model": {"name": f"{MINE}:Pooling"}}))


def test_a_channel_of_structure_needs_convolutions():
    with pytest.raises(InputError, match=r"task\.structure must be false with a whole network"):
        load("cefgl", {**GRAPHS, "model": SAGE, "task.structure": True})


SCRIPT = """
import fedgraft
from torch_geometric.nn import GraphSAGE
class Mine(GraphSAGE):
    pass
data = {"name": "blocks", "nodes": 90, "clients": 2, "features": 8}
quick = {"rounds": 1, "runtime": {"workers": 1}, "baselines": [], "progress": False, "selector": {"name": "all"}}
fedgraft.run("fedall", data=data, model=Mine(8, 8, 2), **quick)
"""


@pytest.mark.slow
def test_workers_that_do_not_know_a_notebooks_class_say_what_to_do(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-c", "exec(open('script.py').read())"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 1
    assert "belong in a module of their own" in done.stderr, done.stderr
    assert "runtime.workers=0" in done.stderr


@pytest.mark.slow
def test_a_whole_network_learns_as_well_as_the_same_layers_in_a_stack():
    data = {"name": "blocks", "nodes": 600, "clients": 3}
    changes = {**OFTEN, "data": data, "selector.name": "all", "rounds": 8, "evaluation.every": 8}
    layers = {"name": "pyg", "module": "torch_geometric.nn:SAGEConv", "hidden": 32}
    models = {"network": {**SAGE, "hidden_channels": 32}, "pyg": layers, "sage": {"name": "sage", "hidden": 32}}
    scores = {
        name: [execute(load("fedall", {**changes, "model": model, "seed": seed}))["test"] for seed in (1, 2)]
        for name, model in models.items()
    }
    spread = max(np.ptp(found) for found in scores.values())
    assert np.mean(scores["network"]) > np.mean(scores["pyg"]) - spread - 0.02, scores
    assert np.mean(scores["network"]) > np.mean(scores["sage"]) - spread - 0.02, scores
