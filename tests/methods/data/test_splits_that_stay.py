"""A user's own tables of every kind: the order of rows has no part in anything, and a row keeps its split."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedgraft.contracts.abilities.tasks import derived_shards
from fedgraft.errors import InputError
from fedgraft.experiment.recipes.discovery import find
from fedgraft.experiment.storage.provenance import digest_of
from fedgraft.methods.data.graphs import Graphs
from fedgraft.methods.data.interactions import Interactions
from fedgraft.methods.data.nodes import Nodes
from fedgraft.methods.data.table import Table
from fedgraft.methods.data.typed_graph import TypedGraph
from fedgraft.methods.models.sage import SAGE

Tables = dict[str, Any]
NEW = 12


def edges(count: int, ends: int, g: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(g.integers(0, ends, (count, 2)), columns=["source", "target"])


def nodes() -> Tables:
    g, n = np.random.default_rng(0), 120
    rows = pd.DataFrame({"node": [f"n,{v}" for v in range(n)], "label": g.integers(0, 3, n), "x": g.normal(size=n)})
    return {"nodes": rows.assign(client=g.integers(0, 3, n)), "edges": edges(300, n - NEW, g).map("n,{}".format)}


def typed() -> Tables:
    g, n = np.random.default_rng(1), 120
    paper = pd.DataFrame({"node": range(n), "label": g.integers(0, 2, n), "x": g.normal(size=n), "type": "paper"})
    paper["client"] = np.where(np.arange(n) % 3, "a", "b")
    author = pd.DataFrame({"node": range(9), "type": "author"})
    ends = {"source": np.arange(n), "source_type": "paper", "target": np.arange(n) % 9, "target_type": "author"}
    back = {"source": [1, 2], "source_type": "author", "target": [50, 60], "target_type": "paper"}
    return {"nodes": pd.concat([paper, author]), "edges": pd.concat([pd.DataFrame(ends), pd.DataFrame(back)])}


def graphs() -> Tables:
    g, n = np.random.default_rng(2), 120
    rows = pd.DataFrame({"graph": range(n), "label": g.integers(0, 2, n), "client": np.arange(n) % 2})
    atoms = pd.DataFrame({"graph": np.repeat(np.arange(n), 3), "node": np.tile([0, 1, 2], n)})
    bonds = pd.DataFrame({"graph": np.arange(n), "source": 0, "target": g.integers(1, 3, n)})
    return {"graphs": rows, "nodes": atoms.assign(kind=g.choice(list("CNO"), 3 * n)), "edges": bonds}


def ratings() -> Tables:
    g, n = np.random.default_rng(3), 240
    pairs = g.permutation(40 * 30)[:n]
    rows = pd.DataFrame({"user": pairs // 30, "item": pairs % 30, "rating": g.integers(1, 6, n), "client": pairs % 3})
    links = pd.DataFrame({"user": g.integers(0, 20, 50), "trusts": g.integers(0, 20, 50)})
    return {"ratings": rows, "trust": links, "low": 1, "high": 5, "unknown_trust": "drop"}


def clicks() -> Tables:
    rows = ratings()["ratings"].drop(columns="client")
    items = pd.DataFrame({"item": range(29, -1, -1), "title": [f"thing {k % 7} red" for k in range(30)]})
    return {"interactions": rows[["user", "item"]].assign(client=rows["user"] % 2), "items": items}


KINDS: dict[str, tuple[type[Any], Callable[[], Tables], str]] = {
    "nodes": (Nodes, nodes, "nodes"),
    "typed": (TypedGraph, lambda: {**typed(), "target": "paper"}, "nodes"),
    "graphs": (Graphs, graphs, "graphs"),
    "ratings": (Table, ratings, "ratings"),
    "interactions": (Interactions, lambda: {**clicks(), "partition": "given"}, "interactions"),
}


def shuffled(tables: Tables, seed: int) -> Tables:
    return {
        key: each.sample(frac=1, random_state=seed) if hasattr(each, "sample") else each for key, each in tables.items()
    }


def splits(shards: list[Any]) -> dict[tuple[str, int], int]:
    return {
        (shard.name, row): split
        for shard in shards
        for row, split in zip(shard.hashes().tolist(), shard.split.tolist(), strict=True)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_another_order_of_rows_is_the_same(kind: str) -> None:
    cls, tables, _ = KINDS[kind]
    first = [digest_of(shard) for shard in cls(**tables()).load(4)]
    for seed in (1, 2):
        assert [digest_of(shard) for shard in cls(**shuffled(tables(), seed)).load(4)] == first
    assert [digest_of(shard) for shard in cls(**tables()).load(5)] != first


@pytest.mark.parametrize("kind", KINDS)
def test_rows_keep_their_split_as_the_table_grows(kind: str) -> None:
    cls, tables, name = KINDS[kind]
    today = tables()
    grown = today[name]
    rows = np.arange(len(grown))
    if kind == "typed":
        rows = rows[NEW:]
        gone = range(NEW)
        today["edges"] = today["edges"][
            ~(today["edges"]["source"].isin(gone) & (today["edges"]["source_type"] == "paper"))
        ]
    elif kind == "graphs":
        rows = rows[NEW:]
    else:
        rows = rows[:-NEW]
    kept = grown.iloc[rows]
    yesterday = {**today, name: kept}
    if kind == "graphs":
        yesterday |= {key: today[key][today[key]["graph"].isin(kept["graph"])] for key in ("nodes", "edges")}
    before, after = splits(cls(**yesterday).load(4)), splits(cls(**today).load(4))
    assert len(after) == len(before) + NEW
    assert {key: after[key] for key in before} == before
    assert {*after.values()} == {0, 1, 2}


@pytest.mark.parametrize("kind", KINDS)
def test_the_split_has_a_seed_of_its_own(kind: str) -> None:
    cls, tables, _ = KINDS[kind]
    assert splits(cls(**tables(), split_seed=4).load(9)) == splits(cls(**tables()).load(4))
    with pytest.raises(InputError, match=rf"{cls.__name__}.split_seed must be >= 0, or left out; got -1"):
        cls(**tables(), split_seed=-1)


def test_nodes_that_name_no_client_are_dealt_and_split_alike_in_any_order() -> None:
    tables = nodes()
    tables["nodes"] = tables["nodes"].drop(columns="client")
    first = [digest_of(shard) for shard in Nodes(**tables, clients=4).load(1)]
    assert [digest_of(shard) for shard in Nodes(**shuffled(tables, 3), clients=4).load(1)] == first


def test_ratings_that_name_no_client_are_dealt_and_split_alike_in_any_order() -> None:
    tables = ratings()
    tables["ratings"] = tables["ratings"].drop(columns="client").assign(category=tables["ratings"]["item"] % 4)
    first = [digest_of(shard) for shard in Table(**tables, clients=2).load(1)]
    assert [digest_of(shard) for shard in Table(**shuffled(tables, 3), clients=2).load(1)] == first


def held(shards: list[Any]) -> set[tuple[str, str]]:
    ends = [(shard.graph.ids[shard.pairs[:, shard.edge]]) for shard in shards]
    return {tuple(sorted(pair)) for part in ends for pair in part.T.tolist()}


def test_edges_keep_their_split_as_a_graph_grows() -> None:
    tables, task = nodes(), find("tasks", "link")(SAGE(hidden=(4,)))
    for options in ({}, {"label": ""}):
        linked = [
            derived_shards(task, Nodes(**each, **options).load(2), 2, 2) for each in (tables, shuffled(tables, 1))
        ]
        assert [digest_of(shard) for shard in linked[0]] == [digest_of(shard) for shard in linked[1]]
    fewer = {**tables, "edges": tables["edges"].iloc[20:]}
    before, after = (derived_shards(task, Nodes(**each).load(2), 2, 2) for each in (fewer, tables))
    trained = {tuple(sorted(pair)) for shard in before for pair in shard.graph.ids[shard.edges].T.tolist()}
    assert held(after)
    assert not trained & held(after)
    assert held(before) <= held(after)


# --- few rows, odd ids ------------------------------------------------------------------------------------------------


def test_a_client_of_one_row_trains_on_it() -> None:
    rows = ratings()["ratings"]
    one = pd.concat([rows, pd.DataFrame({"user": ["x"], "item": ["y"], "rating": [3], "client": ["lone"]})])
    shards = {shard.name: shard for shard in Table(one, low=1, high=5).load(0)}
    assert shards["lone"].split.tolist() == [0]
    tables = nodes()
    lone = pd.DataFrame({"node": ["z"], "label": [1], "x": [0.0], "client": ["lone"]})
    tables["nodes"] = pd.concat([tables["nodes"], lone])
    assert {shard.name: shard for shard in Nodes(**tables).load(0)}["lone"].split.tolist() == [0]


def test_clients_with_too_few_rows_for_a_split_are_split_together() -> None:
    row = np.arange(12)
    rows = pd.DataFrame({"user": row, "item": row % 5, "rating": row % 5 + 1, "client": row // 3})
    for seed in range(20):
        shards = Table(rows, low=1, high=5).load(seed)
        assert {*np.concatenate([shard.split for shard in shards]).tolist()} == {0, 1, 2}
    with pytest.raises(InputError, match="2 ratings are too few: one is needed for training, validation and test each"):
        Table(rows.head(2), low=1, high=5).load(0)


def test_a_pair_at_two_clients_is_in_one_split() -> None:
    rows = ratings()["ratings"]
    both = pd.concat([rows, rows.assign(client=(rows["client"] + 1) % 3)])
    found: dict[int, set[int]] = {}
    for (_, row), split in splits(Table(both, low=1, high=5).load(0)).items():
        found.setdefault(row, set()).add(split)
    assert all(len(each) == 1 for each in found.values())


def test_ids_with_commas_and_quotes_are_split_as_they_are_written(tmp_path: Any) -> None:
    rows = ratings()["ratings"].assign(user=lambda each: each["user"].map('u, "{}"'.format))
    rows.to_csv(tmp_path / "r.csv", index=False)
    read, given = (Table(each, low=1, high=5).load(0) for each in (tmp_path / "r.csv", rows))
    assert [digest_of(shard) for shard in read] == [digest_of(shard) for shard in given]
    assert read[0].user_ids[0].startswith('u, "')


def test_a_file_of_a_folder_without_a_row_for_a_split(tmp_path: Any) -> None:
    rows = ratings()["ratings"]
    for client, own in rows.groupby("client"):
        said = "train" if client == 1 else np.array(["train", "validation", "test"])[np.arange(len(own)) % 3]
        own.drop(columns="client").assign(split=said).to_csv(tmp_path / f"c{client}.csv", index=False)
    shards = Table(tmp_path, low=1, high=5).load(0)
    assert [sorted({*shard.split.tolist()}) for shard in shards] == [[0, 1, 2], [0], [0, 1, 2]]


# --- the latest of repeated rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", [lambda k: k, lambda k: f"2024-01-{k:02d}"])
def test_of_repeated_ratings_the_latest_stands(when: Callable[[int], Any], caplog: pytest.LogCaptureFixture) -> None:
    rows = ratings()["ratings"].assign(at=when(9))
    old = rows.head(50).assign(at=when(2), rating=1)
    tied = rows.iloc[[60]].assign(rating=5)
    found = []
    for each in (pd.concat([rows, tied, old]), pd.concat([old, rows, tied])):
        caplog.clear()
        shards = Table(each, low=1, high=5, time="at").load(0)
        found.append([digest_of(shard) for shard in shards])
        assert "51 repeated ratings of one item by one user left out; the latest by 'at' stands." in caplog.messages
    assert found[0] == found[1]
    every = pd.concat([pd.DataFrame({"h": shard.hashes(), "rating": shard.rating}) for shard in shards])
    wanted = rows.assign(rating=rows["rating"].where(rows.index != rows.index[60], 5))
    assert sorted(every["rating"]) == sorted(wanted["rating"])


def test_of_repeated_clicks_the_latest_stands(caplog: pytest.LogCaptureFixture) -> None:
    rows = clicks()["interactions"].drop(columns="client")
    rows["at"] = np.arange(len(rows)) + 1000
    old = rows.head(30).assign(at=np.arange(30))
    both = pd.concat([rows, old]), pd.concat([old, rows])
    found = [[digest_of(shard) for shard in Interactions(each, clients=2, time="at").load(0)] for each in both]
    assert found[0] == found[1] == [digest_of(s) for s in Interactions(rows, clients=2, time="at").load(0)]
    assert "30 repeated pairs of user and item left out; the latest by 'at' stands." in caplog.messages
