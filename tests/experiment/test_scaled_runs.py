"""Runs on own tables whose columns differ in size: what they cost, and who reads columns alike."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedgraft
from fedgraft.experiment import job as jobs
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.running.runner import execute, resume

QUICK = {"rounds": 2, "runtime.workers": 0, "baselines": [], "answers.smoothing": 0, "training.schedule": "constant"}


def accounts(rows: int = 120, seed: int = 0) -> pd.DataFrame:
    """A risk in 0..1 decides the class; beside it a balance over five orders of magnitude, and empty incomes."""
    g = np.random.default_rng(seed)
    risk = g.random(rows)
    return pd.DataFrame(
        {
            "node": [f"a{k}" for k in range(rows)],
            "risk": risk,
            "balance": np.exp(g.normal(8, 2.5, rows)),
            "income": np.where(g.random(rows) < 0.2, np.nan, g.normal(3e4, 9e3, rows)),
            "land": g.choice(["de", "fr", "it"], rows),
            "label": np.where(risk > 0.5, "high", "low"),
            "client": np.array(["north", "south"])[np.arange(rows) % 2],
        }
    )


EDGES = pd.DataFrame({"source": ["a0", "a2"], "target": ["a2", "a4"]})


def written(folder: Path, table: pd.DataFrame) -> dict[str, object]:
    table.to_csv(folder / "nodes.csv", index=False)
    EDGES.to_csv(folder / "edges.csv", index=False)
    return {"data.name": "nodes", "data.nodes": str(folder / "nodes.csv"), "data.edges": str(folder / "edges.csv")}


def test_what_agreeing_takes_is_charged_and_resumed(tmp_path: Path) -> None:
    options = {**written(tmp_path, accounts()), **QUICK}
    scaled = execute(jobs.load("graft_node", options), tmp_path / "run")
    entries = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    first = [each for each in entries if each["purpose"] == "statistics"]
    assert [(each["client"], each["direction"]) for each in first] == [(0, "down"), (0, "up"), (1, "down"), (1, "up")]
    assert scaled["bytes"]["statistics"] == sum(each["bytes"] for each in first) > 0
    longer = resume(tmp_path / "run", rounds=3)
    once = execute(jobs.load("graft_node", {**options, "rounds": 3}), tmp_path / "once")
    assert (longer["digest"], longer["bytes"]) == (once["digest"], once["bytes"])


def test_a_small_column_is_learnt_beside_large_ones(tmp_path: Path) -> None:
    options = {**written(tmp_path, accounts(400)), **QUICK, "rounds": 15}
    assert execute(jobs.load("graft_node", options))["test"] > 0.85
    assert execute(jobs.load("graft_node", {**options, "data.scaling": "rows"}))["test"] < 0.7


def test_baselines_see_the_same_columns(tmp_path: Path) -> None:
    options = {**written(tmp_path, accounts(400)), **QUICK, "baselines": ["mlp", "smoothed_features"]}
    scores = execute(jobs.load("graft_node", options))["baselines"]
    assert min(scores["mlp"], scores["smoothed_features"]) > 0.85


def test_a_run_that_begins_with_anothers_model_reads_columns_as_it_did(tmp_path: Path) -> None:
    execute(jobs.load("graft_node", {**written(tmp_path, accounts()), **QUICK}), tmp_path / "first")
    changed = accounts().assign(balance=lambda table: table["balance"] * 1000)
    changed.loc[0, "land"] = "es"
    (tmp_path / "later").mkdir()
    options = {**written(tmp_path / "later", changed), **QUICK}
    fedgraft.run("graft_node", overrides=options, out=tmp_path / "second", start=tmp_path / "first")
    one, two = (
        Recipe.parsed((tmp_path / name / "experiment.toml").read_text(), name).sections for name in ("first", "second")
    )
    assert one["data"]["transforms"] == two["data"]["transforms"]


def test_new_nodes_may_lack_a_cell(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    execute(jobs.load("graft_node", {**written(tmp_path, accounts()), **QUICK}), tmp_path / "run")
    asked = pd.DataFrame(
        {"node": ["a1", "new", "other"], "risk": [None, 0.9, None], "balance": [None, 5e3, 1e6], "income": [None] * 3}
    ).assign(land=[None, "it", "es"], client=["south", "north", "north"])
    answers = fedgraft.open(tmp_path / "run").predict(asked)
    assert answers["node"].tolist() == ["a1", "new", "other"]
    assert "'risk' lack numbers, which none did in training" in caplog.text
    assert "Feature 'land': 'es' in 1 rows count as none" in caplog.text
