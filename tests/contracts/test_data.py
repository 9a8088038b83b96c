"""Laws of every data set: `fedgraft/methods/data/*.py`, found by file name.

A data set that needs files is loaded here from a tiny made-up copy if `COPIES` can write one; one without required
options is loaded as it is. The laws about its form hold for all.
"""

import dataclasses
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

from fedgraft.contracts.providers import Data
from fedgraft.domains.graphs.shards import GraphShard, tidy_edges
from fedgraft.domains.nodes.shards import NodeShard, merge_shards, undirected
from fedgraft.domains.ratings.shards import RatingShard
from fedgraft.experiment import discovery
from fedgraft.wire.layouts import digest
from helpers.toy_graphs import TRIANGLE, write_tu
from helpers.toy_nodes import write_npz

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


COPIES: dict[str, Callable[[Path], dict[str, object]]] = {
    "ciao": lambda folder: {"root": _mat(folder)},
    "epinions": lambda folder: {"root": _mat(folder)},
    "table": lambda folder: {"ratings": _csv(folder)},
    "tu": lambda folder: {"root": _sets(folder), "sets": "nci1"},
    "graphs": _graphs,
    "pyg_nodes": _npz,
    "nodes": _nodes,
}


def _required(cls: type[Any]) -> list[str]:
    missing = dataclasses.MISSING
    return [f.name for f in dataclasses.fields(cls) if f.default is missing and f.default_factory is missing]


LOADABLE = [name for name in NAMES if name in COPIES or not _required(discovery.find("data", name))]


@pytest.fixture(params=LOADABLE)
def data(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Data[Any]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = COPIES[request.param](tmp_path) if request.param in COPIES else {}
    return discovery.build("data", "data", {"name": request.param, **options})


def _content(shard: object) -> str:
    """A digest of every array and the text of everything else of a shard."""
    values = vars(shard) if hasattr(shard, "__dict__") else dataclasses.asdict(shard)  # type: ignore[call-overload]
    arrays = {key: np.asarray(value) for key, value in values.items() if isinstance(value, np.ndarray)}
    matrices = {key: value for key, value in values.items() if scipy.sparse.issparse(value)}
    for key, matrix in matrices.items():
        arrays |= {f"{key}.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
    texts = {key: array.astype("S") for key, array in arrays.items() if array.dtype.kind in "UO"}
    rest = {key: value for key, value in values.items() if key not in arrays and key not in matrices}
    return digest(arrays | texts) + (repr(rest) if len(repr(rest)) < 10_000 else str(hash(pickle.dumps(rest))))


@pytest.mark.parametrize("name", NAMES)
def test_is_a_frozen_dataclass_with_a_documented_class(name: str) -> None:
    cls = discovery.find("data", name)
    assert issubclass(cls, Data)
    assert dataclasses.is_dataclass(cls)
    assert cls.__dataclass_params__.frozen
    assert isinstance(cls.task, str)
    text = inspect.getdoc(cls) or ""
    assert "Source:" in text
    assert "Differs:" in text
    assert all(f"{field.name}:" in text for field in dataclasses.fields(cls)), "every option is explained"


def test_equal_seeds_give_equal_shards_and_others_do_not(data: Data[Any]) -> None:
    first, again, other = ([_content(shard) for shard in data.load(seed)] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_shards_survive_the_way_to_a_worker(data: Data[Any]) -> None:
    for shard in data.load(0):
        assert _content(pickle.loads(pickle.dumps(shard))) == _content(shard)


def test_rating_shards_are_sound(data: Data[Any]) -> None:
    if data.task != "rating":
        pytest.skip(f"a data set for the task {data.task!r}")
    shards: list[RatingShard] = data.load(3)
    assert len({shard.name for shard in shards}) == len(shards)
    for shard in shards:
        n = len(shard.rating)
        assert shard.rating.dtype == np.float32
        assert shard.split.dtype == np.uint8
        for ids, local in ((shard.users, shard.user), (shard.items, shard.item)):
            assert (np.diff(ids) > 0).all()
            assert len(local) == n
            assert set(local) == set(range(len(ids))), "what has no rating here does not occur here"
        assert len(shard.user_ids) == len(shard.users)
        assert len(shard.item_ids) == len(shard.items)
        assert len(np.unique(shard.user * len(shard.items) + shard.item)) == n, "one rating per pair"
        low, high = shard.scale
        assert ((shard.rating >= low) & (shard.rating <= high)).all()
        assert ((shard.category >= 0) & (shard.category < shard.n_categories)).all()
        assert shard.trust.shape[0] == 2
        assert shard.trust.size == 0 or 0 <= shard.trust.min() <= shard.trust.max() < len(shard.users)
        assert (shard.trust[0] != shard.trust[1]).all()
        assert set(shard.category[shard.split == 0]) == set(shard.category)
    assert {0, 1, 2} == {int(part) for shard in shards for part in np.unique(shard.split)}


def test_graph_shards_are_sound(data: Data[Any]) -> None:
    if data.task != "graph":
        pytest.skip(f"a data set for the task {data.task!r}")
    shards: list[GraphShard] = data.load(3)
    assert len({shard.name for shard in shards}) == len(shards)
    for shard in shards:
        assert (shard.sizes > 0).all()
        arrays = (shard.sizes, shard.edges, shard.kind, shard.attributes, shard.label, shard.split, shard.ids)
        types = ("int64", "int32", "int32", "float32", "int64", "int8", "object")
        assert [array.dtype.name for array in arrays] == list(types)
        tidy, notes = tidy_edges(shard.edges.astype(np.int64), shard.sizes, "edge")
        assert np.array_equal(tidy, shard.edges), "within a graph, both ways, ascending"
        assert notes == (), "no loops, no repeats"
        assert shard.edge_starts[-1] == shard.edges.shape[1] == shard.degree.sum()
        assert -1 <= shard.kind.min() <= shard.kind.max() < max(shard.kinds, 1)
        assert shard.kinds or shard.attributes.shape[1], "every node has a feature"
        assert len(shard.kind_names) == shard.kinds
        assert len(shard.attribute_names) == shard.attributes.shape[1]
        assert np.isfinite(shard.attributes).all()
        assert 0 <= shard.label.min() <= shard.label.max() < len(shard.classes)
        assert len(np.unique(shard.label)) > 1
        assert set(shard.split) == {0, 1, 2}
        assert len(set(shard.ids)) == shard.graphs
        assert set(shard.label[shard.split == 0]) == set(shard.label)


def test_node_shards_are_sound(data: Data[Any]) -> None:
    if data.task != "node":
        pytest.skip(f"a data set for the task {data.task!r}")
    shards: list[NodeShard] = data.load(3)
    assert len({shard.name for shard in shards}) == len(shards)
    for k, shard in enumerate(shards):
        assert shard.own > 0
        arrays = (shard.ids, shard.features, shard.label, shard.split, shard.pointers, shard.senders)
        types = ("object", "float32", "int64", "int8", "int64", "int32")
        assert [array.dtype.name for array in arrays] == list(types)
        assert shard.halo_owner.dtype == shard.halo_place.dtype == np.int32
        assert (shard.halo_owner != k).all(), "a halo node is another client's"
        heard = np.unique(shard.senders)
        assert set(heard[heard >= shard.own]) == set(range(shard.own, shard.own + shard.halo)), "each is a neighbour"
        assert shard.classes == shards[0].classes
        assert shard.width == shards[0].width > 0
        assert (shard.split[shard.label == -1] == -1).all(), "no split without a label"
    whole = merge_shards(shards)
    assert len(set(whole.ids)) == whole.own
    receiver = np.repeat(np.arange(whole.own), whole.degree)
    pointers, senders, notes = undirected(np.stack([receiver, whole.senders]), whole.own, "edge")
    assert notes == (), "no loops, no repeats"
    assert np.array_equal(pointers, whole.pointers), "every edge both ways, at both clients"
    assert np.array_equal(senders, whole.senders)
    assert {0, 1, 2} <= set(whole.split)
    assert len(set(whole.label[whole.label >= 0])) > 1


@pytest.mark.parametrize("name", discovery.presets("data"))
def test_a_preset_sets_options_that_its_class_has(name: str) -> None:
    of, options = discovery.presets("data")[name]
    assert of in NAMES
    cls = discovery.find("data", name)
    assert cls is discovery.find("data", of)
    assert set(options) <= {field.name for field in dataclasses.fields(cls)}
    given = {field: "somewhere" for field in _required(cls) if field not in options}
    built = discovery.build("data", "data", {"name": name, **given})
    again = discovery.build("data", "data", {"name": name, **discovery.options_of(built)})
    assert again == built, "a resolved recipe builds the same"
