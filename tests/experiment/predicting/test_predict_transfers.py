"""Runs on AMLSim's sets answer about a bank's own accounts from tables as AMLSim writes them."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedgraft.domains.nodes.reading.transfers import OwnTransfers
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import execute
from fedgraft.interface import serve
from helpers.asgi import Client
from helpers.toy_transfers import write_transfers

SET = "20K_cycle200"
QUICK = {"runtime.workers": 0, "baselines": [], "rounds": 2, "data.clients": 1, "answers.smoothing": 0}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("amlsim")
    write_transfers(folder / SET)
    return folder


def ran(root: Path, folder: Path, **changes: Any) -> Path:
    data = {"data.name": "amlsim", "data.root": str(root), "model.hidden": [8, 8]}
    execute(load("graft_multigraph", {**data, **QUICK, **changes}), folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def run(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ran(root, tmp_path_factory.mktemp("transfers"))


def raw(root: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    return pd.read_csv(root / SET / "nodes.csv"), pd.read_csv(root / SET / "transactions.csv")


def test_own_tables_answer_as_the_runs_data_do(root: Path, run: Path) -> None:
    accounts, transfers = raw(root)
    asked = {"nodes": accounts[["nodeid"]].head(20)}
    known = predict(run, asked)
    assert known["nodeid"].astype(int).tolist() == list(range(20))
    own = predict(run, asked, own=accounts.drop(columns=["isFraud", "fraudStep"]), own_edges=transfers)
    assert own["probability"].tolist() == pytest.approx(known["probability"].tolist(), rel=1e-5)
    dearer = transfers.assign(value=transfers["value"] * 50)
    changed = predict(run, asked, own=accounts, own_edges=dearer)
    assert changed["probability"].tolist() != pytest.approx(known["probability"].tolist(), rel=1e-3)


def test_columns_that_are_scaled_already_are_read_too(root: Path, run: Path) -> None:
    accounts, transfers = raw(root)
    told = OwnTransfers.of_set(root, SET).asked({"nodes": accounts, "edges": transfers})
    nodes = told["nodes"].rename(columns={"nodeid": "node"})[["node", "0", "1", "2"]]
    asked = {"nodes": nodes[["node"]].head(20)}
    scaled = predict(run, asked, own=nodes, own_edges=told["edges"][["source", "target", "0", "1"]])
    assert scaled["probability"].tolist() == pytest.approx(predict(run, asked)["probability"].tolist(), rel=1e-5)
    message = "no column 'sourceNodeId', and none of '0', '1': the model reads what transfers carry. Give"
    with pytest.raises(InputError, match=message) as error:
        predict(run, asked, own=nodes, own_edges=told["edges"][["source", "target"]])
    assert "\n" not in str(error.value)


def test_a_model_that_reads_no_columns_needs_none(root: Path, tmp_path: Path) -> None:
    run = ran(root, tmp_path, **{"model.name": "sage"})
    nodes = pd.DataFrame({"node": ["a", "b"], "0": [0.1, 0.2], "1": [0.0, 0.0], "2": [1.0, -1.0]})
    edges = pd.DataFrame({"source": ["a"], "target": ["b"]})
    assert len(predict(run, {"nodes": nodes[["node"]]}, own=nodes, own_edges=edges)) == 2


def test_new_accounts_are_those_of_a_grown_table(root: Path, run: Path) -> None:
    accounts, transfers = raw(root)
    new = pd.DataFrame({"nodeid": [900, 901], "init_balance": [120.0, 333.0]})
    late = pd.DataFrame(
        {"sourceNodeId": [900, 3, 900, 901], "targetNodeId": [5, 900, 901, 901], "value": [40, 7, 300, 2], "time": 4}
    )
    answers = predict(run, {"nodes": new, "edges": late})
    grown = {"own": pd.concat([accounts, new]), "own_edges": pd.concat([transfers, late])}
    whole = predict(run, {"nodes": new[["nodeid"]]}, **grown)
    assert answers["nodeid"].tolist() == whole["nodeid"].tolist() == [900, 901]
    # Known accounts' features count the transfers of training; the new ones' are the same in both.
    assert answers["probability"].tolist() == pytest.approx(whole["probability"].tolist(), rel=0.05)
    told = {name: table.to_dict("records") for name, table in (("nodes", new), ("edges", late))}
    done = Client(serve.app(run)).post("/predict", json={"tables": told})
    assert [row["probability"] for row in done.json()["answers"]] == pytest.approx(answers["probability"].tolist())


@pytest.mark.parametrize(
    ("accounts", "transfers", "message"),
    [
        ({"init_balance": "much"}, {}, r"--data, row 1: 'init_balance' must be a finite number; got 'much'"),
        ({}, {"value": -3}, r"--data-edges, row 1: 'value' must be at least 0; got '-3'"),
        ({}, {"time": "noon"}, r"--data-edges, row 1: 'time' must be a finite number; got 'noon'"),
        ({"init_balance": None}, {}, r"no column 'init_balance', an account's balance"),
        ({}, {"value": None}, r"--data-edges: no column 'value' \(how much\)"),
    ],
)
def test_what_is_wrong_is_named(
    root: Path, run: Path, accounts: dict[str, Any], transfers: dict[str, Any], message: str
) -> None:
    changed = []
    for table, changes in zip(raw(root), (accounts, transfers), strict=True):
        lacking = [name for name, value in changes.items() if value is None]
        changed.append(table.drop(columns=lacking).assign(**{k: v for k, v in changes.items() if v is not None}))
    with pytest.raises(InputError, match=message) as error:
        predict(run, {"nodes": changed[0][["nodeid"]].head(2)}, own=changed[0], own_edges=changed[1])
    assert "\n" not in str(error.value)


def test_the_scale_is_that_of_the_set_which_must_be_there(root: Path, tmp_path: Path) -> None:
    write_transfers(tmp_path / "gone" / SET)
    run = ran(tmp_path / "gone", tmp_path)
    accounts, transfers = raw(root)
    (tmp_path / "gone" / SET / "nodes.csv").unlink()
    message = r"no file .*nodes\.csv; download it .* Tables with AMLSim's columns are brought to"
    with pytest.raises(InputError, match=message):
        predict(run, {"nodes": accounts[["nodeid"]].head(2)}, own=accounts, own_edges=transfers)
