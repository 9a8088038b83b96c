"""A law of all data sets of own tables: how files are written changes nothing but notes, and options are checked."""

import gzip
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedgraft.contracts.data import Data
from fedgraft.errors import InputError
from fedgraft.experiment.storage.provenance import digest_of
from fedgraft.methods.data.graphs import Graphs
from fedgraft.methods.data.interactions import Interactions
from fedgraft.methods.data.nodes import Nodes
from fedgraft.methods.data.table import Table
from fedgraft.methods.data.typed_graph import TypedGraph

N = 24
IDS = [f"0{k}" for k in range(N)]
NUMBER = np.arange(N)
SETS: dict[str, tuple[type[Any], dict[str, pd.DataFrame], dict[str, Any]]] = {
    "nodes": (
        Nodes,
        {
            "nodes": pd.DataFrame({"node": IDS, "label": NUMBER % 2, "x": NUMBER / 4 + 0.5, "client": NUMBER % 2}),
            "edges": pd.DataFrame({"source": IDS, "target": IDS[1:] + IDS[:1], "weight": 1.5}),
        },
        {},
    ),
    "typed_graph": (
        TypedGraph,
        {
            "nodes": pd.DataFrame({"type": "café", "node": IDS, "label": NUMBER % 2, "x": NUMBER + 0.5, "client": "a"}),
            "edges": pd.DataFrame(
                {
                    "source_type": "café",
                    "source": IDS,
                    "target_type": "café",
                    "target": IDS[1:] + IDS[:1],
                    "weight": 1.5,
                }
            ),
        },
        {"target": "café"},
    ),
    "graphs": (
        Graphs,
        {
            "graphs": pd.DataFrame({"graph": IDS, "label": np.where(NUMBER % 2, "réd", "blue"), "weight": 0.5}),
            "nodes": pd.DataFrame({"graph": IDS * 2, "node": [0] * N + [1] * N, "x": np.arange(2 * N) / 4}),
            "edges": pd.DataFrame({"graph": IDS, "source": 0, "target": 1, "weight": 1.5}),
        },
        {},
    ),
    "table": (
        Table,
        {
            "ratings": pd.DataFrame(
                {"user": NUMBER % 4, "item": IDS, "rating": NUMBER % 5 + 0.5, "time": NUMBER, "weight": 1.5}
            ),
            "trust": pd.DataFrame({"user": [0, 1], "trusts": [1, 2], "weight": 1.5}),
        },
        {"time": "time", "low": 0, "high": 5, "clients": 2},
    ),
    "interactions": (
        Interactions,
        {
            "interactions": pd.DataFrame({"user": NUMBER % 4, "item": IDS, "weight": 1.5}),
            "items": pd.DataFrame({"item": IDS, "title": [f"thé {k % 5}" for k in range(N)], "price": NUMBER + 0.5}),
        },
        {"clients": 2},
    ),
}


def semicolons(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False, sep=";", decimal=",").encode("cp1252")


WAYS: dict[str, Callable[[pd.DataFrame], bytes]] = {
    ".tsv": lambda table: table.to_csv(index=False, sep="\t").encode(),
    ".csv.gz": lambda table: gzip.compress(table.to_csv(index=False).encode()),
    ".jsonl": lambda table: table.to_json(orient="records", lines=True).encode(),
    ".txt": semicolons,
    ".dat": lambda table: table.to_csv(index=False, sep="|").encode("utf-16"),
    ".csv": lambda table: (
        table.rename(columns=lambda name: f" {name} ").to_csv(index=False, lineterminator="\r\n").encode()
    ),
}


def made(name: str, folder: Path, suffix: str, write: Callable[[pd.DataFrame], bytes], **options: Any) -> Data[Any]:
    cls, tables, usual = SETS[name]
    paths: dict[str, Any] = {}
    for option, table in tables.items():
        paths[option] = folder / f"{option}{suffix}"
        paths[option].write_bytes(write(table))
    return cls(**paths, **usual, **options)


def digests(data: Data[Any]) -> list[str]:
    return [digest_of(_nameless(shard)) for shard in data.load(1)]


def _nameless(shard: Any) -> Any:
    return replace(shard, name="own") if hasattr(shard, "name") else shard


@pytest.mark.parametrize("name", SETS)
def test_equal_tables_are_equal_data_however_they_are_written(name: str, tmp_path: Path) -> None:
    wanted = digests(made(name, tmp_path, ".csv", lambda table: table.to_csv(index=False).encode()))
    for suffix, write in WAYS.items():
        (folder := tmp_path / suffix.strip(".")).mkdir()
        assert digests(made(name, folder, suffix, write)) == wanted, suffix


@pytest.mark.parametrize("name", SETS)
def test_what_is_said_is_taken_and_not_said_again(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    said = {"separator": ";", "encoding": "cp1252", "decimal": ","}
    wanted = digests(made(name, tmp_path, ".csv", lambda table: table.to_csv(index=False).encode()))
    caplog.clear()
    assert digests(made(name, tmp_path, ".txt", semicolons, **said)) == wanted
    assert not [note for note in caplog.messages if "data.separator" in note]
    caplog.clear()
    made(name, tmp_path, ".txt", semicolons).load(1)
    found = [note for note in caplog.messages if "fields are separated by semicolons" in note]
    assert len(found) == len(SETS[name][1]), "once for each table"


@pytest.mark.parametrize("name", SETS)
def test_tables_without_headers(name: str, tmp_path: Path) -> None:
    cls, tables, usual = SETS[name]
    columns = {option: list(table) for option, table in tables.items()}
    wanted = digests(made(name, tmp_path, ".csv", lambda table: table.to_csv(index=False).encode()))
    bare = made(name, tmp_path, ".tab", lambda table: table.to_csv(index=False, header=False, sep="\t").encode())
    with pytest.raises(InputError, match=r"no column|data\.columns"):
        bare.load(1)
    paths = {option: tmp_path / f"{option}.tab" for option in tables}
    assert digests(cls(**paths, **usual, header=False, columns=columns)) == wanted
    first, *others = tables
    for option in others:  # one list names the columns of the first table
        paths[option] = tmp_path / f"{option}.csv"
    assert digests(cls(**paths, **usual, columns=tuple(columns[first]))) == wanted


@pytest.mark.parametrize("name", SETS)
def test_each_column_that_is_not_read_is_noted_once(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made(name, tmp_path, ".csv", lambda table: table.to_csv(index=False).encode()).load(1)
    unread = [option for option, table in SETS[name][1].items() if "weight" in table]
    notes = [note for note in caplog.messages if "not read: weight" in note]
    assert len(notes) == len(unread)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": "ab"}, r"separator must be one character, such as ';', '::' or one of tab, .*; got 'ab'"),
        ({"separator": '"'}, r"separator must be one character"),
        (
            {"encoding": "utf8x"},
            r"encoding must be an encoding that Python knows, .*; got 'utf8x'\. Did you mean 'utf-8'",
        ),
        ({"encoding": "rot13"}, r"encoding must be an encoding that Python knows"),
        ({"decimal": ";"}, r"decimal must be one of '', '\.', ','; got ';'"),
        ({"decimal": ",", "separator": ","}, r"decimal must be another sign than .*separator"),
        ({"header": True, "columns": ("a",)}, r"columns must be left out where .*header = true"),
        ({"columns": {"nowhere": ("a",)}}, r"columns: a table must be one of '.*'; got 'nowhere'"),
        ({"columns": ("a", "a")}, r"columns: 2 columns are named 'a'; one is needed"),
        ({"time_format": "%d"}, r"time_format must be a format of strptime with day, month and year"),
    ],
)
def test_what_no_file_can_be_is_said_at_once(name: str, options: Mapping[str, Any], message: str) -> None:
    cls, tables, usual = SETS[name]
    with pytest.raises(InputError, match=message):
        cls(**dict.fromkeys(tables, "t.csv"), **{**usual, **options})


def test_a_folder_says_once_what_its_files_are(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("north", "south"):
        table = SETS["table"][1]["ratings"].assign(place=name)
        (tmp_path / f"{name}.tsv").write_text(table.to_csv(index=False, sep="\t"))
    shards = Table(tmp_path, low=0, high=5).load(1)
    assert [shard.name for shard in shards] == ["north", "south"]
    assert [note for note in caplog.messages if "tabs" in note] == [
        f"{tmp_path}/north.tsv: fields are separated by tabs. data.separator, encoding, decimal, header and columns "
        "say otherwise."
    ]
    assert len([note for note in caplog.messages if "not read: time, weight, place" in note]) == 1


def test_numbers_in_one_cell_are_no_feature(tmp_path: Path) -> None:
    nodes, edges = SETS["nodes"][1].values()
    for cell in ("0.1 0.2 0.3", "[1, 2]", "1;2;3"):
        with pytest.raises(
            InputError, match=r"row 1: 'emb' must be one number, as a feature; got .* a column of its own"
        ):
            Nodes(nodes.assign(emb=cell), edges, clients=2).load(1)
    with pytest.raises(
        InputError, match=r"row 1: 'rating' must be a finite number; got '1,500' .* data\.decimal = ','"
    ):
        Table(SETS["table"][1]["ratings"].assign(rating="1,500")).load(1)
