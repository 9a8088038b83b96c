"""Every dtype of torch, NumPy and pandas, wherever own data can have one: a result, or one line that says why."""

import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from fedgraft.contracts.data import Data as DataSet
from fedgraft.errors import InputError
from fedgraft.methods.data.graphs import Graphs
from fedgraft.methods.data.interactions import Interactions
from fedgraft.methods.data.nodes import Nodes
from fedgraft.methods.data.table import Table
from fedgraft.methods.data.typed_graph import TypedGraph

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of dtypes that are new or go
N = 12
DTYPES = sorted(
    {value for value in vars(torch).values() if isinstance(value, torch.dtype)} - {torch.quint4x2, torch.quint2x4},
    key=str,
)
READ = {
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float64,
    *(each for each in DTYPES if "float8" in str(each)),
}
"""Those that x may have, whatever else is."""
USUAL = {
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.complex64,
}
"""Those that objects of PyG have, and one that is no number in a table."""


def told(load: Callable[[], object]) -> InputError | None:
    """Return the one line that a reader says, or None for a result; any other exception is raised."""
    said = None
    try:
        load()
    except InputError as error:
        said = error
    assert "\n" not in str(said)
    return said


def tensors(dtype: torch.dtype, values: torch.Tensor) -> list[torch.Tensor]:
    """Return values of a dtype in each layout that torch has for it; none for a dtype without tensors."""
    if str(dtype).startswith(("torch.q", "torch.quint")):
        try:
            return [torch.quantize_per_tensor(values.float(), 1.0, 0, dtype)]
        except (RuntimeError, TypeError):
            return []
    made = []
    for change in (
        lambda t: t.to(dtype),
        lambda t: t.to(dtype).to_sparse(),
        lambda t: t.to(dtype).to_sparse_csr(),
        lambda t: t.to(dtype).to_sparse_csc(),
        lambda t: t.to(dtype).to_mkldnn(),
        lambda t: t.to(dtype, copy=True).requires_grad_(),
        lambda t: torch.empty(t.shape, dtype=dtype, device="meta"),
    ):
        try:
            made.append(change(values))
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
            continue  # torch has none
    return made


def node_object(**changed: Any) -> Data:
    ends = torch.stack([torch.arange(N), (torch.arange(N) + 3) % N])
    given = {"x": torch.eye(N)[:, :4] + 1, "y": torch.arange(N) % 3, "edge_index": ends, "client": torch.arange(N) % 2}
    return Data(**{**given, **changed})


def typed_object(**changed: Any) -> HeteroData:
    data, ends = HeteroData(), torch.stack([torch.arange(N), torch.arange(N) % 5])
    given = {"x": torch.ones(N, 4), "y": torch.arange(N) % 3, "client": torch.arange(N) % 2, **changed}
    data["author"].num_nodes = 5
    data["paper", "by", "author"].edge_index = given.pop("edge_index", ends)
    for key, value in given.items():
        data["paper"][key] = value
    return data


def graph_objects(**changed: Any) -> list[Data]:
    ends = torch.tensor([[0, 1, 2], [1, 2, 3]])
    given = {"x": torch.ones(4, 3), "edge_index": ends}
    return [Data(**{"y": torch.tensor([k % 2]), **given, **changed}) for k in range(N)]


def loads(key: str, value: torch.Tensor) -> dict[str, DataSet[Any]]:
    """Return data sets that have the tensor as an attribute of an object."""
    sets: dict[str, DataSet[Any]] = {
        "nodes": Nodes(node_object(**{key: value})),
        "typed": TypedGraph(typed_object(**{key: value}), target="paper"),
    }
    sets["joined"] = Nodes({"a": node_object(**{key: value}), "b": node_object()})
    return sets


@pytest.mark.parametrize(
    "dtype", [dtype if dtype in USUAL else pytest.param(dtype, marks=pytest.mark.slow) for dtype in DTYPES], ids=str
)
def test_every_dtype_of_torch(dtype: torch.dtype) -> None:
    attributes = {
        "x": torch.eye(N)[:, :4] + 1,
        "y": torch.arange(N) % 2,
        "edge_index": torch.stack([torch.arange(N), torch.arange(N) % 5]),
        "train_mask": torch.arange(N) % 2,
        "client": torch.arange(N) % 2,
    }
    for key, values in attributes.items():
        for tensor in tensors(dtype, values):
            for data in loads(key, tensor).values():
                said = told(lambda data=data: data.load(0))
                if key == "x" and dtype in READ and tensor.device.type == "cpu":
                    assert said is None, str(said)
    small = {"x": torch.ones(4, 3), "y": torch.ones(1), "edge_index": attributes["edge_index"][:, :2] % 4}
    for key, values in small.items():
        for tensor in tensors(dtype, values):
            for labels in ("classes", "numbers"):
                told(
                    lambda key=key, tensor=tensor, labels=labels: Graphs(
                        graph_objects(**{key: tensor}), labels=labels
                    ).load(0)
                )


def test_half_the_bits_say_what_all_of_them_do() -> None:
    x = 2.0 ** torch.randint(0, 4, (N, 4))  # what even float8_e8m0 holds
    for dtype in READ:
        for tensor in tensors(dtype, x):
            if tensor.device.type == "cpu":
                read = Nodes(node_object(x=tensor)).read().columns
                assert (read.frame().to_numpy() == x.numpy()).all()


WHOLE = np.arange(N) % 3 + 1
SERIES: dict[str, Any] = {
    **{name: pd.Series(WHOLE.astype(name)) for name in ("int8", "uint8", "int32", "int64", "uint64", "float16")},
    **{name: pd.Series(WHOLE.astype(name)) for name in ("float32", "float64", "longdouble", "complex64", "bool", "S4")},
    **{name: pd.Series(WHOLE).astype(name) for name in ("Int8", "UInt64", "Int64", "Float32", "Float64")},
    "boolean": pd.Series(WHOLE > 1).astype("boolean"),
    **{name: pd.Series(WHOLE).astype(name) for name in ("string", "category", "str", "object")},
    "void": pd.Series(list(np.zeros(N, "V4")), dtype=object),
    "datetime": pd.Series(pd.date_range("2020-01-01", periods=N)),
    "zoned": pd.Series(pd.date_range("2020-01-01", periods=N, tz="Europe/Paris")),
    "duration": pd.Series(pd.to_timedelta(WHOLE, unit="D")),
    "period": pd.Series(pd.period_range("2020-01-01", periods=N)),
    "interval": pd.Series(pd.interval_range(0, N)),
    "sparse": pd.Series(pd.arrays.SparseArray(WHOLE)),
    "decimal": pd.Series([decimal.Decimal(int(k)) for k in WHOLE], dtype=object),
    "bytes": pd.Series([str(k).encode() for k in WHOLE], dtype=object),
    "no text": pd.Series([b"\xff\xfe"] * N, dtype=object),
    "date": pd.Series([datetime.date(2020, 1, int(k)) for k in WHOLE], dtype=object),
    "clock": pd.Series([datetime.time(int(k)) for k in WHOLE], dtype=object),
    "uuid": pd.Series([uuid.UUID(int=int(k)) for k in WHOLE], dtype=object),
    "lists": pd.Series([[int(k), 1] for k in WHOLE], dtype=object),
    "arrays": pd.Series([np.ones(2) * k for k in WHOLE], dtype=object),
    "dicts": pd.Series([{"a": int(k)} for k in WHOLE], dtype=object),
    "sets": pd.Series([{int(k)} for k in WHOLE], dtype=object),
    "mixed": pd.Series([1, "a", 2.5, True] * (N // 4), dtype=object),
    "none": pd.Series([None] * N, dtype=object),
    "nan": pd.Series([np.nan] * N),
    "NA": pd.Series([pd.NA] * N, dtype="Int64"),
    "NaT": pd.Series([pd.NaT] * N),
    "infinite": pd.Series([np.inf, *WHOLE[1:]]),
    "huge": pd.Series([1e300] * N),
    "long": pd.Series([10**30] * N, dtype=object),
    "surrogate": pd.Series(["\ud800"] * N, dtype=object),
    **{
        f"arrow {kind}": pd.Series(pd.array(pa.array(WHOLE).cast(pa.float64()).cast(kind), dtype=pd.ArrowDtype(kind)))
        for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(10, 2))
    },
    "arrow string": pd.Series(pd.array([str(k) for k in WHOLE], dtype=pd.ArrowDtype(pa.string()))),
    "arrow bool": pd.Series(pd.array(WHOLE > 1, dtype=pd.ArrowDtype(pa.bool_()))),
    "arrow bytes": pd.Series(pd.array([b"a"] * N, dtype=pd.ArrowDtype(pa.binary()))),
    "arrow date": pd.Series(
        pd.array([datetime.date(2020, 1, int(k)) for k in WHOLE], dtype=pd.ArrowDtype(pa.date32()))
    ),
    "arrow time": pd.Series(pd.array(pd.date_range("2020", periods=N), dtype=pd.ArrowDtype(pa.timestamp("ms", "UTC")))),
    "arrow duration": pd.Series(pd.array(pd.to_timedelta(WHOLE, "s"), dtype=pd.ArrowDtype(pa.duration("s")))),
    "arrow list": pd.Series(pd.array([[1.0]] * N, dtype=pd.ArrowDtype(pa.list_(pa.float64())))),
    "arrow dictionary": pd.Series(
        pd.array(
            pa.array([str(k) for k in WHOLE]).dictionary_encode(),
            dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())),
        )
    ),
    "arrow null": pd.Series(pd.array([None] * N, dtype=pd.ArrowDtype(pa.null()))),
}


def frames(role: str, values: pd.Series) -> dict[str, DataSet[Any]]:
    """Return data sets one of whose columns has the values, by what it is for."""
    number, ids = np.arange(N), [f"n{k}" for k in range(N)]
    nodes = pd.DataFrame({"node": ids, "label": number % 2, "x": number * 1.0, "client": number % 2})
    edges = pd.DataFrame({"source": ids, "target": ids[::-1]})
    ratings = pd.DataFrame({"user": number % 4, "item": number, "rating": number % 5, "time": number})
    graphs = pd.DataFrame({"graph": number, "label": number % 2, "client": "a"})
    parts = pd.DataFrame({"graph": number, "node": 0, "kind": "C", "x": number})
    typed = pd.DataFrame({"node": ids, "type": "paper", "label": number % 2, "x": number * 1.0, "client": number % 2})
    links = pd.DataFrame({"source_type": "paper", "target_type": "paper", "source": ids, "target": ids[::-1]})
    no_edges = pd.DataFrame({"graph": [], "source": [], "target": []})

    def put(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(**{role: values}) if role in table or role == "split" else table

    items = pd.DataFrame({"item": number, "title": ids, "x": number})
    every: dict[str, tuple[Callable[[], DataSet[Any]], str]] = {
        "nodes": (lambda: Nodes(put(nodes), edges), "node label x client split"),
        "numbers": (lambda: Nodes(put(nodes), edges, labels="numbers"), "label"),
        "edges": (lambda: Nodes(nodes, put(edges)), "source"),
        "table": (lambda: Table(put(ratings), time="time", clients=2), "user item rating time split"),
        "interactions": (lambda: Interactions(put(ratings), time="time", clients=2), "user item time split"),
        "items": (lambda: Interactions(ratings, put(items), clients=2), "item x"),
        "graphs": (lambda: Graphs(put(graphs), put(parts), no_edges), "node label x client kind split"),
        "sizes": (lambda: Graphs(put(graphs), put(parts), no_edges, labels="numbers"), "label"),
        "typed": (lambda: TypedGraph(put(typed), "paper", put(links)), "node label x client source split"),
    }
    return {name: make() for name, (make, roles) in every.items() if role in roles.split()}


@pytest.mark.parametrize(
    "role",
    [
        *("source", "rating", "time", "kind"),
        # Of the most data sets, or alike:
        *(
            pytest.param(role, marks=pytest.mark.slow)
            for role in ("client", "item", "label", "node", "split", "user", "x")
        ),
    ],
)
def test_every_dtype_of_a_column(role: str) -> None:
    for values in SERIES.values():
        for data in frames(role, values).values():
            told(lambda data=data: data.load(0))


@pytest.mark.parametrize(
    "name", ["arrow double", "decimal", "Float64", "float16", "sparse", "category", "Int8", "bytes"]
)
def test_numbers_of_any_dtype_are_features(name: str) -> None:
    read = frames("x", SERIES[name])["nodes"].read().columns  # type: ignore[attr-defined]
    assert sorted(read.numbers.ravel().tolist()) == sorted(WHOLE.tolist())
