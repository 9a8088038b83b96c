"""Runs on typed graphs that only their edges tell: a model that reads columns of edges finds what they say."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from test_site_tables import at_sites, recipe_of, written
from torch_geometric.data import HeteroData

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.interface import serve
from helpers.asgi import Client
from helpers.receipts import by_pair, receipts

QUICK: dict[str, Any] = {
    "runtime.workers": 0,
    "baselines": [],
    "rounds": 15,
    "evaluation.every": 5,
    "selector.name": "all",
    "sampler.name": "all",
    "sharing.name": "fedavg",
    "training.learning_rate": 0.02,
    "model.name": "metapath_means",
    "model.hidden": 16,
}
CARRYING = {"data.edge_features": "all"}
EVERYTHING = {"data.edge_features": ["amount", "channel"], "data.weight": "times", "data.time": "day"}


def tables(folder: Path, made: dict[str, Any]) -> dict[str, Any]:
    """Options that name files of these tables."""
    options: dict[str, Any] = {"data.name": "typed_graph", "data.target": "person"}
    for name, table in made.items():
        if isinstance(table, dict):
            options[f"data.{name}"] = {key: str(path) for key, path in written(table, folder / name).items()}
    plain = {name: table for name, table in made.items() if not isinstance(table, dict)}
    return options | {f"data.{name}": str(path) for name, path in (written(plain, folder) if plain else {}).items()}


def run(folder: Path, made: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    data = tables(folder / "tables", made or receipts())
    return execute(load("rafhgl", {**QUICK, **data, **changes}), folder / "run")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose model reads all that edges carry; not to be changed."""
    folder = tmp_path_factory.mktemp("receipts")
    assert run(folder, **EVERYTHING)["test"] > 0.9
    return folder / "run"


def test_what_edges_carry_tells(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    summary = run(tmp_path / "told", **CARRYING)
    assert summary["test"] > 0.9, "chance is a half"
    assert run(tmp_path / "again", by_pair(receipts()), **CARRYING)["digest"] == summary["digest"]
    caplog.clear()
    assert run(tmp_path / "plain")["test"] < 0.7
    note = "edges that are not read: amount, channel, day, times; data.edge_features, data.weight, data.time would"
    assert note in caplog.text


def test_permuted_columns_tell_nothing(tmp_path: Path) -> None:
    made = receipts()
    bought = np.flatnonzero(made["edges"]["source_type"] == "person")
    mixed = np.random.default_rng(0).permutation(bought)
    for column in ("amount", "channel"):
        made["edges"].loc[bought, column] = made["edges"][column].to_numpy()[mixed]
    assert run(tmp_path, made, **CARRYING)["test"] < 0.7


def test_a_model_that_does_not_read_them_says_so_and_keeps_its_bits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    han = {"model.name": "han", "model.hidden": 8, "rounds": 3}
    plain = run(tmp_path / "plain", **han)
    caplog.clear()
    told = run(tmp_path / "told", **han, **EVERYTHING)
    for what in ("carry 7 columns", "have weights"):
        note = f"task: edges {what}, which model HAN does not read; model.name = 'metapath_means' does."
        assert caplog.text.count(note) == 1
    assert (told["digest"], told["test"]) == (plain["digest"], plain["test"])


def test_options_that_count_neighbours_alike_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, rounds=1, **EVERYTHING, **{"inputs.propagate": 1, "answers.smoothing": 1})
    note = "inputs.propagate and answers.smoothing: each node that a metapath joins counts alike, whatever edges weigh."
    assert caplog.text.count(note) == 1


def test_equal_weights_change_no_bit(tmp_path: Path) -> None:
    plain = run(tmp_path / "plain", rounds=3)
    for number in (1, 2):
        made = receipts()
        made["edges"]["times"] = number
        told = run(tmp_path / f"{number}", made, rounds=3, **{"data.weight": "times"})
        assert told["digest"] == plain["digest"]
    assert run(tmp_path / "other", rounds=3, **{"data.weight": "times"})["digest"] != plain["digest"]


@pytest.mark.parametrize(
    "changes",
    [
        EVERYTHING,
        pytest.param({**CARRYING, "data.duplicate_edges": "sum"}, marks=pytest.mark.slow),
        pytest.param({"data.weight": "times"}, marks=pytest.mark.slow),
    ],
)
def test_sites_end_as_one_machine(tmp_path: Path, changes: dict[str, Any]) -> None:
    every, changes = receipts(), {"model.name": "metapath_means", "data.target": "person", **changes}
    recipe, said = recipe_of("typed", written(every, tmp_path / "all"))
    here = execute(load(recipe, {**said, **changes}), tmp_path / "here")
    shuffled = {name: table.sample(frac=1, random_state=3) for name, table in every.items()}
    found, _ = at_sites("typed", shuffled, tmp_path / "sites", **changes)
    for name in ("digest", "bytes", "test", "validation", "test_per_client"):
        assert found[name] == here[name], name


@pytest.mark.slow
def test_it_is_the_same_with_workers_and_after_a_resume(tmp_path: Path) -> None:
    paced = {"training.schedule": "constant", "evaluation.every": 1}
    changes = {**QUICK, **paced, **tables(tmp_path / "tables", receipts()), **EVERYTHING}
    whole = execute(load("rafhgl", {**changes, "runtime.workers": 2}))
    execute(load("rafhgl", {**changes, "rounds": 4}), tmp_path / "run")
    assert resume(tmp_path / "run", rounds=15)["digest"] == whole["digest"]


# --- answers ----------------------------------------------------------------------------------------------------------


def asked(count: int = 12) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """New people, who buy at known shops of the north, and their classes."""
    made = receipts(2 * count, seed=5)
    people = made["nodes"][(made["nodes"]["type"] == "person") & (made["nodes"]["client"] == "north")]
    known = receipts()["nodes"]["node"]
    bought = made["edges"][made["edges"]["source"].isin(people["node"]) & made["edges"]["target"].isin(known)]
    nodes = people[["node", "age"]].assign(node="new " + people["node"], client="north")
    return {"nodes": nodes, "edges": bought.assign(source="new " + bought["source"])}, people["label"].tolist()


def test_new_nodes_are_answered_by_their_edges(finished: Path) -> None:
    tables, label = asked()
    answers = predict(finished, tables)
    assert (answers["class"].to_numpy() == np.array(label)).mean() > 0.8
    edges = tables["edges"]
    turned = edges.rename(columns={"source": "target", "target": "source"})
    turned = turned.rename(columns={"source_type": "target_type", "target_type": "source_type"})
    half = pd.concat([edges.iloc[::2], turned.iloc[1::2]])
    pd.testing.assert_frame_equal(predict(finished, {**tables, "edges": half}), answers)
    other = edges.assign(amount=edges["amount"].to_numpy()[::-1], channel=edges["channel"].to_numpy()[::-1])
    assert predict(finished, {**tables, "edges": other})["class"].tolist() != answers["class"].tolist()


def test_edges_within_one_table_may_be_of_several_types(finished: Path) -> None:
    tables, _ = asked()
    opened = pd.DataFrame(
        {"source_type": ["shop"], "source": ["s-north-new"], "target_type": ["town"], "target": ["t-north-0"]}
    )
    bought = tables["edges"].iloc[:1].assign(target="s-north-new")
    edges = pd.concat([opened, tables["edges"], bought], ignore_index=True)
    assert len(predict(finished, {**tables, "edges": edges})) == len(tables["nodes"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda edges: edges.drop(columns="amount"), r"no column 'amount' \(data\.edge_features: amount\)"),
        (lambda edges: edges.drop(columns="times"), r"no column 'times' \(data\.weight\)"),
        (
            lambda edges: edges.assign(amount=edges["amount"].astype(object).where(np.arange(len(edges)) != 2, "much")),
            r"predict\.edges, row 3: 'amount' must be a finite number.*got 'much'",
        ),
        (
            lambda edges: edges.assign(times=np.where(np.arange(len(edges)) == 1, -1, 1)),
            r"predict\.edges, row 2: 'times' must be a finite number and at least 0",
        ),
    ],
)
def test_edges_that_cannot_be_read_are_named(finished: Path, change: Any, message: str) -> None:
    tables, _ = asked()
    with pytest.raises(InputError, match=message) as error:
        predict(finished, {**tables, "edges": change(tables["edges"])})
    assert "\n" not in str(error.value)


def test_nodes_without_edges_and_those_of_the_run_are_answered(finished: Path) -> None:
    tables, _ = asked()
    for edges in ({}, {"edges": tables["edges"].iloc[:0]}):
        assert len(predict(finished, {"nodes": tables["nodes"], **edges})) == len(tables["nodes"])
    known = receipts()["nodes"].query("split == 'test'")
    found = predict(finished, {"nodes": known[["node"]]})
    assert (found["class"].to_numpy() == known["label"].to_numpy()).mean() > 0.9


def test_a_service_answers_as_predict_does(finished: Path) -> None:
    tables, _ = asked()
    told = {name: table.astype(object).where(table.notna(), None).to_dict("records") for name, table in tables.items()}
    client = Client(serve.app(finished))
    done = client.post("/predict", json={"tables": told})
    assert done.status_code == 200, done.json()
    assert [row["class"] for row in done.json()["answers"]] == predict(finished, tables)["class"].tolist()
    for row in told["edges"]:
        del row["amount"]
    refused = client.post("/predict", json={"tables": told})
    assert refused.status_code == 422
    assert "no column 'amount' (data.edge_features: amount)" in refused.json()["error"]


def test_a_perceptron_reads_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = run(tmp_path / "plain", **{"model.edges": False, "rounds": 2})
    told = run(tmp_path / "told", **{"model.edges": False, "rounds": 2}, **EVERYTHING)
    assert told["digest"] == plain["digest"]
    assert "task: edges carry 7 columns, which model MetapathMeans does not read" in caplog.text


def test_a_value_unknown_to_training_is_said(finished: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables, _ = asked()
    predict(finished, {**tables, "edges": tables["edges"].assign(channel="barter")})
    assert "Edges: Feature 'channel': 'barter' in" in caplog.text


def test_tables_in_memory_are_kept_with_what_their_edges_carry(tmp_path: Path) -> None:
    data = {"name": "typed_graph", "target": "person", **by_pair(receipts()), "edge_features": "all"}
    run = fedgraft.run("rafhgl", data=data, out=tmp_path / "run", overrides={**QUICK, "rounds": 2})
    (kept,) = (tmp_path / "run").rglob("edges.parquet")
    assert [*pd.read_parquet(kept)][4:] == ["amount", "channel", "day", "times"]
    tables, label = asked()
    assert len(run.predict(**tables)) == len(label)


def test_a_pyg_object_runs_and_answers(tmp_path: Path) -> None:
    g, count = np.random.default_rng(2), 120
    bulk = torch.from_numpy(g.integers(0, 2, count))
    data = HeteroData()
    data["person"].x, data["person"].y = torch.from_numpy(g.normal(size=(count, 1))).float(), bulk
    data["person"].client = ["b", "a"] * (count // 2)
    data["shop"].num_nodes = 10
    ends = torch.stack([torch.arange(count).repeat(2), torch.from_numpy(g.integers(0, 10, 2 * count))])
    data["person", "buys_at", "shop"].edge_index = ends
    data["person", "buys_at", "shop"].edge_attr = bulk.repeat(2)[:, None] * 2.0 + torch.rand(2 * count, 1)
    given = {"name": "typed_graph", "nodes": data, "target": "person", "edge_features": "all"}
    run = fedgraft.run("rafhgl", data=given, out=tmp_path / "run", overrides=QUICK)
    assert run.summary["test"] > 0.9
    nodes = pd.DataFrame({"node": ["new 0", "new 1"], "0": 0.0, "client": "a"})
    edges = pd.DataFrame({"source_type": "person", "source": nodes["node"], "target_type": "shop", "target": [3, 3]})
    answers = run.predict(nodes, edges=edges.assign(**{"person-shop.0": [0.5, 2.5]}))
    assert answers["class"].tolist() == ["0", "1"]
