"""Sites that say nothing of their tables agree, as they join, on what one machine reads from all of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_site_tables import FEATURES, KNOWN, at_sites, of_client, recipe_of, tables_of, written

from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.interface.plan_of import plan_of
from helpers import site_tables
from helpers.local_sites import LocalSites, federated
from helpers.site_tables import CLIENTS

SAME = ("digest", "bytes", "metric", "test", "validation", "test_per_client")
FIRST = {"node": "nodes", "typed": "nodes", "graph": "graphs"}
EACH = ["node", *(pytest.param(task, marks=pytest.mark.slow) for task in ("typed", "graph"))]
Tables = dict[str, pd.DataFrame]
Change = Callable[[pd.DataFrame], pd.DataFrame]


def changed(task: str, change: Change) -> Tables:
    """All clients' tables, their labels changed."""
    tables = tables_of(task)
    return {**tables, FIRST[task]: change(tables[FIRST[task]].copy())}


def positive_class(table: pd.DataFrame) -> pd.DataFrame:
    """Two classes, one of them of every eighth example that has a label."""
    places = np.flatnonzero(table["label"].notna())
    label = table["label"].to_numpy(object).copy()
    label[places] = np.where(np.arange(len(places)) // 2 % 8 == 0, "fraud", "ok")
    return table.assign(label=label)


def lacking(name: str, at: str, other: str) -> Change:
    """One client has no example of a class."""

    def change(table: pd.DataFrame) -> pd.DataFrame:
        at_client = (table["client"] == at) & (table["label"] == name)
        return table.assign(label=table["label"].mask(at_client, other))

    return change


def both(task: str, tables: Tables, folder: Path, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run on one machine and at sites."""
    recipe, said = recipe_of(task, written(tables, folder / "all"))
    here = execute(jobs.load(recipe, {**said, **changes}), folder / "here")
    return here, at_sites(task, tables, folder / "sites", **changes)[0]


def judged(text: str) -> list[str]:
    """The lines that say which metric a model is chosen by."""
    return [line.partition("The rarer")[2] for line in text.splitlines() if "The rarer class" in line]


@pytest.mark.parametrize("task", EACH)
def test_a_rare_class_is_found_by_all_sites_together(
    tmp_path: Path, task: str, caplog: pytest.LogCaptureFixture
) -> None:
    here, found = both(task, changed(task, positive_class), tmp_path, **{"data.min_examples": 1})
    assert here["metric"] == "average_precision"
    for name in SAME:
        assert found[name] == here[name], name
    one, other = judged(caplog.text)
    assert one == other


def test_a_class_of_too_few_rows_to_count_is_known_by_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = changed("node", positive_class)
    here, found = both("node", tables, tmp_path, **{"data.min_examples": 7})
    for name in SAME:
        assert found[name] == here[name], name
    exact, told = judged(caplog.text)
    assert "is at most" in told
    assert "is at most" not in exact
    doubtful, _ = at_sites("node", tables, tmp_path / "doubtful", **{"data.min_examples": 20})
    assert doubtful["metric"] == "accuracy"
    assert "Whether the class 'fraud' is rarer than 20% of the training examples is not known" in caplog.text


@pytest.mark.parametrize(("task", "name", "other"), [("node", "owl", "cat"), ("typed", "owl", "cat")])
def test_a_class_that_one_site_lacks_is_known_to_all(tmp_path: Path, task: str, name: str, other: str) -> None:
    here, found = both(task, changed(task, lacking(name, "south", other)), tmp_path)
    for key in SAME:
        assert found[key] == here[key], key


def test_graphs_of_one_class_answer_with_those_of_all(tmp_path: Path) -> None:
    here, found = both("graph", changed("graph", lacking("star", "south", "ring")), tmp_path)
    for key in SAME:
        assert found[key] == here[key], key


def test_clients_may_differ_in_classes_of_graphs(tmp_path: Path) -> None:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(label=table["label"].mask((table["client"] == "south") & (table.index % 3 == 0), "web"))

    here, found = both("graph", changed("graph", change), tmp_path)
    for key in SAME:
        assert found[key] == here[key], key


def test_classes_that_are_whole_numbers_are_in_their_order(tmp_path: Path) -> None:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        label = table["label"].map({"cat": "9", "dog": "10", "owl": "2"})
        return table.assign(label=label + (table["client"] == "south").map({True: ".0", False: ""}))

    here, found = both("node", changed("node", change), tmp_path)
    for key in SAME:
        assert found[key] == here[key], key


@pytest.mark.parametrize(("one", "two"), [("Cat", "cat"), ("01", "1")])
def test_two_spellings_are_said(tmp_path: Path, one: str, two: str, caplog: pytest.LogCaptureFixture) -> None:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        label = np.where(table["client"] == "north", one, two)
        return table.assign(label=table["label"].mask(table["label"] == "cat", pd.Series(label, table.index)))

    here, found = both("node", changed("node", change), tmp_path)
    assert found["digest"] == here["digest"]
    assert found["bytes"] == here["bytes"]
    (said,) = [line for line in caplog.messages if line.startswith("All clients: classes")]
    assert f"{one!r}" in said
    assert "each is taken for a class" in said


@pytest.mark.parametrize("task", EACH)
def test_what_a_recipe_says_is_not_agreed_on(tmp_path: Path, task: str) -> None:
    said = {**KNOWN[task], "evaluation.metric": "macro_f1"}
    here, found = both(task, tables_of(task), tmp_path, **said)
    for key in SAME:
        assert found[key] == here[key], key
    assert found["metric"] == "macro_f1"
    free, _ = at_sites(task, tables_of(task), tmp_path / "free")
    assert free["bytes"]["statistics"] > found["bytes"]["statistics"], "names and counts are told"


@pytest.mark.parametrize(
    ("task", "classes", "got"),
    [("node", ["cat", "dog"], "owl"), ("typed", ["cat", "dog"], "owl"), ("graph", ["ring", "web"], "star")],
)
def test_a_class_that_the_list_of_the_recipe_lacks_is_named_by_its_row(
    tmp_path: Path, task: str, classes: list[str], got: str
) -> None:
    listed = ", ".join(map(repr, classes))
    with pytest.raises(InputError, match=rf"row \d+: 'label' must be one of task.class_names, {listed}; got '{got}'"):
        at_sites(task, tables_of(task), tmp_path, **{"task.class_names": classes})


def test_examples_of_one_class_alone_are_refused(tmp_path: Path) -> None:
    tables = changed("node", lambda table: table.assign(label="cat"))
    with pytest.raises(InputError, match="All clients' training examples are of one class, 'cat'"):
        at_sites("node", tables, tmp_path)


def test_columns_and_metapaths_must_be_alike(tmp_path: Path) -> None:
    tables = tables_of("node")
    recipe, said = recipe_of("node", dict.fromkeys(tables, "nowhere.csv"))
    data = []
    for name in CLIENTS:
        own = of_client("node", tables, name)
        own["nodes"] = own["nodes"].rename(columns={"f3": f"f3 {name}"})
        data.append([f"{key}={path}" for key, path in written(own, tmp_path / name).items()])
    with pytest.raises(InputError, match="Clients' columns of features must be alike; got"):
        federated(recipe, said, data, list(CLIENTS), tmp_path / "sites")


def test_texts_and_empty_cells_count_for_the_width(tmp_path: Path) -> None:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        land = np.where(table["client"] == "south", "fr", "de")
        return table.assign(f0=table["f0"].mask(table.index % 9 == 0), land=land)

    here, found = both("node", changed("node", change), tmp_path)
    for key in SAME:
        assert found[key] == here[key], key


@pytest.mark.parametrize("more", [{}, pytest.param({"age": 40.0}, marks=pytest.mark.slow)])
def test_bags_of_words_are_sparse_at_all_sites_where_they_are_on_one_machine(
    tmp_path: Path, more: dict[str, float]
) -> None:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        g = np.random.default_rng(0)
        words = {f"w{k}": (g.random(len(table)) < 0.1) * g.integers(1, 3, len(table)) for k in range(60)}
        own = {name: g.normal(value, 9, len(table)) for name, value in more.items()}
        return table.drop(columns=FEATURES).assign(**words, **own)

    here, found = both("node", changed("node", change), tmp_path)
    for key in SAME:
        assert found[key] == here[key], key
    text = RunFolder.open(tmp_path / "sites" / "run").experiment_toml()
    assert jobs.Job.from_toml(text).plan.task.sparse  # type: ignore[attr-defined]


@pytest.mark.parametrize("recipe", ["links", "node_regression"])
def test_tasks_without_classes_know_the_width(tmp_path: Path, recipe: str) -> None:
    nodes, edges = site_tables.nodes()
    if recipe == "node_regression":
        nodes = nodes.assign(label=nodes["f0"] + nodes["f1"])
    said = {"rounds": 2, "data.name": "nodes", "runtime.workers": 0, "baselines": [], "model.hidden": [8]}
    tables = {"nodes": nodes, "edges": edges}
    paths = written(tables, tmp_path / "all")
    all_of = {f"data.{key}": str(path) for key, path in paths.items()}
    here = execute(jobs.load(recipe, {**said, **all_of}), tmp_path / "here")
    data = [
        [f"{key}={path}" for key, path in written(of_client("node", tables, name), tmp_path / name).items()]
        for name in CLIENTS
    ]
    nowhere = {f"data.{key}": "nowhere.csv" for key in tables}
    found, _ = federated(recipe, {**said, **nowhere}, data, list(CLIENTS), tmp_path / "sites")
    for key in SAME:
        assert found[key] == here[key], key


@pytest.mark.parametrize("task", EACH)
def test_a_site_predicts_with_what_the_run_leaves_it(tmp_path: Path, task: str) -> None:
    tables = tables_of(task)
    recipe, said = recipe_of(task, written(tables, tmp_path / "all"))
    execute(jobs.load(recipe, said), tmp_path / "here")
    _, sites = at_sites(task, tables, tmp_path / "sites")
    own = of_client(task, tables, "north")
    nodes = own["nodes"]
    asked = (
        {"nodes": nodes[nodes["node"].str.startswith("n")].head(9)[["node"]]}
        if task != "graph"
        else {name: own[name][own[name]["graph"].isin(own["graphs"]["graph"].head(5))] for name in ("nodes", "edges")}
    )
    found = predict(sites.run_folder("north"), asked)
    wanted = predict(tmp_path / "here", asked, client="north")
    assert found["class"].tolist() == wanted["class"].tolist()


def test_the_recipe_of_the_run_says_what_was_agreed_on(tmp_path: Path) -> None:
    _, sites = at_sites("typed", tables_of("typed"), tmp_path)
    text = RunFolder.open(tmp_path / "run").experiment_toml()
    experiment = jobs.Job.from_toml(text)
    task: Any = experiment.plan.task
    assert (task.features, task.classes, task.class_names) == (4, 3, ("cat", "dog", "owl"))
    assert (task.metapaths, task.judged) == (("paper-author-paper",), "accuracy")
    assert experiment.data.features == tuple(FEATURES)
    own = sites.sites[0].own
    assert plan_of(text.encode(), own).task == task
    other = jobs.load(*recipe_of("typed", dict.fromkeys(tables_of("typed"), "nowhere.csv")))
    strange = other.with_changes({"task.class_names": ["cat", "dog"]})
    with pytest.raises(InputError, match=r"its \[task\] is not that of this node's recipe"):
        plan_of(text.encode(), strange)


def test_a_server_that_resumes_knows_what_was_agreed_on(tmp_path: Path) -> None:
    """Its nodes, which have their own recipe alone, are told again."""
    tables = tables_of("node")
    paced = {"training.schedule": "constant", "evaluation.every": 1}
    whole, _ = at_sites("node", tables, tmp_path / "whole", **paced, rounds=4)
    _, sites = at_sites("node", tables, tmp_path / "cut", **paced, rounds=2)
    given = [list(each.data) for each in sites.sites]
    again = LocalSites(sites.sites[0].own, given, list(CLIENTS), tmp_path / "cut" / "nodes")
    found = resume(tmp_path / "cut" / "run", sites=again, rounds=4)
    assert found["digest"] == whole["digest"]
    assert found["bytes"] == whole["bytes"]
