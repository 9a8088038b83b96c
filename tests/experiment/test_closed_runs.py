"""Whole runs of one round in closed form: killed, on workers, at sites, and as a start for rounds of gradients."""

import numpy as np
import pytest

import fedgraft
from fedgraft.domains.closed_form import ridge
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute
from helpers.local_sites import federated
from helpers.node_runs import SMALL
from helpers.resumed_runs import resumed_alike, worked_alike
from helpers.site_tables import CLIENTS
from helpers.site_tables import nodes as tables_of_nodes

DATA = {key: value for key, value in SMALL.items() if key.startswith("data.")}
ONCE = {**DATA, "codec": "identity", "runtime.workers": 0, "baselines": [], "checkpoint.every_seconds": 0}
PLAIN = {**ONCE, "inputs.propagate": 0, "answers.class_prior": False, "answers.local_fit": False}
"""The model alone, of features as they are."""
SEVERAL = {**ONCE, "rounds": 4, "selector": {"name": "random", "clients": 2}}
FORMS = ["class_sums", "gram", "random_features"]


def test_its_model_is_ridge_regression_on_all_nodes_in_one_place(tmp_path):
    changes = {**PLAIN, "sharing.form": "gram", "sharing.sharpness": 1.0, "sharing.least": 1, "inputs.scale": 0.0}
    run = fedgraft.run("graft_once", out=tmp_path / "run", overrides=changes, progress=False)
    x, y = (
        np.concatenate([getattr(shard, name)[shard.rows("train")] for shard in run._finished.shards])
        for name in ("features", "label")
    )
    z, targets = np.column_stack([x, np.ones(len(x))]).astype(float), np.eye(3)[y]
    weight, bias = ridge(z.T @ z, z.T @ targets, np.square(targets).sum(0))
    found = [parameter.numpy(force=True) for parameter in run.model.parameters()]
    np.testing.assert_allclose(found[0], weight.T, atol=1e-5)
    np.testing.assert_allclose(found[1], bias, atol=1e-5)
    assert run.summary["test_at_best_validation"] > 0.6


@pytest.mark.parametrize("form", FORMS)
def test_a_resumed_run_ends_alike(whole_run, tmp_path, form):
    resumed_alike(whole_run, load("graft_once", {**SEVERAL, "sharing.form": form}), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_two_workers_end_alike(whole_run, form):
    worked_alike(whole_run, load("graft_once", {**SEVERAL, "sharing.form": form}))


def test_it_sends_what_it_says_and_no_model_before_there_is_one():
    found = execute(load("graft_once", {**PLAIN, "answers.smoothing": 0, "sharing.form": "class_sums"}))
    assert found["bytes"]["up"] - 4 * 3 * 9 * 4 < 4 * 60, "three classes of eight features and a count; and heads"
    assert found["bytes"]["down"] < 4 * 60


def test_who_is_heard_later_is_added(tmp_path):
    ends = [
        fedgraft.run("graft_once", out=tmp_path / name, overrides=changes, progress=False)
        for name, changes in {
            "at once": {**ONCE, "sharing.form": "gram", "evaluation.keep": "last"},
            "one by one": {
                **SEVERAL,
                "sharing.form": "gram",
                "rounds": 16,
                "selector": {"name": "random", "clients": 1},
                "evaluation.keep": "last",
            },
        }.items()
    ]
    one, other = ([each.numpy(force=True) for each in run.model.parameters()] for run in ends)
    for first, second in zip(one, other, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5)


def test_rounds_of_gradients_go_on_from_it(tmp_path):
    once = fedgraft.run("graft_once", out=tmp_path / "once", overrides=ONCE, progress=False)
    more = {**ONCE, "model": {"name": "mlp", "hidden": []}, "rounds": 2, "selector": {"name": "all"}}
    more |= {"evaluation.averaging": 0.0, "inputs.hop_pooling": "mean", "answers.refit": "answers"}
    on, anew = (
        fedgraft.run("graft_node", out=tmp_path / name, overrides=more, start=start, progress=False)
        for name, start in {"on": once, "anew": None}.items()
    )
    begun = [run.summary["curve"][0][3] for run in (on, anew)]
    assert begun[0] > begun[1] + 0.2


def test_clients_score_what_the_server_would():
    here, there = (execute(load("graft_once", {**ONCE, "evaluation.at": at})) for at in ("server", "clients"))
    assert there["test_per_client"] == here["test_per_client"]
    assert there["bytes"]["evaluation"] > 0


def test_classes_count_by_their_weights():
    plain, weighted = (
        execute(load("graft_once", {**ONCE, "sharing.form": "gram", "loss.class_weights": weights}))
        for weights in ("", {"class 1": 50.0})
    )
    assert plain["digest"] != weighted["digest"]


def test_numbers_are_told_too(tmp_path):
    changes = {**ONCE, "model": {"name": "mlp", "hidden": []}, "sharing.name": "ridge", "rounds": 1}
    changes |= {"exchange.states": False, "exchange.features": False, "evaluation.averaging": 0.0}
    run = fedgraft.run("node_regression", out=tmp_path / "run", overrides=changes, progress=False)
    assert run.summary["curve"][-1][3] < run.summary["curve"][0][3]


def test_sites_end_as_one_machine_does(tmp_path):
    nodes, edges = tables_of_nodes()
    given = {"data.name": "nodes", "data.features": ["f0", "f1", "f2", "f3"], "baselines": [], "runtime.workers": 0}
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    here = load(
        "graft_once", {**given, "data.nodes": str(tmp_path / "nodes.csv"), "data.edges": str(tmp_path / "edges.csv")}
    )
    known = {"data.nodes": "nowhere.csv", "data.edges": "nowhere.csv", "task.features": 4}
    known |= {"task.classes": 3, "task.class_names": ["cat", "dog", "owl"]}
    data = []
    for name in CLIENTS:
        own = nodes[nodes["client"] == name]
        joined = edges[edges["source"].isin(own["node"]) | edges["target"].isin(own["node"])]
        own.drop(columns="client").to_csv(tmp_path / f"{name}.csv", index=False)
        joined.to_csv(tmp_path / f"{name}-edges.csv", index=False)
        data.append([f"nodes={tmp_path / name}.csv", f"edges={tmp_path / name}-edges.csv"])
    there, _ = federated("graft_once", {**given, **known}, data, list(CLIENTS), tmp_path / "sites")
    assert there["digest"] == execute(here)["digest"]
