"""Runs on graphs that only their bonds tell apart: models that read columns of edges find them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from test_site_tables import at_sites, recipe_of, written
from torch import nn
from torch_geometric.nn import GATConv, global_add_pool

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.export import export, exported
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.interface import serve
from helpers.asgi import Client
from helpers.bonds import SIZE, objects, rings
from helpers.toy_graphs import write_tu

QUICK: dict[str, Any] = {
    "runtime.workers": 0,
    "baselines": [],
    "rounds": 8,
    "evaluation.every": 4,
    "loss.dropout": 0.0,
    "sampler.batch_size": 16,
}
CARRYING = {"data.edge_features": "all"}
MODELS: dict[str, dict[str, Any]] = {
    "gine": {"name": "gine", "hidden": 8},
    "gat": {"name": "gat", "hidden": 8, "embedding": 8},
    "multigraph": {"name": "multigraph", "hidden": 8},
    "pyg": {"name": "pyg", "module": "torch_geometric.nn:GINEConv", "hidden": 8},
    "network": {"name": "network", "module": f"{__name__}:Attending", "options": {"edge_dim": 3}},
    "pooling": {"name": "network", "module": f"{__name__}:Pooling", "options": {"edge_dim": 3}},
}


class Attending(nn.Module):
    """A whole network that reads columns of edges."""

    def __init__(self, inputs: int, edge_dim: int) -> None:
        super().__init__()
        self.first, self.second = (GATConv(inputs, inputs, edge_dim=edge_dim, add_self_loops=False) for _ in range(2))
        self.mapped = nn.Linear(edge_dim, inputs)

    def forward(self, x, edge_index, edge_attr):
        sums = torch.zeros_like(x).index_add(0, edge_index[1], torch.relu(self.mapped(edge_attr)))
        return self.second(torch.relu(self.first(x, edge_index, edge_attr) + sums), edge_index, edge_attr)


class Pooling(Attending):
    """One that adds a graph's states up itself."""

    def forward(self, x, edge_index, edge_attr, batch):
        return global_add_pool(super().forward(x, edge_index, edge_attr), batch)


def tables(folder: Path, **changed: pd.DataFrame) -> dict[str, str]:
    paths = written({**rings(), **changed}, folder)
    return {"data.name": "graphs", **{f"data.{name}": str(path) for name, path in paths.items()}}


def run(folder: Path, **changes: Any) -> dict[str, Any]:
    data = tables(folder / "tables") if "data.name" not in changes else {}
    return execute(load("plain_gin", {**QUICK, **data, **changes}), folder / "run")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose model reads bonds; not to be changed."""
    folder = tmp_path_factory.mktemp("rings")
    run(folder, model=MODELS["gine"], **CARRYING)
    return folder / "run"


@pytest.mark.parametrize(
    "name", [each if each in ("gine", "pooling") else pytest.param(each, marks=pytest.mark.slow) for each in MODELS]
)
def test_what_edges_carry_tells(name: str, finished: Path, tmp_path: Path) -> None:
    there = name == "gine"
    summary = RunFolder.open(finished).summary() if there else run(tmp_path, model=MODELS[name], **CARRYING)
    assert summary["test"] > 0.9, "chance is a half"
    if name in ("gine", "network"):
        experiment = load("plain_gin", {**QUICK, **tables(tmp_path / "again"), "model": MODELS[name], **CARRYING})
        assert execute(experiment, tmp_path / "workers")["digest"] == summary["digest"]


def test_permuted_bonds_change_what_is_found(tmp_path: Path) -> None:
    edges = rings()["edges"]
    g = np.random.default_rng(0)
    for column in ("bond", "length"):
        edges[column] = edges[column].to_numpy()[g.permutation(len(edges))]
    summary = run(tmp_path, model=MODELS["gine"], **tables(tmp_path / "permuted", edges=edges), **CARRYING)
    assert summary["test"] < 0.8


def test_a_model_that_does_not_read_them_says_so_and_keeps_its_bits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = run(tmp_path / "plain", **{"model.hidden": 8, "rounds": 2})
    caplog.clear()
    told = run(tmp_path / "told", **{"model.hidden": 8, "rounds": 2, **CARRYING})
    assert caplog.text.count("task: edges carry 3 columns, which model GIN does not read") == 1
    assert (told["digest"], told["test"]) == (plain["digest"], plain["test"])


@pytest.mark.slow
def test_it_is_the_same_with_workers_and_after_a_resume(finished: Path, tmp_path: Path) -> None:
    changes = {**QUICK, **tables(tmp_path / "tables"), "model": MODELS["gine"], **CARRYING}
    whole = execute(load("plain_gin", {**changes, "runtime.workers": 2}))
    execute(load("plain_gin", {**changes, "rounds": 4}), tmp_path / "run")
    assert resume(tmp_path / "run", rounds=8)["digest"] == whole["digest"]


@pytest.mark.parametrize(
    "changes",
    [
        {"model.name": "gine", "data.edge_features": ["bond", "length"]},
        pytest.param(
            {"model.name": "multigraph", "data.edge_features": "all", "data.directed": True}, marks=pytest.mark.slow
        ),
        pytest.param({"model.name": "gin", "data.weight": "length"}, marks=pytest.mark.slow),
    ],
)
def test_sites_end_as_one_machine(tmp_path: Path, changes: dict[str, Any]) -> None:
    every = rings(40)
    recipe, said = recipe_of("graph", written(every, tmp_path / "all"))
    here = execute(load(recipe, {**said, **changes}), tmp_path / "here")
    found, _ = at_sites("graph", every, tmp_path / "sites", **changes)
    for name in ("digest", "bytes", "test", "validation", "test_per_client"):
        assert found[name] == here[name], name


# --- answers ----------------------------------------------------------------------------------------------------------


def asked(count: int = 9) -> dict[str, pd.DataFrame]:
    """New rings, the first of a number that training has not, without labels."""
    made = rings(count, first=200)
    return {**made, "graphs": made["graphs"].drop(columns="label")}


def test_new_graphs_are_answered_by_their_bonds(finished: Path) -> None:
    answers = predict(finished, asked())
    wanted = rings(9, first=200)["graphs"]
    assert answers["graph"].tolist() == wanted["graph"].tolist()
    assert answers["class"].tolist() == wanted["label"].tolist()
    one_way = asked()
    edges = one_way["edges"]
    one_way["edges"] = edges[(edges["target"] - edges["source"]) % SIZE == 1]
    found = predict(finished, one_way)
    assert found["class"].tolist() == wanted["label"].tolist()
    last = found["graph"] == "r208"  # which both tables list one way
    np.testing.assert_allclose(found["probability"][last], answers["probability"][last])


def test_a_service_answers_as_predict_does(finished: Path) -> None:
    told = {name: table.to_dict("records") for name, table in asked().items()}
    client = Client(serve.app(finished))
    done = client.post("/predict", json={"tables": told})
    assert done.status_code == 200, done.json()
    assert [row["class"] for row in done.json()["answers"]] == predict(finished, asked())["class"].tolist()
    for row in told["edges"]:
        row.pop("bond", None)
    refused = client.post("/predict", json={"tables": told})
    assert refused.status_code == 422
    assert "no column 'bond' (data.edge_features: bond)" in refused.json()["error"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda edges: edges.drop(columns="length"), r"no column 'length' \(data\.edge_features: length\)"),
        (
            lambda edges: edges.assign(length=edges["length"].astype(object).mask(edges.index == 2, "long")),
            r"predict\.edges, row 3: 'length' must be a finite number.*got 'long'",
        ),
        (lambda edges: edges.assign(target=edges["target"].mask(edges.index == 1, 77)), "row 2: 'target' must be a"),
    ],
)
def test_edges_that_cannot_be_read_are_named(finished: Path, change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        predict(finished, {**asked(), "edges": change(asked()["edges"])})
    assert "\n" not in str(error.value)


def test_a_value_unknown_to_training_is_said(finished: Path, caplog: pytest.LogCaptureFixture) -> None:
    edges = asked()["edges"].assign(bond="triple")
    predict(finished, {**asked(), "edges": edges})
    assert "Edges: Feature 'bond': 'triple' in" in caplog.text


def test_an_exported_model_says_what_the_run_does(finished: Path, tmp_path: Path) -> None:
    run = open_run(finished)
    export(run, tmp_path / "model", client="north")
    readme = (tmp_path / "model" / "README.md").read_text()
    for text in ("`edge_attr`: float32 [edges, 3]", "0: bond=double", "2: length"):
        assert text in readme
    shard = run.shards[run.number("north")]
    x = torch.zeros(shard.nodes, shard.kinds)
    x[torch.arange(shard.nodes), torch.from_numpy(shard.kind).long()] = 1.0
    ends = torch.from_numpy(shard.edges[::-1].astype(np.int64))
    graph = torch.from_numpy(np.repeat(np.arange(shard.graphs), shard.sizes))
    with torch.no_grad():
        found = exported(tmp_path / "model")(x, ends, torch.from_numpy(shard.edge_rows.values), graph)
        wanted = run.plan.task.outputs_of(run.answering_model(run.number("north")), shard)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


def test_pyg_objects_are_read_and_asked(tmp_path: Path) -> None:
    made = objects()
    done = fedgraft.run(
        "plain_gin",
        data={"graphs": made, **{name.removeprefix("data."): value for name, value in CARRYING.items()}},
        model=MODELS["gine"],
        overrides=QUICK,
        out=tmp_path / "run",
        progress=False,
    )
    assert done.summary["test"] > 0.9
    answers = done.predict(made[:8])
    assert [int(each) for each in answers["class"]] == [int(each.y) for each in made[:8]]
    again = fedgraft.open(tmp_path / "run").predict(made[:8])
    pd.testing.assert_frame_equal(again, answers)


def test_labels_of_a_tu_sets_edges_are_asked_by_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    raw = write_tu(tmp_path, graphs=40)
    count = len((raw / "MUTAG_A.txt").read_text().splitlines())
    (raw / "MUTAG_edge_labels.txt").write_text("".join(f"{k % 2}\n" for k in range(count)))
    data = {"data.name": "mutag", "data.root": str(tmp_path), "data.clients": 2, "data.edge_features": "labels"}
    run(tmp_path, model=MODELS["gine"], **data)
    nodes = pd.DataFrame({"graph": "new", "node": [1, 2, 3], "kind": [1, 2, 3]})
    edges = pd.DataFrame({"graph": "new", "source": [1, 2], "target": [2, 3], "label": [0, 1]})
    once = predict(tmp_path / "run", {"nodes": nodes, "edges": edges}, client="MUTAG-0")
    both = pd.concat([edges, edges.rename(columns={"source": "target", "target": "source"})])
    again = predict(tmp_path / "run", {"nodes": nodes, "edges": both}, client="MUTAG-0")
    other = predict(tmp_path / "run", {"nodes": nodes, "edges": edges.assign(label=0)}, client="MUTAG-0")
    assert once["probability"][0] == again["probability"][0] != other["probability"][0]
    caplog.clear()
    predict(tmp_path / "run", {"nodes": nodes, "edges": edges.assign(label=7)}, client="MUTAG-0")
    assert "2 edges whose 'label' is unseen in training ('7') count as of none" in caplog.text
    with pytest.raises(InputError, match=r"no column 'label'"):
        predict(tmp_path / "run", {"nodes": nodes, "edges": edges.drop(columns="label")}, client="MUTAG-0")


@pytest.mark.data
def test_gine_reads_bond_types_of_mutag(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = data_root / "TUDataset"
    if not (root / "MUTAG" / "raw" / "MUTAG_edge_labels.txt").is_file():
        pytest.skip(f"no set MUTAG with labels of edges in {root}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = {"data.name": "mutag", "data.clients": 3, "data.edge_features": "labels", **QUICK, "model": MODELS["gine"]}
    here = execute(load("plain_gin", {**data, "data.root": str(root)}))
    raw = tmp_path / "permuted" / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    for path in (root / "MUTAG" / "raw").glob("MUTAG_*.txt"):
        lines = path.read_text().splitlines()
        if path.name == "MUTAG_edge_labels.txt":
            lines = np.random.default_rng(0).permutation(lines).tolist()
        (raw / path.name).write_text("\n".join(lines) + "\n")
    there = execute(load("plain_gin", {**data, "data.root": str(tmp_path / "permuted")}))
    assert here["digest"] != there["digest"]
    assert here["curve"][-1] != there["curve"][-1]
