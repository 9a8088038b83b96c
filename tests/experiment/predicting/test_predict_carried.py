"""Edges that carry data, in answers: a client's own tables and new nodes' edges are read as the run's data are."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import execute
from helpers import site_tables
from helpers.served_runs import QUICK
from helpers.tiers import long_but_for

CARRIED: list[dict[str, Any]] = [
    {"data.edge_features": "all", "data.weight": "times", "data.time": "when", "data.directed": True},
    {"data.edge_features": ["amount"], "data.directed": True, "data.duplicate_edges": "sum"},
    {"data.edge_features": ["channel"], "data.time": "when", "data.duplicate_edges": "last"},
    {"data.directed": True},
]


def tables() -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
    """(those of one client, those of three new nodes of its)."""
    nodes, edges = site_tables.nodes(across=True)
    edges = site_tables.carrying(edges)
    late = nodes["node"].tail(3).tolist()
    is_late, touches = nodes["node"].isin(late), edges["source"].isin(late) | edges["target"].isin(late)
    nodes = nodes.assign(client="north")
    then = {"nodes": nodes[~is_late], "edges": edges[~touches]}
    return then, {"nodes": nodes[is_late].drop(columns=["label", "split", "client"]), "edges": edges[touches]}


def ran(folder: Path, then: dict[str, pd.DataFrame], **changes: Any) -> Path:
    given = {f"data.{name}": str(folder / f"{name}.csv") for name in then}
    for name, table in then.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    changes = {**QUICK, "data.name": "nodes", "model.name": "multigraph", "model.hidden": [8, 8], **given, **changes}
    execute(jobs.load("fedais", {**changes, "rounds": 2, "selector.clients": 1}), folder / "run")
    return folder / "run"


@pytest.mark.parametrize("carried", long_but_for([CARRIED[0], CARRIED[3]], CARRIED))
def test_new_nodes_and_own_tables_are_read_as_the_run_reads_its_own(tmp_path: Path, carried: dict[str, Any]) -> None:
    then, new = tables()
    run = ran(tmp_path, then, **carried)
    known = {"nodes": then["nodes"][["node"]].head(20)}
    own = {"own": then["nodes"].drop(columns="client"), "own_edges": then["edges"]}
    first = predict(run, known)
    for column in ("class", "probability"):
        assert predict(run, known, **own)[column].tolist() == first[column].tolist()
    answers = predict(run, new)
    every = {"nodes": new["nodes"][["node"]]}
    grown = {name: pd.concat([then[name], new[name]]) for name in then}
    whole = predict(run, every, own=grown["nodes"].drop(columns="client"), own_edges=grown["edges"])
    assert answers["probability"].tolist() == pytest.approx(whole["probability"].tolist(), rel=1e-6)
    alone = predict(run, {"nodes": new["nodes"]}, client="north")
    assert answers["probability"].tolist() != pytest.approx(alone["probability"].tolist(), rel=1e-3)
    if "data.edge_features" in carried:
        changed = new["edges"].assign(amount=1e4, channel="card")
        assert predict(run, {**new, "edges": changed})["probability"].tolist() != answers["probability"].tolist()


def test_what_is_missing_or_wrong_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    then, new = tables()
    run = ran(tmp_path, then, **CARRIED[0])
    known, nodes = {"nodes": then["nodes"][["node"]].head(2)}, then["nodes"].drop(columns="client")
    renamed = {"amount": "amout"}
    error = r"no column 'amount' \(data.edge_features: amount\). Did you mean 'amout'\?"
    with pytest.raises(InputError, match=f"predict.edges: {error}"):
        predict(run, {**new, "edges": new["edges"].rename(columns=renamed)})
    with pytest.raises(InputError, match=f"--data-edges: {error}"):
        predict(run, known, own=nodes, own_edges=then["edges"].rename(columns=renamed))
    with pytest.raises(InputError, match=r"predict.edges: no column 'times' \(data.weight\)"):
        predict(run, {**new, "edges": new["edges"].drop(columns="times")})
    with pytest.raises(InputError, match=r"predict.edges, row 1: 'when' must be a number or a date; got 'soon'"):
        predict(run, {**new, "edges": new["edges"].assign(when="soon")})
    with pytest.raises(InputError, match=r"predict.edges, row 1: 'times' must be a finite number and at least 0"):
        predict(run, {**new, "edges": new["edges"].assign(times=-1)})
    nobody = new["edges"].reset_index(drop=True)
    nobody.loc[nobody.index[-1], ["source", "target"]] = [new["nodes"]["node"].iloc[0], "n999"]
    nobody.loc[0, ["source", "target"]] = new["nodes"]["node"].iloc[1]
    with pytest.raises(InputError, match=rf"edges, row {len(nobody)}: 'target' must be a node of a client"):
        predict(run, {**new, "edges": nobody})
    caplog.clear()
    predict(run, {**new, "edges": new["edges"].assign(channel="pigeon")})
    assert "'channel': 'pigeon'" in caplog.text
    empty = new["edges"].iloc[:0]
    asked = {"nodes": new["nodes"].assign(client="north"), "edges": empty}
    assert np.isfinite(predict(run, asked)["probability"]).all()
