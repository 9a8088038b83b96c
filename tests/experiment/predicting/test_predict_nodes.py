"""Classes of nodes from a run's folder: known nodes, nodes added after training, a client's own part elsewhere."""

import shutil
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedgraft
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.running.runner import execute
from fedgraft.interface import cli

QUICK = {
    "model.hidden": [8, 8],
    "selector.clients": 3,
    "rounds": 2,
    "runtime.workers": 0,
    "baselines": [],
}
BLOCKS = {"data.name": "blocks", "data.nodes": 60, "data.classes": 3, "data.clients": 3, "data.features": 4, **QUICK}
COLUMNS = {
    "data.node": "paper",
    "data.label": "subject",
    "data.client": "org",
    "data.source": "from",
    "data.target": "to",
}
OUT = ["client", "node", "class", "probability"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nodes") / "run"
    execute(jobs.load("fedais", BLOCKS), folder)
    return folder


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on own tables, beside them: papers.csv and cites.csv of two organisations."""
    folder = tmp_path_factory.mktemp("tables")
    g = np.random.default_rng(0)
    rows = np.arange(40)
    papers = pd.DataFrame({"paper": [f"p{row}" for row in rows], "subject": np.where(rows % 2, "art", "law")})
    papers["org"] = np.where(rows < 20, "east", "west")
    papers["pages"], papers["year"] = rows % 2 + g.random(40), g.random(40)
    cites = pd.DataFrame({"from": g.integers(0, 40, 120), "to": g.integers(0, 40, 120)}).map(lambda row: f"p{row}")
    papers.to_csv(folder / "papers.csv", index=False)
    cites.to_csv(folder / "cites.csv", index=False)
    given = {"data.name": "nodes", "data.nodes": str(folder / "papers.csv"), "data.edges": str(folder / "cites.csv")}
    execute(jobs.load("fedais", {**given, **COLUMNS, **QUICK, "selector.clients": 2}), folder / "run")
    return folder


def part_of(shard: NodeShard) -> dict[str, pd.DataFrame]:
    """A client's nodes with their features, and the edges between them, as tables."""
    nodes = pd.DataFrame(shard.features).assign(node=shard.ids)
    row = np.repeat(np.arange(shard.own), shard.degree)
    inside = (shard.senders < shard.own) & (row < shard.senders)
    return {
        "nodes": nodes,
        "edges": pd.DataFrame({"source": shard.ids[row[inside]], "target": shard.ids[shard.senders[inside]]}),
    }


# --- known nodes ------------------------------------------------------------------------------------------------------


def test_every_node_is_answered_by_its_client_from_what_it_was_told(run: Path) -> None:
    finished = open_run(run)
    ids = np.concatenate([shard.ids for shard in finished.shards])[::-1]
    found = predict(run, {"nodes": pd.DataFrame({"node": ids, "note": "kept", "class": "?"})})
    assert list(found) == ["note", *OUT]
    assert found["node"].tolist() == [str(each) for each in ids]
    assert found["probability"].between(1 / 3, 1).all()
    for client, shard in enumerate(finished.shards):
        mine = found[found["client"] == shard.name].set_index("node").loc[[str(each) for each in shard.ids]]
        right = (mine["class"] == np.array(shard.classes)[shard.label]).to_numpy()
        # The client's own scores, with features and states of its halo as it remembers them.
        sums = finished.plan.task.evaluate(finished.client_model(client), finished.prepared(client))
        assert {split: right[shard.rows(split)].sum() for split in sums} == {s: sums[s]["correct"] for s in sums}
        assert finished.memory(client)["states"] is not None

    asked = finished.task.questions(finished.shards, {"nodes": pd.DataFrame({"node": ids})})[0].asked
    memory, module = finished.memory(0), finished.client_model(0)
    given = [{}, {"shared": memory["shared"]}, {"shared": memory["shared"], "states": memory["states"]}, memory]
    shares = [finished.task.predict(module, finished.shards[0], told, asked)["probability"] for told in given]
    assert (shares[0] != shares[1]).any()
    assert (shares[1] != shares[2]).any()
    assert (shares[2] == shares[3]).all()


def test_an_answer_does_not_depend_on_what_else_is_asked(run: Path) -> None:
    ids = [str(open_run(run).shards[client].ids[0]) for client in (2, 0, 1)]
    together = predict(run, {"nodes": pd.DataFrame({"node": ids})})
    apart = [predict(run, {"nodes": pd.DataFrame({"node": [each]})}) for each in ids]
    pd.testing.assert_frame_equal(pd.concat(apart, ignore_index=True), together)
    assert together["client"].tolist() == ["blocks-2", "blocks-0", "blocks-1"]


# --- new nodes --------------------------------------------------------------------------------------------------------


def test_new_nodes_are_answered_with_their_neighbours(run: Path) -> None:
    shard = open_run(run).shards[1]
    # Twins of a known node: y has its neighbours inside the client, z has none.
    v = int((shard.senders < shard.own).argmax())
    v = int(np.searchsorted(shard.pointers, v, side="right")) - 1
    heard = shard.senders[shard.pointers[v] : shard.pointers[v + 1]]
    edges = pd.DataFrame({"source": "y", "target": shard.ids[heard[heard < shard.own]]})
    nodes = pd.DataFrame([shard.features[v]] * 2).assign(node=["y", "z"], client=[None, "blocks-1"])
    found = predict(run, {"nodes": nodes, "edges": edges})
    assert list(found) == [0, 1, 2, 3, *OUT]
    assert found["client"].tolist() == ["blocks-1"] * 2
    assert found["probability"][0] != found["probability"][1]
    alone = predict(run, {"nodes": nodes.iloc[1:]})
    assert alone["probability"][0] == pytest.approx(found["probability"][1], abs=1e-6)
    with pytest.raises(InputError, match=r"predict.nodes, row 1: who answers for new node 'y'"):
        predict(run, {"nodes": nodes})


def test_own_tables_name_their_columns(tables: Path) -> None:
    nodes = pd.DataFrame({"paper": ["new", "p3"], "year": [0.5, None], "pages": [1.5, None]})
    found = predict(tables / "run", {"nodes": nodes, "edges": pd.DataFrame({"from": ["new"], "to": ["p21"]})})
    assert found["client"].tolist() == ["west", "east"]
    assert set(found["class"]) <= {"art", "law"}
    swapped = nodes.rename(columns={"year": "pages", "pages": "year"})
    other = predict(tables / "run", {"nodes": swapped.assign(org="west").iloc[:1]})
    again = predict(tables / "run", {"nodes": nodes.assign(org="west").iloc[:1]})
    assert other["probability"][0] != again["probability"][0]
    with pytest.raises(InputError, match=r"no column 'pages', a feature of new node 'new' .*Did you mean 'page'"):
        predict(tables / "run", {"nodes": nodes.rename(columns={"pages": "page"}).iloc[:1]})
    with pytest.raises(InputError, match=r"--nodes: columns 'paper' and 'node' both say the node; one is needed"):
        predict(tables / "run", {"nodes": nodes.assign(node=1)})


# --- a client's own part ----------------------------------------------------------------------------------------------


def test_a_part_elsewhere_is_answered_from_itself_alone(run: Path, tmp_path: Path) -> None:
    finished = open_run(run)
    shard = finished.shards[2]
    part = part_of(shard)
    asked = {"nodes": pd.DataFrame({"node": shard.ids})}
    found = predict(run, asked, own=part["nodes"], own_edges=part["edges"])
    assert list(found) == OUT
    assert set(found["client"]) == {"own"}
    # The same as from the client's shard without what others told it.
    questions = finished.task.questions(finished.shards, asked)[2].asked
    alone = finished.task.predict(finished.client_model(2), shard, {}, questions)
    assert found["class"].tolist() == alone["class"].tolist()
    np.testing.assert_allclose(found["probability"], alone["probability"], atol=1e-6)

    for name, table in part.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    files = predict(run, asked, own=tmp_path / "nodes.csv", own_edges=tmp_path / "edges.csv")
    assert files["class"].tolist() == found["class"].tolist()
    new = {
        "nodes": pd.DataFrame([[1.0, 1, 1, 1]]).assign(node="new"),
        "edges": pd.DataFrame({"source": ["new"], "target": [shard.ids[0]]}),
    }
    assert predict(run, new, own=part["nodes"], own_edges=part["edges"])["client"].tolist() == ["own"]


@pytest.mark.parametrize("there", [True, False])
def test_a_part_has_the_columns_of_the_runs_own_tables(tables: Path, tmp_path: Path, there: bool, caplog) -> None:
    folder = tmp_path / "run"
    shutil.copytree(tables / "run", folder)
    if not there:
        text = (folder / "experiment.toml").read_text()
        (folder / "experiment.toml").write_text(text.replace("papers.csv", "gone.csv"))
    own = pd.DataFrame({"paper": ["a", "b"], "pages": [0.2, 1.7], "year": [0.1, 0.2], "subject": ["law", "art"]})
    cites = pd.DataFrame({"from": ["a", "b"], "to": ["b", "elsewhere"]})
    asked = {"nodes": pd.DataFrame({"paper": ["b", "a"]})}
    found = predict(folder, asked, own=own, own_edges=cites)
    assert set(found["class"]) <= {"art", "law"}
    assert "--data-edges: 1 edges to nodes that are not in --data left out" in caplog.text
    # Classes are the run's, whatever the client's own labels are.
    for labels in (["law", None], [None, None]):
        labelled = predict(folder, asked, own=own.assign(subject=labels), own_edges=cites)
        assert labelled["class"].tolist() == found["class"].tolist()
    with pytest.raises(
        InputError, match=r"No class of the run, .*'subject' of --data has it, named 'lew'\. Did you mean 'law'"
    ):
        predict(folder, asked, own=own.assign(subject=["lew", "art"]), own_edges=cites)
    message = (
        "no column 'year', a feature" if there else "--data: 1 columns of features, but the model was trained on 2"
    )
    with pytest.raises(InputError, match=message):
        predict(folder, asked, own=own.drop(columns="year"), own_edges=cites)


def test_a_part_of_sparse_features_need_not_say_what_is_zero(tmp_path: Path) -> None:
    changes = {**BLOCKS, "data.sparse": True, "data.features": 30, "rounds": 1}
    execute(jobs.load("fedlocal", changes), tmp_path / "run")
    own = pd.DataFrame({"node": ["a", "b"], "3": [1, None], "17": [None, 1]})
    none = pd.DataFrame({"source": [], "target": []})
    asked = {"nodes": pd.DataFrame({"node": ["a", "b", "c"], "3": [None, None, 1]})}
    found = predict(tmp_path / "run", asked, own=own, own_edges=none)
    assert found["probability"][0] == pytest.approx(found["probability"][2], abs=1e-6), "c is as a"
    assert found["probability"][0] != found["probability"][1]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"own": pd.DataFrame({"node": ["a"]})}, "--data needs --data-edges, the edges of these nodes"),
        ({"own": pd.DataFrame({"node": ["a"]}), "own_edges": "gone.csv"}, "--data-edges: no file gone.csv"),
        ({"own": "gone.csv", "own_edges": "gone.csv"}, "--data: no file gone.csv"),
        (
            {"own": pd.DataFrame(), "own_edges": "e.csv", "own_trust": "t.csv"},
            "own_trust is not for task 'node', which takes own, own_edges",
        ),
        ({"client": "nobody"}, "predict.nodes, row 1: No client named 'nobody'"),
    ],
)
def test_what_does_not_fit(run: Path, more: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        predict(run, {"nodes": pd.DataFrame({"node": ["0"]})}, **more)


def test_other_tasks_have_no_nodes_of_their_own(finished_run: Path) -> None:
    table = pd.DataFrame({"user": ["a"], "item": ["b"], "rating": [1]})
    with pytest.raises(InputError, match="own_edges is not for task 'rating', which takes own, own_trust"):
        predict(finished_run, {"pairs": table}, own=table, own_edges=table)


# --- from the command line, from Python -------------------------------------------------------------------------------


def test_the_command_line_takes_files(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["fedgraft", "predict", str(run), "-o", "answers.csv", *arguments])
        with suppress(SystemExit):
            cli.main()
        return capsys.readouterr().err

    Path("nodes.csv").write_text("node,0,1,2,3\n7,,,,\nnew,1,2,3,4\n")
    Path("edges.csv").write_text("source,target\nnew,0\n")
    assert "2 answers in answers.csv" in call("--nodes", "nodes.csv", "--edges", "edges.csv")
    assert list(pd.read_csv("answers.csv")) == ["0", "1", "2", "3", *OUT]
    Path("own.csv").write_text("node,0,1,2,3\n7,1,1,1,1\n0,2,2,2,2\n")
    Path("links.csv").write_text("source,target\n7,0\n")
    own = ("--data", "own.csv", "--data-edges", "links.csv")
    assert "2 answers" in call("--nodes", "nodes.csv", "--edges", "edges.csv", *own)
    assert pd.read_csv("answers.csv")["client"].tolist() == ["own", "own"]
    assert "--data-edges belongs to --data" in call("--nodes", "nodes.csv", "--data-edges", "links.csv")
    assert "predict: a table of nodes is needed" in call("--edges", "edges.csv")


def test_python_takes_tables_and_files(run: Path, tmp_path: Path) -> None:
    opened = fedgraft.open(run)
    nodes, edges = pd.DataFrame([[1.0, 2, 3, 4]]).assign(node="new"), pd.DataFrame({"source": ["new"], "target": [0]})
    found = opened.predict(nodes, edges=edges)
    assert list(found) == [0, 1, 2, 3, *OUT]
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_parquet(tmp_path / "edges.parquet", index=False)
    files = opened.predict(tmp_path / "nodes.csv", edges=tmp_path / "edges.parquet")
    assert files[OUT].equals(found[OUT])
    part = part_of(open_run(run).shards[0])
    assert opened.predict(part["nodes"][["node"]], part["nodes"], own_edges=part["edges"])["client"].eq("own").all()
