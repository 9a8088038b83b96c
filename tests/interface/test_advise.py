"""The command that says whether to federate: both answers, on data that say which is right, and what it refuses."""

import json
import shutil
import sqlite3
import time
import tomllib
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.reports.advising.questions import CHOICES, section_of

QUICK = ["runtime.workers=0", "--seeds", 2, "--out", "advice"]
BLOCKS = ["blocks", "60kB", "data.nodes=400", "data.clients=5", "data.features=32", "rounds=12", *QUICK]
"""The budget pays for the small model alone."""


def write_ratings(path: Path, clients: int = 4) -> None:
    """Shops without a user, an item or a taste in common: what is learnt at one is wrong at the others."""
    g = np.random.default_rng(0)
    parts = []
    for client in range(clients):
        user, item = (each.ravel() for each in np.meshgrid(np.arange(25), np.arange(20)))
        stars = 1.5 + client + g.normal(0, 0.4, 25)[user] + g.normal(0, 0.4, 20)[item] + g.normal(0, 0.2, len(user))
        names = {"user": [f"{client}u{n}" for n in user], "item": [f"{client}i{n}" for n in item]}
        parts.append(pd.DataFrame({**names, "rating": np.clip(stars, 0, 6), "client": f"shop {client}"}))
    pd.concat(parts).sample(frac=0.6, random_state=0).to_csv(path, index=False)


def write_nodes(folder: Path, clients: int = 4, nodes: int = 80, classes: int = 4) -> None:
    """Clusters whose names are another permutation at every client, and no edge between clients."""
    g = np.random.default_rng(0)
    centre, rows, edges = 3 * g.normal(size=(classes, 6)), [], []
    for client in range(clients):
        cluster, name = g.integers(0, classes, nodes), np.roll(np.arange(classes), client)
        points = pd.DataFrame(centre[cluster] + g.normal(size=(nodes, 6)), columns=[f"x{k}" for k in range(6)])
        rows.append(points.assign(node=[f"{client}-{n}" for n in range(nodes)], label=name[cluster], client=client))
        edges += [(f"{client}-{a}", f"{client}-{b}") for a, b in g.integers(0, nodes, (nodes, 2)) if a != b]
    pd.concat(rows).to_csv(folder / "nodes.csv", index=False)
    pd.DataFrame(edges, columns=["source", "target"]).drop_duplicates().to_csv(folder / "edges.csv", index=False)


def write_clubs(folder: Path, clients: int = 3, members: int = 40) -> None:
    """Members of an age know each other, in every club; their height is twice their age."""
    g, rows, edges = np.random.default_rng(0), [], []
    for club in range(clients):
        age = g.uniform(0, 1, members)
        ends = g.integers(0, members, (2, 1500))
        near = ends[:, (np.abs(age[ends[0]] - age[ends[1]]) < 0.1) & (ends[0] < ends[1])]
        edges += [(f"{club}-{a}", f"{club}-{b}") for a, b in near.T]
        named = [f"{club}-{n}" for n in range(members)]
        rows.append(pd.DataFrame({"node": named, "client": club, "age": age, "older": age**2, "height": age * 2}))
    pd.concat(rows).to_csv(folder / "nodes.csv", index=False)
    pd.DataFrame(edges, columns=["source", "target"]).drop_duplicates().to_csv(folder / "edges.csv", index=False)


@pytest.mark.slow
def test_one_graph_cut_over_clients_is_worth_a_federation(fedgraft) -> None:
    done = fedgraft("advise", *BLOCKS, "--json")
    assert done.code == 0, done.err
    found = done.json()
    assert (found["advice"], found["not_run"]) == ("federate", {})
    assert {found["recipe"], *found["equals"]} <= {"graft_node", "graft_once"}
    assert found["sentence"].startswith(f"Federate with {found['recipe']}: accuracy on validation is 0.")
    rows = {(row["kind"], row["name"]): row for row in found["rows"]}
    best = rows["together", found["recipe"]]
    assert best["better_than_alone"]["mean"] > best["better_than_alone"]["half"] > 0
    assert best["bytes"] <= 60_000
    assert len(best["per_megabyte"]) == 2
    assert rows["together", "fedais"]["note"].startswith("the budget does not pay for a round")
    assert rows["alone", f"{found['recipe']}'s model"]["seeds"] == [1, 2]
    assert {f"{name}, gcn" for name in ("fedavg", "fedprox", "fedper")} < {row["name"] for row in found["rows"]}
    assert ("one place", "smoothed_features") in rows
    assert {path.name for path in Path("advice").iterdir()} == {
        "advice.md",
        "cells",
        "recipe.toml",
        "report.html",
        "runs",
    }
    assert found["sentence"] in Path("advice/advice.md").read_text()

    again = fedgraft("advise", *BLOCKS)  # the second time nothing is run
    assert "0 of 0 missing cells were run" in again.err
    assert again.out.splitlines()[-1] == found["sentence"]

    recipe = tomllib.loads(Path("advice/recipe.toml").read_text())
    assert (recipe["budget"]["bytes"], recipe["data"]["nodes"], recipe["seed"]) == (60_000, 400, 1)
    ran = fedgraft("run", "advice/recipe.toml", "-q", "--json").json()
    assert ran["validation"] == pytest.approx(
        json.loads(next(Path("advice/cells").glob(f"together-{found['recipe']}-seed1-*")).read_text())["curve"][-1][1]
    )

    next(Path("advice/cells").glob("one-place-mlp-seed2-*")).unlink()
    assert "1 of 1 missing cells were run" in fedgraft("advise", *BLOCKS).err


@pytest.mark.slow
def test_ratings_without_anything_in_common_are_not(fedgraft, tmp_path: Path) -> None:
    write_ratings(tmp_path / "ratings.csv")
    done = fedgraft("advise", "ratings.csv", "rounds=6", *QUICK, "--json")
    assert done.code == 0, done.err
    found = done.json()
    assert (found["advice"], found["recipe"]) == ("do not federate", None)
    assert found["sentence"].startswith("Do not federate: of the best recipe, ")
    assert "that is no gain" in found["sentence"]
    assert not Path("advice/recipe.toml").exists()


@pytest.mark.slow
def test_nodes_whose_classes_mean_something_else_at_each_client_are_not(fedgraft, tmp_path: Path) -> None:
    write_nodes(tmp_path)
    found = fedgraft("advise", "nodes.csv", "20kB", "rounds=12", *QUICK, "--json").json()
    assert found["advice"] == "do not federate"
    assert "that is no gain" in found["sentence"]


LISTS = {
    "link": (
        ["nodes.csv", "data.label="],
        {"links", "links, sage", "links, mlp"},
        {"feature_cosine", "adamic_adar", "preferential_attachment"},
        set(),
    ),
    "node_regression": (
        ["nodes.csv", "data.label=height"],
        {"node_regression", "graft_once", "node_regression, own parts"},
        {"node_mean"},
        {"node_ridge"},
    ),
    "graph_regression": (
        ["molecules", "data.graphs=20", "data.clients=2", "model.hidden=8"],
        {"graph_regression", "graph_regression, cefgl"},
        {"graph_ridge", "graph_mean"},
        set(),
    ),
}


@pytest.mark.parametrize(
    "task", [pytest.param(each, marks=pytest.mark.slow) if each != "graph_regression" else each for each in LISTS]
)
def test_a_task_that_is_named_has_a_list_of_its_own(fedgraft, tmp_path: Path, task: str) -> None:
    """Simple baselines are better on so little data, and it says so."""
    arguments, recipes, alone, central = LISTS[task]
    write_clubs(tmp_path)
    done = fedgraft("advise", *arguments, f"task.name={task}", "rounds=2", *QUICK, "--json")
    assert done.code == 0, done.err
    found = done.json()
    rows = {kind: {row["name"] for row in found["rows"] if row["kind"] == kind} for kind in ("together", "one place")}
    assert rows == {"together": recipes, "one place": central}
    assert alone < {row["name"] for row in found["rows"] if row["kind"] == "alone"}
    assert all(row["seeds"] == [1, 2] for row in found["rows"]), [row["note"] for row in found["rows"]]
    assert (found["advice"], found["not_run"]) == ("do not federate", {})
    assert found["metric"] == ("auc" if task == "link" else "rmse")


def test_what_fits_no_recipe_is_not_a_matter_of_time(fedgraft, tmp_path: Path) -> None:
    write_clubs(tmp_path)
    said = fedgraft("advise", "nodes.csv", "data.label=", *QUICK, "--json").json()["sentence"]
    assert "Task 'node' needs classes of nodes" in said
    assert "the task 'link' reads none" in said
    assert "minutes" not in said


def test_a_budget_that_pays_for_nothing_is_told_not_an_error(fedgraft) -> None:
    done = fedgraft("advise", BLOCKS[0], "100B", *BLOCKS[2:], "--json")
    assert done.code == 0
    found = done.json()
    assert found["sentence"] == "Do not federate: 100 B pay for no round of any recipe."
    assert all(row["note"].startswith("the budget") for row in found["rows"] if row["kind"] == "together")


@pytest.mark.parametrize("limit", ["--minutes", "--work"])
def test_without_time_or_work_there_is_no_verdict_yet(fedgraft, limit: str) -> None:
    found = fedgraft("advise", *BLOCKS, limit, 1e-9, "--json").json()
    assert found["advice"] == "do not federate"
    assert "yet" in found["sentence"]
    assert f"give more {limit}" in found["sentence"]
    assert set(found["not_run"].values()) == {limit}


@pytest.mark.slow
def test_the_same_answer_on_a_machine_that_is_a_thousand_times_slower(fedgraft, monkeypatch) -> None:
    """Work is counted: a clock that runs away leaves nothing out, nor does what was done before."""
    asked = ["blocks", "data.nodes=400", "data.clients=5", "data.features=32", "rounds=4", *QUICK, "--work", 2e-4]
    first = fedgraft("advise", *asked, "--json").json()
    page = Path("advice/advice.md").read_text()
    again = fedgraft("advise", *asked, "--json").json()
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: 1000 * clock())
    monkeypatch.setattr(time, "perf_counter", lambda: 1000 * clock())
    shutil.rmtree("advice")
    slower = fedgraft("advise", *asked, "--json").json()
    assert first == again == slower
    assert Path("advice/advice.md").read_text() == page
    assert set(first["not_run"].values()) == {"--work"}
    assert "Not tried within --work: " in first["sentence"]
    assert "of clients alone" in first["sentence"]
    assert any("TFLOP a run" in row["note"] for row in first["rows"])


def test_another_budget_leaves_finished_cells_as_they_are(fedgraft) -> None:
    fedgraft("advise", BLOCKS[0], "100B", *BLOCKS[2:])
    before = {path: path.read_text() for path in Path("advice/cells").iterdir()}
    fedgraft("advise", BLOCKS[0], "101B", *BLOCKS[2:])
    assert {path: path.read_text() for path in before} == before
    assert len(list(Path("advice/cells").iterdir())) > len(before)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rating.csv"], "No file rating.csv. Did you mean 'ratings.csv'?"),
        (["shpos"], "'shpos' is no file and no data set ('fedgraft list data'). Did you mean 'shops'?"),
        (["ratings.csv"], "ratings.csv has the columns a, b. Needed are: user, item, rating (table); graph, label "),
        (["nodes.csv"], "which needs a table of edges too: give data.edges=FILE, or put edges.csv next to it."),
        (["text.xlsx"], "text.xlsx must end in .csv or .parquet (or .tsv, "),
        (["shops", "8mb"], "BUDGET = '8mb' has no unit of bytes. Did you mean 'MB'?"),
        (["shops", "8MB", "9MB"], "One BUDGET such as 8MB can be given"),
        (["shops", "--seeds", 1], "--seeds must be at least 2; got 1."),
        (["shops", "--minutes", 0], "--minutes must be above 0; got 0.0."),
        (["blocks", "data.clients=1"], "These data are of one client, so there is nothing to federate"),
        (["shops", "selector.nmae=all"], "No selector option named 'nmae'"),
        (["shops", "--out", "ratings.csv"], "--out ratings.csv is a file; give a folder."),
    ],
)
def test_bad_input_is_one_line(fedgraft, tmp_path: Path, arguments: list[object], said: str) -> None:
    (tmp_path / "ratings.csv").write_text("a,b\n1,2\n")
    (tmp_path / "nodes.csv").write_text("node,label\n1,2\n")
    (tmp_path / "text.xlsx").write_text("")
    done = fedgraft("advise", *arguments)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1
    assert not done.out
    assert not Path("advice").exists()


def test_columns_decide_and_names_of_columns_can_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("user,item,rating,category\n")
    assert section_of("a.csv", {"clients": 3}) == {
        "clients": 3,
        "name": "table",
        "ratings": str((tmp_path / "a.csv").resolve()),
    }
    Path("b.csv").write_text("buyer,item,rating,client\n")
    assert section_of("b.csv", {"user": "buyer"})["partition"] == "given"
    Path("c.csv").write_text("user,item\n")
    assert section_of("c.csv", {})["name"] == "interactions"
    Path("graphs.csv").write_text("graph,label\n")
    for name in ("nodes", "edges"):
        Path(f"{name}.csv").write_text("graph,node\n")
    assert section_of("graphs.csv", {})["nodes"] == str((tmp_path / "nodes.csv").resolve())


def test_labels_are_shared_only_by_whoever_agrees() -> None:
    marked = [candidate for candidate in CHOICES["node"].recipes if candidate.marked]
    assert [candidate.changes for candidate in marked] == [{"answers.share_labels": True}]


def test_a_file_tells_its_data_set_however_it_is_written(tmp_path: Path) -> None:
    write_ratings(tmp_path / "r.csv")
    table = pd.read_csv(tmp_path / "r.csv")
    wanted = {"name": "table", "partition": "given"}
    table.to_csv(tmp_path / "r.tsv.gz", index=False, sep="\t")
    table.to_csv(tmp_path / "s.txt", index=False, sep=";", encoding="utf-16")
    table.to_csv(tmp_path / "bare.dat", index=False, header=False, sep="|")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        table.to_sql("sales", connection, index=False)
    for name in ("r.tsv.gz", "s.txt"):
        assert section_of(str(tmp_path / name), {}) == {**wanted, "ratings": str(tmp_path / name)}
    address = f"sqlite:///{tmp_path}/shop.db#sales"
    assert section_of(address, {}) == {**wanted, "ratings": address}
    columns = {"columns": list(table)}
    assert section_of(str(tmp_path / "bare.dat"), columns)["name"] == "table"
    with pytest.raises(InputError, match=r"bare\.dat has the columns 0, 1, 2, 3\. Needed are: user, item, rating"):
        section_of(str(tmp_path / "bare.dat"), {})
