"""A federation over the sites' own tables: the run of one machine where nothing needs the whole, else one that learns.

No node ever sees the others' tables, and nobody those of all.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedgraft.contracts.runtime import fingerprint
from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage.sites import SiteData
from helpers import site_tables
from helpers.local_sites import federated
from helpers.served_runs import QUICK
from helpers.site_tables import CLIENTS
from helpers.tiny import TINY

METHOD = {key: value for key, value in TINY.items() if not key.startswith("data.")}
QUICKLY = {**QUICK, "rounds": 2, "selector.clients": 2, "training.epochs": 1}
FEATURES = ["f0", "f1", "f2", "f3"]
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "rating": (
        "fedacs",
        {
            **METHOD,
            "rounds": 2,
            "baselines": [],
            "data.name": "table",
            "data.partition": "given",
            "data.low": 1,
            "data.high": 5,
            "data.unknown_trust": "drop",
        },
    ),
    "node": (
        "fedais",
        {**QUICKLY, "data.name": "nodes", "model.hidden": [8, 8], "sampler.batches": 2},
    ),
    "typed": (
        "rafhgl",
        {**QUICKLY, "data.name": "typed_graph", "data.target": "paper", "model.hidden": 8},
    ),
    "graph": ("cefgl", {**QUICK, "rounds": 2, "data.name": "graphs", "model.hidden": 8}),
    "ranking": (
        "reputation_ucb",
        {
            **QUICK,
            "rounds": 2,
            "selector.name": "all",
            "clock.devices": "lognormal",
            "clock.deadline_seconds": 0.0,
            "data.name": "interactions",
            "data.partition": "given",
            "data.width": 6,
        },
    ),
}
KNOWN = {
    "rating": {},
    "node": {
        "data.features": FEATURES,
        "task.features": 4,
        "task.classes": 3,
        "task.class_names": ["cat", "dog", "owl"],
    },
    "typed": {
        "data.features": FEATURES,
        "task.features": 4,
        "task.classes": 3,
        "task.class_names": ["cat", "dog", "owl"],
        "task.metapaths": ["paper-author-paper"],
    },
    "graph": {"task.class_names": ["ring", "star"], "task.judged": "accuracy", "task.positive_class": "star"},
    "ranking": {
        "task.items": 40,
        "task.modalities": ["text", "numbers"],
        "task.features": [6, 1],
        "task.catalogue": "cc31b31859213f63cd8b703ebe96453c",
    },
}
"""What a recipe can say of the data where the server has none; of ratings and rankings it must."""
TOLD = ("node", "typed", "graph")
"""Tasks whose clients tell each other what a recipe does not say."""


def tables_of(task: str, **options: Any) -> dict[str, pd.DataFrame]:
    """The tables of all clients in one, with a column that names the client."""
    if task == "rating":
        known = site_tables.ratings()
        users, items = (known[[key]].drop_duplicates() for key in ("user", "item"))
        return {"ratings": known, "trust": site_tables.trust(), "users": users, "items": items}
    if task == "ranking":
        return {"interactions": site_tables.interactions(**options), "items": site_tables.items()}
    names = ("graphs", "nodes", "edges") if task == "graph" else ("nodes", "edges")
    tables = {"node": site_tables.nodes, "typed": site_tables.typed, "graph": site_tables.graphs}
    made = tables[task](**options)
    return dict(zip(names, made, strict=True))


def of_client(task: str, tables: dict[str, pd.DataFrame], name: str) -> dict[str, pd.DataFrame]:
    """What one site has: its own rows, without the others' names."""
    own = {
        key: table[table["client"] == name].drop(columns="client") for key, table in tables.items() if "client" in table
    }
    if task == "graph":
        known = set(own["graphs"]["graph"])
        own |= {key: tables[key][tables[key]["graph"].isin(known)] for key in ("nodes", "edges")}
    if task in ("node", "typed"):
        edges = tables["edges"]
        own["edges"] = edges[edges["source"].isin(own["nodes"]["node"]) | edges["target"].isin(own["nodes"]["node"])]
    return {key: own.get(key, table) for key, table in tables.items()}


def written(tables: dict[str, pd.DataFrame], folder: Path, suffix: str = ".csv") -> dict[str, Path]:
    folder.mkdir(parents=True)
    paths = {key: folder / f"{key}{suffix}" for key in tables}
    for key, table in tables.items():
        table.to_csv(paths[key], index=False) if suffix == ".csv" else table.to_parquet(paths[key], index=False)
    return paths


def recipe_of(task: str, paths: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    recipe, changes = RECIPES[task]
    common = ("users", "items") if task == "rating" else ()
    return recipe, {**changes, **{f"data.{key}": str(path) for key, path in paths.items() if key not in common}}


def at_sites(task: str, tables: dict[str, pd.DataFrame], root: Path, suffix: str = ".csv", **changes: Any):
    """Run at two sites with their own tables; where the recipe says tables are, there is nothing."""
    recipe, said = recipe_of(task, dict.fromkeys(tables, "nowhere.csv"))
    data = [
        [f"{key}={path}" for key, path in written(of_client(task, tables, name), root / name, suffix).items()]
        for name in CLIENTS
    ]
    data[0][0] = data[0][0].partition("=")[2]  # the first table may go without a name
    known = {} if task in TOLD else KNOWN[task]
    return federated(recipe, {**said, **known, **changes}, data, list(CLIENTS), root)


@pytest.mark.parametrize("task", RECIPES)
@pytest.mark.parametrize("suffix", [".csv", pytest.param(".parquet", marks=pytest.mark.slow)])
def test_sites_with_tables_of_their_own_run_as_one_machine_with_all(tmp_path: Path, task: str, suffix: str) -> None:
    """Where splits are named or drawn client by client, and no edge joins two of them."""
    tables = tables_of(task)
    recipe, changes = recipe_of(task, written(tables, tmp_path / "all"))
    here = execute(jobs.load(recipe, changes), tmp_path / "here")
    found, _ = at_sites(task, tables, tmp_path / "sites", suffix)
    for name in ("digest", "bytes", "test", "validation", "test_per_client"):
        assert found[name] == here[name], name


@pytest.mark.parametrize("task", ["rating", "node", "typed", "ranking"])
def test_sites_split_their_rows_as_one_machine_with_all_does(tmp_path: Path, task: str) -> None:
    tables = tables_of(task, **({"split": False} if task == "ranking" else {}))
    tables = {key: table.drop(columns="split", errors="ignore") for key, table in tables.items()}
    recipe, said = recipe_of(task, written(tables, tmp_path / "all"))
    here = jobs.load(recipe, said).agreed().shards()
    recipe, said = recipe_of(task, dict.fromkeys(tables, "nowhere.csv"))
    there = jobs.load(recipe, {**said, **KNOWN[task]})
    for number, name in enumerate(CLIENTS):
        paths = written(of_client(task, tables, name), tmp_path / name)
        texts = [f"{key}={path}" for key, path in paths.items()]
        own = client_of(there, texts, number, name)
        wanted = next(shard for shard in here if shard.name == name)
        assert own.hashes().tolist() == wanted.hashes().tolist()
        assert own.split.tolist() == wanted.split.tolist()
        assert {0, 1, 2} <= {*own.split.tolist()}


def client_of(experiment: Any, texts: list[str], number: int, name: str) -> Any:
    """Read a site's own tables, whatever the model needs of them."""
    tables = {text.partition("=")[0]: Path(text.partition("=")[2]) for text in texts}
    return SiteData(experiment, (), number, name).of_tables(tables)


@pytest.mark.parametrize("task", ["node", "ranking"])
def test_sites_that_split_by_themselves_learn(tmp_path: Path, task: str, caplog: pytest.LogCaptureFixture) -> None:
    """Of edges to nodes elsewhere a site knows nothing: the figures are others, and as good."""
    tables = tables_of(task, **({"across": True} if task == "node" else {"split": False}))
    if task == "node":
        tables["nodes"] = tables["nodes"].drop(columns="split")
    found, _ = at_sites(task, tables, tmp_path, **{"rounds": 12, "training.learning_rate": 0.02})
    chance = 0.5 if task == "ranking" else 0.45
    assert found["test"] > chance + 0.1
    assert found["test"] > next(point[4] for point in found["curve"])
    if task == "node":
        assert "edges to nodes that are not in" in caplog.text


# --- what is wrong ----------------------------------------------------------------------------------------------------


def site(task: str, tables: dict[str, pd.DataFrame], folder: Path, **changes: Any) -> Any:
    """Read the north's tables as its node does."""
    recipe, said = recipe_of(task, dict.fromkeys(tables_of(task), "nowhere.csv"))
    experiment = jobs.load(recipe, {**said, **KNOWN[task], **changes})
    return SiteData(
        experiment, [f"{key}={path}" for key, path in written(tables, folder / "n").items()], 0, "north"
    ).read()


def north(task: str, **options: Any) -> dict[str, pd.DataFrame]:
    return of_client(task, tables_of(task, **options), "north")


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        ("rating", {"data.high": None}, "The recipe must say data.low and data.high"),
        ("node", {"data.features": None}, "The recipe must say data.features, the columns of features, in order"),
        ("node", {"task.class_names": [], "task.classes": 0}, "The recipe must say task.class_names in order"),
        ("node", {"task.features": 0, "task.classes": 0}, "must say task.features = 4, task.classes = 3; it says 0, 0"),
        (
            "node",
            {"task.class_names": ["cat", "dog"]},
            "'label' must be one of task.class_names, 'cat', 'dog'; got 'owl'",
        ),
        ("typed", {"data.features": None}, "The recipe must say data.features, the columns of features, in order"),
        ("typed", {"task.metapaths": []}, r"must say task.metapaths = \['paper-author-paper'\]; it says \[\]"),
        (
            "typed",
            {"task.class_names": ["cat", "dog"]},
            "'label' must be one of task.class_names, 'cat', 'dog'; got 'owl'",
        ),
        ("graph", {"data.vocabulary": "all"}, "data.vocabulary must be 'client'"),
        (
            "ranking",
            {"task.items": 0, "task.modalities": [], "task.features": [], "task.catalogue": ""},
            r"must say task.items = 40, task.modalities = \['text', 'numbers'\], task.features = \[6, 1\], task.cat",
        ),
    ],
)
def test_what_the_recipe_must_say(tmp_path: Path, task: str, changes: dict[str, Any], message: str) -> None:
    given = {key: value for key, value in changes.items() if value is not None}
    recipe, said = recipe_of(task, dict.fromkeys(tables_of(task), "nowhere.csv"))
    kept = {key: value for key, value in {**said, **KNOWN[task]}.items() if key not in changes}
    experiment = jobs.load(recipe, {**kept, **given})
    data = [f"{key}={path}" for key, path in written(north(task), tmp_path / "n").items()]
    with pytest.raises(InputError, match=message) as error:
        SiteData(experiment, data, 0, "north").read()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("task", "lacking", "message"),
    [
        ("rating", "ratings", "--data ratings=FILE is missing"),
        ("rating", "users", "--data users=FILE is missing: ids of all users, one file for all sites"),
        ("node", "edges", "--data edges=FILE is missing: the edges between these nodes"),
        ("typed", "edges", "--data edges=FILE is missing: the edges between these nodes, with the types of both ends"),
        ("graph", "nodes", "--data nodes=FILE is missing; graphs, nodes and edges are needed"),
        ("ranking", "items", "items: no file .*nowhere.csv"),
    ],
)
def test_a_table_that_is_missing(tmp_path: Path, task: str, lacking: str, message: str) -> None:
    tables = {key: table for key, table in north(task).items() if key != lacking}
    with pytest.raises(InputError, match=message):
        site(task, tables, tmp_path)


def test_items_are_the_same_at_every_site(tmp_path: Path) -> None:
    tables = north("ranking")
    ordered = site("ranking", {**tables, "items": tables["items"].sort_values("item")}, tmp_path / "sorted")[0]
    assert ordered.item_ids.tolist() == site("ranking", tables, tmp_path)[0].item_ids.tolist(), "in whatever order"
    other = pd.concat([tables["items"], tables["items"].head(1).assign(item="i99")])
    with pytest.raises(InputError, match=r"does not fit the recipe: .*must say .*task.catalogue = "):
        site("ranking", {**tables, "items": other}, tmp_path / "other")
    recipe, said = recipe_of("ranking", {"interactions": "nowhere.csv"})
    experiment = jobs.load(recipe, {**said, **KNOWN["ranking"]})
    path = str(written({"interactions": tables["interactions"]}, tmp_path / "m")["interactions"])
    with pytest.raises(InputError, match=r"--data items=FILE is missing: a table of all items, the same file at every"):
        SiteData(experiment, [path], 0, "north").read()
    more = pd.DataFrame({"user": ["u1"], "item": ["i99"], "split": ["train"]})
    with pytest.raises(InputError, match=r"item 'i99' is not in"):
        site("ranking", {**tables, "interactions": pd.concat([tables["interactions"], more])}, tmp_path / "o")


@pytest.mark.parametrize("task", ["node", "typed", "graph"])
def test_tables_that_name_another_client(tmp_path: Path, task: str) -> None:
    first = "graphs" if task == "graph" else "nodes"
    tables = north(task)
    assert site(task, {**tables, first: tables[first].assign(client="north")}, tmp_path)
    with pytest.raises(
        InputError, match=r"column 'client' of .* names client 'south'; a site's own table is of client"
    ):
        site(task, {**tables, first: tables[first].assign(client="south")}, tmp_path / "wrong")


def test_a_site_of_a_typed_graph_may_know_no_class_and_a_wrong_one_is_named_by_its_row(tmp_path: Path) -> None:
    tables = north("typed")
    nodes = tables["nodes"].reset_index(drop=True)
    unknown = nodes.assign(label=None, split=None)
    shard, _ = site("typed", {**tables, "nodes": unknown}, tmp_path / "unknown")
    assert set(shard.label) == {-1}
    assert shard.classes == ("cat", "dog", "owl")
    nodes.loc[4, "label"] = "cow"
    with pytest.raises(InputError, match=r"row 5: 'label' must be one of task.class_names, .*; got 'cow'"):
        site("typed", {**tables, "nodes": nodes}, tmp_path / "wrong")


def test_nodes_of_unknown_class_and_without_a_split(tmp_path: Path) -> None:
    tables = north("node")
    nodes = tables["nodes"].drop(columns="split")
    nodes.loc[nodes.index[:7], "label"] = None
    shard = site("node", {**tables, "nodes": nodes}, tmp_path)[0]
    assert (shard.label[:7] == -1).all()
    assert (shard.split[:7] == -1).all()
    assert np.bincount(shard.split[7:]).tolist() == [35, 9, 9]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["r.csv", "ratings=s.csv"], "table 'ratings' is given twice, 'r.csv' and 's.csv'"),
        (["stars=r.csv"], "NAME must be one of 'ratings', 'trust', 'users', 'items'; got 'stars'"),
        (["r.xlsx"], r"must end in .data \(of 'fedgraft shard'\), .csv or .parquet"),
        (["missing.csv"], "no file missing.csv"),
        (["r.csv", "a.data"], "give it alone"),
    ],
)
def test_data_that_are_given_wrongly(given: list[str], message: str) -> None:
    recipe, said = recipe_of("rating", {"ratings": "nowhere.csv"})
    said["task.share"] = "nothing"
    with pytest.raises(InputError, match=message):
        SiteData(jobs.load(recipe, said), given, 0, "north").read()


def test_a_file_may_have_a_sign_of_equality_in_its_path(tmp_path: Path) -> None:
    tables = {"ratings": north("rating")["ratings"]}
    assert site("rating", tables, tmp_path / "a=b", **{"task.share": "nothing"})[0].name == "north"
    recipe, said = recipe_of("rating", {"ratings": "nowhere.csv"})
    said["task.share"] = "nothing"
    path = tmp_path / "a=b" / "n" / "ratings.csv"
    assert SiteData(jobs.load(recipe, said), [str(path)], 1, "south").read()[0].name == "south"


@pytest.mark.parametrize("share", ["users", "effects"])
def test_a_site_that_tells_of_users_numbers_them_as_all_sites_do(tmp_path: Path, share: str) -> None:
    tables = north("rating")
    assert site("rating", tables, tmp_path / "all", **{"task.share": share})[0].name == "north"
    del tables["users"]
    with pytest.raises(InputError, match="--data users=FILE is missing"):
        site("rating", tables, tmp_path / "none", **{"task.share": share})


@pytest.mark.parametrize("secret", [b"", bytes(32)])
def test_tables_that_all_sites_have_alike_are_told_apart_by_their_fingerprints(tmp_path: Path, secret: bytes) -> None:
    recipe = jobs.load(*recipe_of("rating", {"ratings": "nowhere.csv"}))
    for name, ids in {"one": "user\na\nb\n", "two": "user\na\nb\n", "other": "user\nb\na\n"}.items():
        (tmp_path / f"{name}.csv").write_text(ids)
    one, two, other = (
        SiteData(recipe, ["own.csv", f"users={tmp_path / name}.csv"], 0, "north").common_tables(secret, "run")
        for name in ("one", "two", "other")
    )
    assert list(one) == ["users"]
    assert one == two != other
    assert (one["users"] == fingerprint((tmp_path / "one.csv").read_bytes())) == (not secret), "who guesses knows it"


def test_tables_of_users_and_items_are_numbered_by_lists_that_all_sites_have(tmp_path: Path) -> None:
    """With embeddings of both, sites run as one machine; who is in no list is named."""
    tables = tables_of("rating")
    changes = {key: value for key, value in RECIPES["rating"][1].items() if key.startswith(("data.", "yard", "runt"))}
    paths = written(tables, tmp_path / "all")
    given = {"data.ratings": str(paths["ratings"]), "data.trust": str(paths["trust"])}
    fesog = {**changes, "rounds": 2}
    here = execute(jobs.load("fesog", {**fesog, **given}), tmp_path / "here")
    nowhere = {"data.ratings": "nowhere.csv", "data.trust": "nowhere.csv"}
    rows = {"task.users": len(tables["users"]), "task.items": len(tables["items"])}
    data = [
        [f"{key}={path}" for key, path in written(of_client("rating", tables, name), tmp_path / name).items()]
        for name in CLIENTS
    ]
    found, _ = federated("fesog", {**fesog, **nowhere, **rows}, data, list(CLIENTS), tmp_path / "sites")
    assert found["digest"] == here["digest"]
    own = north("rating")
    with pytest.raises(InputError, match=r"users.csv: no user 'u\d+', which has ratings here"):
        site("rating", {**own, "users": own["users"].iloc[:4]}, tmp_path / "few")
