"""Every data set keeps the laws of `fedgraft.testing`; new files of the family are found by themselves.

A data set that needs files is loaded here from a tiny made-up copy if `COPIES` can write one; one without required
options is loaded as it is. The laws about its form hold for all.
"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io

from fedgraft.contracts.option_groups import settable
from fedgraft.experiment.recipes import discovery
from fedgraft.testing.data import check_data_form
from fedgraft.testing.laws import Law
from helpers.toy_graphs import TRIANGLE, write_tu
from helpers.toy_movies import write_movies
from helpers.toy_nodes import write_npz
from helpers.toy_ratings import write_ratings
from helpers.toy_transfers import write_transfers
from helpers.toy_typed import own_tables, write_heco
from laws.data import laws as laws_of_data

NAMES = [name for name in discovery.names("data") if name not in discovery.presets("data")]


def _mat(folder: Path) -> str:
    g = np.random.default_rng(0)
    columns = [g.integers(1, high, 800) for high in (41, 201, 13, 6)]
    scipy.io.savemat(folder / "rating.mat", {"rating": np.stack(columns, axis=1)})
    scipy.io.savemat(folder / "trustnetwork.mat", {"trustnetwork": g.integers(1, 41, (300, 2))})
    return str(folder)


def _csv(folder: Path) -> str:
    rows = np.arange(600)
    columns = {"user": rows % 37, "item": rows // 3, "rating": 1 + rows % 5, "category": rows % 12}
    pd.DataFrame(columns).to_csv(folder / "ratings.csv", index=False)
    return str(folder / "ratings.csv")


def _sets(folder: Path) -> str:
    write_tu(folder, "NCI1", graphs=200)
    return str(folder)


def _graphs(folder: Path) -> dict[str, object]:
    graph = np.arange(60)
    tables = {
        "graphs": pd.DataFrame({"graph": graph, "label": graph % 3, "client": graph % 2}),
        "nodes": pd.DataFrame({"graph": np.repeat(graph, 3), "node": np.tile([0, 1, 2], 60), "size": 1.5}),
        "edges": pd.DataFrame([(k, *edge) for k in graph for edge in TRIANGLE], columns=["graph", "source", "target"]),
    }
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return {name: str(folder / f"{name}.csv") for name in tables}


def _npz(folder: Path) -> dict[str, object]:
    write_npz(folder / "CS" / "raw" / "ms_academic_cs.npz")
    return {"root": str(folder), "set": "coauthor_cs", "clients": 4}


def _nodes(folder: Path) -> dict[str, object]:
    rows = np.arange(60)
    tables = {
        "nodes": pd.DataFrame({"node": rows, "label": rows % 3, "client": rows % 4, "size": 1.5, "age": rows / 7}),
        "edges": pd.DataFrame({"source": rows, "target": rows // 2}),
    }
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return {name: str(folder / f"{name}.csv") for name in tables}


def _heco(folder: Path) -> dict[str, object]:
    write_heco(folder / "HeCo" / "acm")
    return {"root": str(folder), "clients": 3}


def _typed(folder: Path) -> dict[str, object]:
    given: dict[str, object] = {"target": "paper"}
    for option, tables in own_tables().items():
        for name, table in tables.items():
            table.to_csv(folder / f"{name}.csv", index=False)
        given[option] = {name: str(folder / f"{name}.csv") for name in tables}
    return given


def _movies(folder: Path, separator: str, ratings: str, movies: str, movie: str, header: str = "") -> dict[str, object]:
    """A copy of MovieLens: 20 users, 30 movies, each user with 8 of them; `movie` is the form of a movie's line."""
    rows = [(k // 8 + 1, (7 * (k // 8) + 3 * (k % 8)) % 30 + 1, 4, k) for k in range(160)]
    lines = [separator.join(map(str, row)) + "\n" for row in rows]
    (folder / ratings).write_text(header + "".join(lines))
    titles = [f"Title {k % 4} (19{k:02})" for k in range(1, 31)]
    (folder / movies).write_text(header + "".join(movie.format(*each) for each in enumerate(titles, start=1)))
    return {"root": str(folder)}


def _table_of_movies(folder: Path) -> dict[str, object]:
    write_movies(folder)
    return {"root": str(folder), "clients": 4, "least": 2}


def _transfers(folder: Path) -> dict[str, object]:
    write_transfers(folder / "20K_cycle200")
    return {"root": str(folder), "clients": 3}


def _interactions(folder: Path) -> dict[str, object]:
    user, place = np.divmod(np.arange(160), 8)
    rows = np.arange(30)
    tables = {
        "interactions": pd.DataFrame({"user": user, "item": (7 * user + 3 * place) % 30}),
        "items": pd.DataFrame({"item": rows, "title": [f"kind {row % 3}" for row in rows], "price": rows / 7}),
    }
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return {name: str(folder / f"{name}.csv") for name in tables}


COPIES: dict[str, Callable[[Path], dict[str, object]]] = {
    "ciao": lambda folder: {"root": _mat(folder)},
    "epinions": lambda folder: {"root": _mat(folder)},
    "table": lambda folder: {"ratings": _csv(folder)},
    "tu": lambda folder: {"root": _sets(folder), "sets": "nci1"},
    "graphs": _graphs,
    "pyg_nodes": _npz,
    "nodes": _nodes,
    "amlsim": _transfers,
    "bitcoin": lambda folder: {"root": str(write_ratings(folder)), "clients": 3, "partition": "iid"},
    "movies": _table_of_movies,
    "typed_sets": _heco,
    "typed_graph": _typed,
    "interactions": _interactions,
    "ml100k": lambda folder: _movies(folder, "\t", "u.data", "u.item", "{}|{}|||" + "|0" * 18 + "|1\n"),
    "ml1m": lambda folder: _movies(folder, "::", "ratings.dat", "movies.dat", "{}::{}::War\n"),
    "ml20m": lambda folder: _movies(folder, ",", "ratings.csv", "movies.csv", "{},{},War\n", "one line\n"),
}


def _required(cls: type[Any]) -> list[str]:
    missing = dataclasses.MISSING
    return [f.name for f in dataclasses.fields(cls) if f.default is missing and f.default_factory is missing]


LOADABLE = [name for name in NAMES if name in COPIES or not _required(discovery.find("data", name))]


LAWS = {name: [str(law) for law in laws_of_data(discovery.find("data", name))] for name in LOADABLE}
NUMBERED = ["graphs", "molecules", "nodes", "blocks"]
"""{data set: names of the laws that apply to it}."""


@pytest.fixture(scope="module")
def laws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], dict[str, Law[Any]]]]:
    """The laws of a data set by name, to be held against one copy of it."""

    @cache
    def of(name: str) -> dict[str, Law[Any]]:
        options = COPIES[name](tmp_path_factory.mktemp(name)) if name in COPIES else {}
        return {str(law): law for law in laws_of_data(discovery.find("data", name), **options)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield of


@pytest.mark.parametrize(("name", "law"), [(name, law) for name in LOADABLE for law in LAWS[name]])
def test_keeps_the_law(laws: Callable[[str], dict[str, Law[Any]]], name: str, law: str) -> None:
    laws(name)[law]()


@pytest.mark.parametrize(("name", "law"), [(name, law) for name in NUMBERED for law in LAWS[name]])
def test_keeps_the_law_where_labels_are_numbers(tmp_path: Path, name: str, law: str) -> None:
    cls, copied = discovery.find("data", name), COPIES[name](tmp_path) if name in COPIES else {}
    {str(each): each for each in laws_of_data(cls, **copied, labels="numbers")}[law]()


def test_those_that_cannot_be_loaded_here_have_the_form_of_those_that_can() -> None:
    for name in sorted({*NAMES} - {*LOADABLE}):
        check_data_form(discovery.find("data", name))


@pytest.mark.parametrize("name", discovery.presets("data"))
def test_a_preset_sets_options_that_its_class_has(name: str) -> None:
    of, options = discovery.presets("data")[name]
    assert of in NAMES
    cls = discovery.find("data", name)
    assert cls is discovery.find("data", of)
    assert {*options} <= {*settable(cls)}
    given = {field: "somewhere" for field in _required(cls) if field not in options}
    built = discovery.build("data", "data", {"name": name, **given})
    again = discovery.build("data", "data", {"name": name, **discovery.options_of(built)})
    assert again == built, "a resolved recipe builds the same"
