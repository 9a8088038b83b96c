"""Banks whose transfers have labels, at their sites: the digest, bytes and scores of one machine with all tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.export import export, exported
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.interface import serve
from helpers import banks
from helpers.asgi import Client
from helpers.banks import BANKS
from helpers.local_sites import LocalSites, federated, traffic

SAME = ("digest", "bytes", "metric", "test", "validation", "test_per_client")
CHANGES = {**banks.OPTIONS, "rounds": 2, "training.epochs": 2, "runtime.workers": 0, "baselines": []}


def here(every: dict[str, pd.DataFrame], root: Path, changes: dict[str, Any]) -> dict[str, Any]:
    paths = {f"data.{name}": str(path) for name, path in banks.written(every, root / "all").items()}
    return execute(jobs.load("graft_edge", {**CHANGES, **paths, **changes}), root / "here")


def at_sites(every: dict[str, pd.DataFrame], root: Path, changes: dict[str, Any]):
    own = [banks.written(banks.of_bank(every, name), root / "tables" / name) for name in BANKS]
    given = [[f"{name}={path}" for name, path in each.items()] for each in own]
    nowhere = {"data.nodes": "nowhere.csv", "data.edges": "nowhere.csv"}
    return federated("graft_edge", {**CHANGES, **nowhere, **changes}, given, list(BANKS), root / "sites")


WITHOUT_TIME = pytest.param({"data.time": "", "data.edge_features": ["amount"]}, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"data.match": "psi"}, marks=pytest.mark.slow),
        pytest.param({"data.source_client": "auto", "data.target_client": ""}, marks=pytest.mark.slow),
        WITHOUT_TIME,
        {"data.labels": "numbers", "data.label": "amount", "data.edge_features": ["channel"]},
    ],
)
def test_sites_end_as_one_machine_with_the_whole_table(tmp_path: Path, changes: dict[str, Any]) -> None:
    every = banks.tables()
    if changes.get("data.labels") == "numbers":
        every["edges"] = every["edges"].assign(amount=every["edges"]["amount"].fillna(1.0))
    one = here(every, tmp_path, changes)
    two, sites = at_sites(every, tmp_path, changes)
    for name in SAME:
        assert two[name] == one[name], name
    assert one["bytes"]["matching"] > 0
    assert one["bytes"]["halo"] > 0
    if changes.get("data.labels") == "numbers":  # in the unit of all, by tables of one bank's own as by the model alone
        own, runs = banks.of_bank(every, "west"), (tmp_path / "here", sites.run_folder("west"))
        asked = {"edges": own["edges"].head(9)}
        told = [predict(run, asked, None, own["nodes"], own["edges"])["prediction"].tolist() for run in runs]
        assert told[0] == told[1]
        for run, folder in zip(runs, ("one", "two"), strict=True):
            export(open_run(run), tmp_path / folder)
        models = [exported(tmp_path / folder).state_dict() for folder in ("one", "two")]
        assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


@pytest.mark.parametrize("changes", [{}, WITHOUT_TIME])
def test_edges_that_only_their_sources_client_lists_are_scored(
    tmp_path: Path, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Transfers to banks that take no part, and to accounts that the other bank has not: here and at sites alike."""
    every = banks.tables()
    edges, rows = every["edges"], np.arange(len(every["edges"]))
    edges.loc[rows % 9 == 0, ["to", "to_bank"]] = ["a1", "moon"]
    edges.loc[rows % 11 == 0, "to"] = "x" + edges.loc[rows % 11 == 0, "to"]
    one = here(every, tmp_path, changes)
    two, _ = at_sites(every, tmp_path, changes)
    for name in SAME:
        assert two[name] == one[name], name
    data = {f"data.{name}": str(tmp_path / "all" / f"{name}.csv") for name in every}
    shards = jobs.load("graft_edge", {**CHANGES, **data, **changes}).shards()
    assert sum(shard.ends.shape[1] for shard in shards) == len(edges), "every transfer is told by its source's bank"
    assert sum((shard.ends[1] < 0).sum() for shard in shards) == ((rows % 9 == 0) | (rows % 11 == 0)).sum()
    asked = edges.drop(columns=["fraud", "when"]).head(30)
    told = predict(tmp_path / "here", {"edges": asked})
    assert told["client"].tolist() == asked["from_bank"].tolist()
    assert told["probability"].notna().all()
    assert "edges: 4 targets are said to be of 'moon', no client: they are taken for new nodes." in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"data.match": "psi"}, marks=pytest.mark.slow),
        WITHOUT_TIME,
    ],
)
def test_accounts_of_two_banks_hear_of_their_copies(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Some of the east's accounts are the north's, too, with transfers of their own; a column says so, or ids do."""
    every = banks.tables()
    nodes, edges = every["nodes"], every["edges"]
    east = nodes[nodes["client"] == "east"].head(8)
    nodes = pd.concat([nodes, east.assign(client="north", age=40)], ignore_index=True).assign(also_at=None)
    both = nodes["node"].isin(east["node"])
    nodes.loc[both, "also_at"] = nodes["client"].map({"east": "north", "north": "east"})
    moved = edges["from"].isin(east["node"]) & (np.arange(len(edges)) % 2 == 0)
    edges.loc[moved, "from_bank"] = "north"
    every, shared = {"nodes": nodes, "edges": edges}, {"data.shared_with": "also_at", **changes}
    one = here(every, tmp_path, shared)
    two, sites = at_sites(every, tmp_path, shared)
    for name in SAME:
        assert two[name] == one[name], name
    (tmp_path / "apart").mkdir()
    assert here(every, tmp_path / "apart", changes)["digest"] != one["digest"]
    asked = edges[edges["from_bank"] == "north"].tail(20).drop(columns=["fraud", "when"])
    wanted = predict(tmp_path / "here", {"edges": asked})
    pd.testing.assert_frame_equal(predict(sites.run_folder("north"), {"edges": asked}), wanted)


def test_a_server_that_resumes_and_a_site_that_predicts(tmp_path: Path) -> None:
    every, paced = banks.tables(), {"evaluation.every": 1}
    whole = here(every, tmp_path, {**paced, "rounds": 4})
    _, sites = at_sites(every, tmp_path, {**paced, "rounds": 2})
    given = [list(each.data) for each in sites.sites]
    again = LocalSites(sites.sites[0].own, given, list(BANKS), tmp_path / "sites" / "nodes")
    found = resume(tmp_path / "sites" / "run", sites=again, rounds=4)
    assert (found["digest"], found["bytes"]) == (whole["digest"], whole["bytes"])
    edges = every["edges"]
    tomorrow = edges[edges["from_bank"] == "east"].tail(30).drop(columns=["fraud", "when"])
    tomorrow.iloc[0, tomorrow.columns.get_loc("to")] = "somebody new"
    tomorrow.iloc[0, tomorrow.columns.get_loc("to_bank")] = None
    answers = predict(again.run_folder("east"), {"edges": tomorrow}, probabilities=True)
    wanted = predict(tmp_path / "here", {"edges": tomorrow}, probabilities=True)
    assert answers["client"].unique().tolist() == ["east"]
    assert answers["probability_yes"].tolist() == wanted["probability_yes"].tolist()
    assert wanted["probability_yes"].nunique() > 20


def test_no_id_leaves_a_bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every, sent = banks.tables(), traffic(monkeypatch)
    spell = {"from": {"a": "canary"}, "to": {"a": "canary"}, "node": {"a": "canary"}}
    at_sites({name: table.replace(spell, regex=True) for name, table in every.items()}, tmp_path, {})
    kept = [path.read_bytes() for path in (tmp_path / "sites" / "run").rglob("*") if path.is_file()]
    assert len(sent) > 10
    assert not [each for each in [*sent, *kept] if b"canary" in each]


def test_wrong_transfers_are_counted_and_the_run_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One side alone, listed twice at one side, an account that is not there, a bank that is none, to itself."""
    every = banks.tables()
    own = {name: banks.of_bank(every, name) for name in BANKS}
    east = own["east"]["edges"]
    ours = east[(east["from_bank"] == "east") & (east["to_bank"] == "north")].iloc[:8].copy()
    false = pd.concat([ours.assign(to="nobody"), ours.assign(to_bank="moon"), ours.assign(to=ours["from"])])
    own["east"]["edges"] = pd.concat([east, ours, false], ignore_index=True)
    given = [[f"{n}={p}" for n, p in banks.written(own[b], tmp_path / "t" / b).items()] for b in BANKS]
    nowhere = {"data.nodes": "nowhere.csv", "data.edges": "nowhere.csv"}
    found, _ = federated("graft_edge", {**CHANGES, **nowhere}, given, list(BANKS), tmp_path / "sites")
    assert np.isfinite(found["test"])
    assert "24 edges to nodes of 'north', which does not list them, taken as edges to unknown nodes." in caplog.text
    assert "8 edges to who is no client taken as edges to unknown nodes." in caplog.text


def assert_exported_says_the_same(run: Path, folder: Path, own: dict[str, pd.DataFrame], asked: pd.DataFrame) -> None:
    """The exported model and `features.py` make of one bank's own tables what `predict` says of these."""
    told = predict(run, {"edges": asked}, None, own["nodes"], own["edges"], probabilities=True)
    export(open_run(run), folder)
    made: dict[str, Any] = {}
    exec((folder / "features.py").read_text(), made)
    place = {name: k for k, name in enumerate(own["nodes"]["node"])}
    inside = own["edges"][own["edges"]["to"].isin(place) & own["edges"]["from"].isin(place)]
    new = sorted({*asked["from"], *asked["to"]} - {*place})
    place |= {name: len(place) + k for k, name in enumerate(new)}
    x = np.concatenate([made["features"](own["nodes"]), np.zeros((len(new), 1), np.float32)])
    ends = [np.stack([table[end].map(place).to_numpy() for end in ("from", "to")]) for table in (inside, asked)]
    columns = [made["edge_features"](table) for table in (inside, asked)]
    given = map(torch.from_numpy, (x, ends[0], columns[0], ends[1], columns[1]))
    with torch.no_grad():
        found = exported(folder)(*given).softmax(1)[:, 1]
    np.testing.assert_allclose(found.numpy(), told["probability_yes"], atol=1e-5)
    readme = (folder / "README.md").read_text()
    assert "what edges carry by `edge_features(table)`" in readme
    assert "- `pair_attr`: float32 [pairs, 4], what is known of these" in readme


def test_without_columns_of_banks_transfers_to_others_are_to_unknown_accounts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    every = banks.tables()
    changes = {"data.source_client": "", "data.target_client": "", "data.edge_features": ["amount", "channel"]}
    found, sites = at_sites(every, tmp_path, changes)
    assert np.isfinite(found["test"])
    (shard,) = open_run(sites.run_folder("east")).shards
    east = banks.of_bank(every, "east")["edges"].query("from_bank == 'east'")
    assert shard.ends.shape[1] == len(east)
    assert (shard.ends[1] < 0).sum() == (east["to_bank"] != "east").sum() > 100
    assert shard.graph.halo == 0
    assert "edges to nodes that are not in" in caplog.text
    assert "east/nodes.csv taken as edges to unknown nodes." in caplog.text


def test_tables_of_one_bank_alone_answer(tmp_path: Path) -> None:
    every = banks.tables()
    here(every, tmp_path, {"data.edge_features": ["amount", "channel"]})
    own = banks.of_bank(every, "west")
    asked = {"edges": own["edges"].query("from_bank == 'west'").tail(5).drop(columns="fraud")}
    told = predict(tmp_path / "here", asked, None, own["nodes"], own["edges"].drop(columns="fraud"))
    assert {*told["class"]} <= {"yes", "no"}
    assert list(told) == [*asked["edges"], "client", "class", "probability"], "both ends once, as the table calls them"
    assert told["from"].tolist() == asked["edges"]["from"].tolist()
    rows = asked["edges"].drop(columns="when").assign(source="web").fillna({"amount": 1})
    done = Client(serve.app(tmp_path / "here")).post("/predict", json={"tables": {"edges": rows.to_dict("records")}})
    answers = pd.DataFrame(done.json()["answers"])
    assert list(answers) == [*rows, "client", "class", "probability"]
    assert answers["source"].tolist() == ["web"] * 5, "a column of the table's own"
    assert_exported_says_the_same(tmp_path / "here", tmp_path / "model", own, asked["edges"])
    with pytest.raises(InputError, match=r"predict\.edges: no column 'amount', which the model reads of an edge"):
        predict(tmp_path / "here", {"edges": asked["edges"].drop(columns="amount")})
    with pytest.raises(InputError, match=r"predict\.edges, row \d+: 'amount' must be a finite number"):
        predict(tmp_path / "here", {"edges": asked["edges"].assign(amount="much")})
