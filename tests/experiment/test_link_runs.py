"""Runs of link prediction: the same bits anywhere and after a kill, and answers from own tables without classes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import execute
from helpers.resumed_runs import resumed_alike, worked_alike
from helpers.whole_runs import MakeRun

SMALL = {
    "data.name": "blocks",
    "data.nodes": 90,
    "data.clients": 3,
    "data.features": 8,
    "data.degree": 10.0,
    "model.hidden": 8,
    "task.width": 8,
    "sampler.batches": 2,
    "training.epochs": 2,
    "rounds": 4,
    "runtime.workers": 0,
    "checkpoint.every_seconds": 0,
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Members of three clubs without classes, and who knows whom: mostly members of one club who are of an age."""
    folder, g = tmp_path_factory.mktemp("clubs"), np.random.default_rng(0)
    rows = np.arange(120)
    age = g.uniform(0, 1, 120)
    nodes = pd.DataFrame({"node": [f"m{row}" for row in rows], "client": rows % 3, "age": age, "height": g.random(120)})
    nodes["client"] = nodes["client"].map({0: "Nord", 1: "Süd", 2: "West"})
    ends = g.integers(0, 120, (2, 6000))
    near = (np.abs(age[ends[0]] - age[ends[1]]) < 0.1) & (ends[0] % 3 == ends[1] % 3)
    edges = pd.DataFrame(ends[:, near].T, columns=["source", "target"]).map(lambda row: f"m{row}")
    edges.loc[len(edges)] = ["m0", "m1"]  # between two clubs
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def run(tables: Path) -> Path:
    given = {"data.name": "nodes", "data.nodes": str(tables / "nodes.csv"), "data.edges": str(tables / "edges.csv")}
    execute(load("links", {**given, "rounds": 3, "runtime.workers": 0}), tables / "run")
    return tables / "run"


def test_a_kill_makes_no_difference(whole_run: MakeRun, tmp_path: Path) -> None:
    expected = resumed_alike(whole_run, load("links", {**SMALL, "exchange.neighbours": 3}), tmp_path / "run")
    assert 0 <= expected["test"] <= 1


@pytest.mark.slow
def test_two_workers_make_no_difference(whole_run: MakeRun) -> None:
    worked_alike(whole_run, load("links", {**SMALL, "exchange.neighbours": 3}))


def test_the_seed_says_which_edges_are_held_out() -> None:
    one, same, other = (load("links", {**SMALL, "seed": seed}).shards()[0] for seed in (1, 1, 2))
    assert np.array_equal(one.pairs, same.pairs)
    assert one.pairs.shape != other.pairs.shape or not np.array_equal(one.pairs, other.pairs)


def test_a_new_user_trains_and_predicts_with_two_commands(tables: Path, fedgraft) -> None:
    given = "data.name=nodes", f"data.nodes={tables / 'nodes.csv'}", f"data.edges={tables / 'edges.csv'}"
    ran = fedgraft("run", "links", *given, "rounds=3", "runtime.workers=0", "--out", "run")
    assert (ran.code, "auc" in ran.out, "feature_cosine" in ran.out) == (0, True, True), ran.err
    pd.DataFrame({"source": ["m0", "m4"], "target": ["m3", "m1"], "why": ["a", "b"]}).to_csv("pairs.csv", index=False)
    asked = fedgraft("predict", "run", "--pairs", "pairs.csv", "-o", "scores.csv")
    assert asked.code == 0, asked.err
    found = pd.read_csv("scores.csv")
    assert list(found) == ["why", "client", "source", "target", "score"]
    assert found["client"].tolist() == ["Nord", "Süd"]
    assert found["score"].between(0, 1).all()
    reported = fedgraft("report", "run", "--out", "report.html")
    assert reported.code == 0, reported.err


def test_scores_tell_who_is_of_an_age(tables: Path, run: Path) -> None:
    nodes = pd.read_csv(tables / "nodes.csv")
    nord = nodes[nodes["client"] == "Nord"].sort_values("age")["node"].tolist()
    near = pd.DataFrame({"source": nord[:-1], "target": nord[1:]})
    far = pd.DataFrame({"source": nord[:15], "target": nord[-15:]})
    assert predict(run, {"pairs": near})["score"].mean() > predict(run, {"pairs": far})["score"].mean()


def test_a_new_node_is_scored_by_its_features_and_its_edges(run: Path) -> None:
    pairs = pd.DataFrame({"source": ["new", "new"], "target": ["m3", "m6"]})
    nodes = pd.DataFrame({"node": ["new"], "age": [0.5], "height": [0.5]})
    alone = predict(run, {"pairs": pairs, "nodes": nodes})
    assert alone["client"].tolist() == ["Nord", "Nord"]
    joined = predict(
        run, {"pairs": pairs, "nodes": nodes, "edges": pd.DataFrame({"source": ["new"], "target": ["m9"]})}
    )
    assert not np.allclose(alone["score"], joined["score"])
    with pytest.raises(InputError, match="no column 'height'"):
        predict(run, {"pairs": pairs, "nodes": nodes.drop(columns="height")})


def test_a_client_that_was_not_there_asks_with_its_own_tables(tables: Path, run: Path) -> None:
    own = pd.DataFrame({"node": ["x", "y", "z"], "age": [0.1, 0.1, 0.9], "height": [0.3, 0.2, 0.4]})
    edges = pd.DataFrame({"source": ["x"], "target": ["y"]})
    pairs = pd.DataFrame({"source": ["x", "x"], "target": ["y", "z"]})
    found = predict(run, {"pairs": pairs, "data": own, "data-edges": edges})
    assert found["client"].tolist() == ["own", "own"]
    assert found["score"].between(0, 1).all()


def test_from_python_tables_and_objects_without_classes_do(tables: Path) -> None:
    nodes, edges = (pd.read_csv(tables / f"{name}.csv") for name in ("nodes", "edges"))
    ends = edges.map(lambda name: int(name[1:])).to_numpy().T
    graph = Data(x=torch.tensor(nodes[["age", "height"]].to_numpy()), edge_index=torch.tensor(ends))
    graph.client = nodes["client"].tolist()
    quick = {"rounds": 1, "runtime": {"workers": 0}, "baselines": [], "progress": False}
    for given, ends in (({"nodes": nodes, "edges": edges}, ("m0", "m3")), ({"nodes": graph}, (0, 3))):
        found = fedgraft.run("links", data={"name": "nodes", "label": "", **given}, **quick)
        answer = found.predict(pd.DataFrame({"source": ends[:1], "target": ends[1:]}))
        assert answer["client"].tolist() == ["Nord"]
        assert answer["score"].between(0, 1).all()


def test_classes_are_needed_to_classify(tables: Path) -> None:
    given = {"data.name": "nodes", "data.nodes": str(tables / "nodes.csv"), "data.edges": str(tables / "edges.csv")}
    with pytest.raises(InputError, match=r"no column 'label' \(data\.label\)"):
        execute(load("fedais", given))
    with pytest.raises(InputError, match=r"Task 'node' needs classes of nodes: data\.label must name their column"):
        execute(load("fedais", {**given, "data.label": ""}))
