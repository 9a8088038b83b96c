"""Numbers as labels: a new user's three commands, the errors on the way, and equal bits wherever a run is."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.running.runner import execute
from helpers.resumed_runs import resumed_alike, worked_alike

OFTEN = {"runtime.workers": 0, "baselines": [], "checkpoint.every_seconds": 0, "rounds": 3}
GRAPHS = {**OFTEN, "data.clients": 3, "data.graphs": 20, "model.hidden": 8}
NODES = {**OFTEN, "data.nodes": 100, "data.clients": 3, "data.features": 8, "model.hidden": [8, 4]}
RUNS = {"graph_regression": GRAPHS, "node_regression": NODES}
CLASSIFIED = {"graph_regression": "graft_graph", "node_regression": "graft_node"}


def graph_tables(folder):
    g, graph = np.random.default_rng(0), np.arange(30)
    size = g.integers(2, 7, 30)
    tables = {
        "graphs": pd.DataFrame({"graph": graph, "weight": 100 + 10.5 * size, "client": graph % 3}),
        "nodes": pd.DataFrame({"graph": np.repeat(graph, size), "node": np.concatenate([np.arange(n) for n in size])}),
        "edges": pd.DataFrame(
            [(k, n, n - 1) for k in graph for n in range(1, size[k])], columns=["graph", "source", "target"]
        ),
    }
    return written(
        folder, {name: table.assign(**({"mass": 1.5} if name == "nodes" else {})) for name, table in tables.items()}
    )


def node_tables(folder):
    g, node = np.random.default_rng(0), np.arange(90)
    age = g.normal(size=90).round(3)
    label = [f"{100 + 5 * value:.3f}" if k % 9 else "" for k, value in enumerate(age)]
    nodes = pd.DataFrame({"node": node, "weight": label, "client": node % 3, "age": age})
    return written(folder, {"nodes": nodes, "edges": pd.DataFrame({"source": node[1:], "target": node[:-1]})})


def written(folder, tables):
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return {f"data.{name}": str(folder / f"{name}.csv") for name in tables} | {"data.label": "weight"}


OWN = {"graph_regression": ("graphs", graph_tables), "node_regression": ("nodes", node_tables)}


@pytest.mark.parametrize("recipe", RUNS)
def test_a_resumed_run_ends_alike(whole_run, tmp_path, recipe):
    whole = resumed_alike(whole_run, load(recipe, RUNS[recipe]), tmp_path / "run")
    assert {"rmse", "mae", "r2"} == set(whole["measures"]["test"])
    assert whole["better"] == "lower"


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RUNS)
def test_two_workers_end_alike(whole_run, recipe):
    worked_alike(whole_run, load(recipe, RUNS[recipe]))


@pytest.mark.parametrize("recipe", OWN)
def test_own_tables_are_learnt_and_answers_are_in_the_user_s_unit(tmp_path, recipe):
    name, tables = OWN[recipe]
    given = {
        **tables(tmp_path),
        "data.name": name,
        **OFTEN,
        "rounds": 8,
        "model.hidden": 8 if name == "graphs" else [8, 4],
    }
    summary = execute(load(recipe, given), tmp_path / "run")
    assert summary["test_at_best_validation"] < 60
    asked = {each: tmp_path / f"{each}.csv" for each in ("graphs", "nodes", "edges") if name == "graphs"}
    found = predict(tmp_path / "run", asked or {"nodes": pd.DataFrame({"node": [0, 1, 2]})})
    assert found["prediction"].between(50, 250).all()
    assert set(found["client"].astype(str)) <= {"0", "1", "2"}


@pytest.mark.parametrize("recipe", OWN)
def test_each_task_names_the_other_for_labels_of_the_other_kind(tmp_path, recipe):
    name, tables = OWN[recipe]
    given = {**tables(tmp_path), "data.name": name, **OFTEN}
    with pytest.raises(InputError, match=rf"must be text or whole numbers; got .* the task '{recipe}'"):
        load(CLASSIFIED[recipe], given).data.load(1)
    path = tmp_path / f"{name}.csv"
    path.write_text(path.read_text().replace("\n4,", "\n4,toxic", 1))
    with pytest.raises(
        InputError, match=r"row 5: 'weight' must be a finite number; got 'toxic.*the task '(graph|node)'"
    ):
        load(recipe, given).data.load(1)


def test_a_task_and_its_data_agree_on_what_labels_are():
    assert load("graph_regression").data.labels == "numbers"
    assert load("fedais", {"task.name": "node_regression", "data.name": "blocks"}).task_name == "node_regression"
    with pytest.raises(
        InputError, match=r"data\.labels must be 'numbers' for the task 'graph_regression'; got 'classes'"
    ):
        load("graph_regression", {"data.labels": "classes"})
    with pytest.raises(InputError, match=r"data\.labels = 'numbers' is for the task 'graph_regression'; got task.name"):
        load("cefgl", {"data.labels": "numbers"})
    with pytest.raises(InputError, match=r"task\.name = 'rating' cannot use this data, which is for 'graph' or"):
        load("graph_regression", {"task.name": "rating"})


def test_a_stranger_is_told_the_unit_that_all_agreed_on(tmp_path):
    """Its own nodes have no label at all; and what clients published is charged: 24 bytes up, 16 down."""
    execute(load("node_regression", {**NODES, "exchange.states": False}), tmp_path / "run")
    told = open_run(tmp_path / "run").newcomer_memory["shared"]["unit"]
    assert 40 < told[0] < 60
    assert 5 < told[1] < 15
    nodes = pd.DataFrame(np.zeros((4, 8)), columns=list("01234567")).assign(node=range(4))
    edges = pd.DataFrame({"source": [0, 1], "target": [1, 2]})
    found = predict(tmp_path / "run", {"nodes": nodes[["node"]]}, None, nodes, edges)
    assert found["prediction"].between(0, 100).all()


@pytest.mark.parametrize("recipe", RUNS)
def test_a_resolved_recipe_makes_the_same_experiment(recipe):
    made = load(recipe)
    again = type(made).from_toml(made.to_toml())
    assert again.data == made.data
    assert dataclasses.asdict(again.plan.training) == dataclasses.asdict(made.plan.training)
