"""Runs that tell labels of edges: what came before tells, over clients too; nothing that comes later does."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.reports.figures.client_figures import embed
from fedgraft.reports.pages.html_report import render
from fedgraft.reports.pages.page_classes import confusion_of
from fedgraft.reports.stored.stored_runs import StoredRun
from helpers.toy_ratings import write_ratings

ROUNDS = 8


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ratings(tmp_path_factory.mktemp("ratings"))


@pytest.fixture
def experiment(root: Path):
    fixed = {"data.root": str(root), "data.clients": 3, "rounds": ROUNDS, "runtime.workers": 0, "baselines": []}
    return lambda **changes: load("graft_edge", {**fixed, **changes})


def test_who_was_distrusted_before_is_distrusted_again(experiment, whole_run) -> None:
    summary = whole_run(experiment()).summary
    assert summary["metric"] == "average_precision"
    assert summary["test"] > 0.8, "five of forty members earn nearly all of it"
    assert summary["bytes"]["halo"] > 0, "states of members at other clients"
    unshared = {"exchange.states": False, "exchange.history": False}
    assert execute(experiment(**unshared))["test"] < summary["test"], "most ratings are of members elsewhere"


def test_a_report_tells_classes_by_their_names(experiment, whole_run) -> None:
    run = StoredRun(whole_run(experiment()).folder)
    page = render([run])
    assert "Average precision and F1 are of the rarer class, &#39;distrust&#39;." in page
    told = confusion_of(run.run_folder)
    assert told.classes == ("trust", "distrust")
    rows = [shard.rows("test") for shard in experiment().shards()]
    assert told.examples == sum(map(len, rows))
    assert {*embed(run.run_folder)["class"]} == {"trust", "distrust"}


def test_numbers_are_told_in_the_users_unit(experiment, tmp_path: Path) -> None:
    summary = execute(experiment(**{"data.label": "weight", "data.clients": 1}), tmp_path / "run")
    assert summary["metric"] == "rmse"
    assert summary["test"] < 5
    run = fedgraft.open(tmp_path / "run")
    (shard,) = run.experiment.shards()
    rows, receiver = shard.graph.edge_rows, np.repeat(np.arange(shard.graph.own), shard.graph.degree)
    edges = np.stack([receiver, shard.graph.senders])[:, ~rows.along], rows.values[~rows.along]
    given = map(torch.from_numpy, (shard.graph.features, *edges, shard.ends[:, :9]))
    with torch.no_grad():
        found = run.export(folder=tmp_path / "model")(*given)[:, 0]
    source, target = shard.ids[shard.ends[:, :9]]
    told = run.predict(pd.DataFrame({"source": source, "target": target}))
    np.testing.assert_allclose(found.numpy(), told["prediction"], rtol=1e-4)


def test_processes_and_a_stop_change_no_bit(experiment, whole_run, tmp_path: Path) -> None:
    alone = whole_run(experiment()).summary
    assert execute(experiment(**{"runtime.workers": 2}))["digest"] == alone["digest"]
    execute(experiment(rounds=4), tmp_path / "run")
    assert resume(tmp_path / "run", rounds=ROUNDS)["digest"] == alone["digest"]


def test_baselines_of_one_place_and_of_each_client_alone(experiment) -> None:
    summary = execute(experiment(rounds=2, baselines=["local_only", "centralised"]))
    assert {*summary["baselines"]} >= {"local_only", "centralised"}


def test_later_ratings_change_no_score_before_them(root: Path, tmp_path: Path) -> None:
    """Ratings of the last fifth are permuted: training, choice and validation are the same bit by bit."""
    table = pd.read_csv(root / "soc-sign-bitcoinotc.csv")
    late = np.flatnonzero(table["time"].rank(method="min") > 0.8 * len(table) + 1)
    changed = table.copy()
    changed.loc[late, "feature"] = np.random.default_rng(1).permutation(table.loc[late, "feature"])
    changed.loc[late, ["from", "to"]] = table.loc[late, ["to", "from"]].to_numpy()
    changed.to_csv(tmp_path / "soc-sign-bitcoinotc.csv", index=False)
    fixed = {"data.clients": 3, "rounds": 3, "runtime.workers": 0, "baselines": []}
    one, other = (execute(load("graft_edge", {**fixed, "data.root": str(each)})) for each in (root, tmp_path))
    assert one["validation"] == other["validation"]
    assert one["test"] != other["test"]


def test_new_ratings_are_told_between_known_and_new_members(root: Path, tmp_path: Path) -> None:
    changes = {"data.root": str(root), "data.clients": 3, "rounds": ROUNDS, "runtime.workers": 0, "baselines": []}
    fedgraft.run("graft_edge", out=tmp_path / "run", overrides=changes, progress=False)
    asked = pd.DataFrame({"source": ["20", "21", "new", "22"], "target": ["1", "30", "2", "other"]})
    run = fedgraft.open(tmp_path / "run")
    told = run.predict(asked, probabilities=True)
    assert told[["source", "target"]].to_numpy().tolist() == asked.to_numpy().tolist()
    distrust = told["probability_distrust"].to_numpy()
    assert distrust[0] > 0.5 > distrust[1], "member 1 is distrusted by nearly all"
    assert np.isfinite(distrust).all()
    with pytest.raises(InputError, match=r"edges, row 1: no client has 'x' or 'y'; a column 'client' must say who"):
        run.predict(pd.DataFrame({"source": ["x"], "target": ["y"]}))


def test_columns_of_an_edge_are_asked_for_by_name(tmp_path: Path) -> None:
    toy = {"name": "helpers.toy_edges:ToyEdges", "edges": 200, "clients": 2}
    changes = {"data": toy, "rounds": 2, "runtime.workers": 0, "baselines": []}
    run = fedgraft.run("graft_edge", out=tmp_path / "run", overrides=changes, progress=False)
    asked = pd.DataFrame({"source": ["1"], "target": ["2"]})
    with pytest.raises(InputError, match=r"predict\.edges: no column '0', which the model reads of an edge\."):
        run.predict(asked)
    with pytest.raises(InputError, match=r"predict\.edges, row 1: '0' must be a finite number; got 'much'"):
        run.predict(asked.assign(**{"0": ["much"]}))
    one, other = (run.predict(asked.assign(**{"0": [value]}), probabilities=True) for value in (-3.0, 3.0))
    assert one["probability_bad"].item() != other["probability_bad"].item()


def test_what_cannot_be_exported_says_so_in_one_line(tmp_path: Path) -> None:
    toy = {"name": "helpers.toy_edges:ToyEdges", "edges": 200, "clients": 2}
    changes = {"data": toy, "model": {"name": "pyg", "hidden": 4}, "rounds": 1, "runtime.workers": 0, "baselines": []}
    run = fedgraft.run("graft_edge", out=tmp_path / "run", overrides=changes, progress=False)
    with pytest.raises(InputError, match=r"^Encoder 'pyg' has layers of another library, and cannot be exported"):
        run.export(folder=tmp_path / "model")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task.windows": 1}, r"task\.windows must be >= 2"),
        ({"data.set": "otcs"}, r"data\.set must be one of 'otc', 'alpha'; got 'otcs'"),
        ({"data.label": "signs"}, r"label"),
        ({"model": {"name": "mlp", "hidden": []}}, r"task\.encoder must be of at least one convolution"),
    ],
)
def test_bad_options_are_one_line(experiment, changes, message) -> None:
    with pytest.raises(InputError, match=message):
        execute(experiment(**changes))
