"""Runs on own typed graphs, and classes of their nodes from a run's folder: known nodes, and nodes added later."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage.run_folder import RunFolder
from helpers.toy_typed import own_tables

QUICK: dict[str, Any] = {
    "data.name": "typed_graph",
    "data.target": "paper",
    "model.hidden": 8,
    "model.heads": 2,
    "selector.clients": 2,
    "rounds": 2,
    "runtime.workers": 0,
    "baselines": [],
}
OUT = ["client", "node", "class", "probability"]
EDGES = ["source_type", "source", "target_type", "target"]


def written(folder: Path, drop: tuple[str, ...] = ()) -> dict[str, dict[str, str]]:
    """Own tables as files in a folder, by their names there."""
    found: dict[str, dict[str, str]] = {}
    for option, tables in own_tables(80).items():
        for name, table in tables.items():
            kept = table.drop(columns=[column for column in drop if column in table])
            kept.to_csv(folder / f"{name}.csv", index=False)
            found.setdefault(option, {})[name] = f"{name}.csv"
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on files that its recipe names by paths relative to where it began."""
    folder = tmp_path_factory.mktemp("typed")
    paths = written(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        given = {f"data.{option}": names for option, names in paths.items()}
        execute(jobs.load("rafhgl", {**given, **QUICK}), folder / "run")
    return folder / "run"


def links(*rows: tuple[str, str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=EDGES)


def test_paths_of_tables_are_kept(run: Path) -> None:
    kept = jobs.Job.from_toml(RunFolder.open(run).experiment_toml())
    assert kept.recipe.sections["data"]["nodes"] == {
        kind: str(run.parent / f"{kind}.csv") for kind in ("paper", "author", "venue")
    }
    assert kept.recipe.sections["data"]["edges"]["venue-paper"] == str(run.parent / "venue-paper.csv")


def test_known_nodes_are_answered_by_their_clients(run: Path) -> None:
    finished = open_run(run)
    ids = np.concatenate([shard.ids["paper"] for shard in finished.shards])[::-1]
    found = predict(run, {"nodes": pd.DataFrame({"node": ids, "note": "kept"})})
    assert list(found) == ["note", *OUT]
    assert found["node"].tolist() == ids.tolist()
    for client, shard in enumerate(finished.shards):
        mine = found[found["client"] == shard.name].set_index("node").loc[list(shard.ids["paper"])]
        right = (mine["class"] == np.array(shard.classes)[shard.label]).to_numpy()
        with torch.no_grad():
            sums = finished.plan.task.evaluate(finished.client_model(client), finished.prepared(client))
        assert {split: right[shard.rows(split)].sum() for split in sums} == {s: sums[s]["correct"] for s in sums}


def test_new_nodes_are_answered_with_what_they_are_joined_to(run: Path) -> None:
    # Twins of p4, at "org 0": with its author and venue, and with a new author instead.
    known = own_tables(80)["nodes"]["paper"].set_index("node").loc["p4"]
    nodes = pd.DataFrame({"year": known["year"], "node": ["x", "y", "p4"], "pages": known["pages"]})
    edges = links(
        ("paper", "x", "author", "a4"),
        ("venue", "1", "paper", "x"),
        ("paper", "y", "author", "new"),
        ("paper", "y", "author", "a4"),
    )
    found = predict(run, {"nodes": nodes, "edges": edges})
    assert found["client"].tolist() == ["org 0"] * 3
    assert found["probability"][0] == pytest.approx(found["probability"][2], abs=1e-6), "as like as twins"
    assert found["probability"][1] != found["probability"][2]
    with pytest.raises(InputError, match=r"predict.nodes, row 1: who answers for new paper 'x'\?"):
        predict(run, {"nodes": nodes})
    with pytest.raises(InputError, match=r"no column 'pages', a feature of new node 'x' .*Did you mean 'page'"):
        predict(run, {"nodes": nodes.rename(columns={"pages": "page"}), "edges": edges})


def test_tables_in_memory_are_kept_and_end_with_the_same_digest(run: Path, tmp_path: Path) -> None:
    data = {"name": "typed_graph", "target": "paper", **own_tables(80)}
    options = {key: value for key, value in QUICK.items() if not key.startswith("data.")}
    finished = fedgraft.run("rafhgl", data=data, out=tmp_path / "run", progress=False, overrides=options)
    assert finished.summary["digest"] == fedgraft.Run(run).summary["digest"]
    assert sorted(path.name for path in (tmp_path / "run" / "data").iterdir()) == ["edges.parquet", "nodes.parquet"]
    questions = pd.DataFrame({"node": ["p3", "p4"]})
    pd.testing.assert_frame_equal(finished.predict(questions), fedgraft.Run(run).predict(questions))


def test_where_features_are_made_a_new_node_needs_edges(tmp_path: Path) -> None:
    paths = written(tmp_path, drop=("pages", "year"))
    given = {
        f"data.{option}": {name: str(tmp_path / file) for name, file in names.items()}
        for option, names in paths.items()
    }
    execute(jobs.load("rafhgl", {**given, **QUICK}), tmp_path / "run")
    nodes = pd.DataFrame({"node": ["x", "p4"]})
    edges = links(("paper", "x", "author", "a4"), ("venue", "1", "paper", "x"))
    found = predict(tmp_path / "run", {"nodes": nodes, "edges": edges})
    assert found["client"].tolist() == ["org 0"] * 2
    with pytest.raises(InputError, match=r"row 1: no client has a paper 'x' \(1 such rows\)\. A new node needs edges"):
        predict(tmp_path / "run", {"nodes": nodes})
