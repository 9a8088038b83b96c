"""Reads arrays out of objects of PyTorch Geometric, and such objects out of files, with errors that name both."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.examples import Features, compact
from fedgraft.domains.tables.labels import numbers_of
from fedgraft.domains.tables.rows import Coded, codes_of
from fedgraft.domains.tables.schema import Names
from fedgraft.errors import InputError, nearest
from fedgraft.wire.layouts import Array

MASKS = ("train_mask", "val_mask", "test_mask")
"""PyG's names of the splits, in the order of `SPLITS`."""
MOST = 2**53
"""Highest number of a class: what every float holds."""
SUFFIX = ".pt"
"""Of a file that holds an object."""

SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
"""Layouts of tensors whose zeros need not be there."""

Kind = Literal["Data", "HeteroData"]


def read_object(path: Path, parameter: str, kind: Kind) -> Any:
    """Return the object that `torch.save` wrote; nothing else is unpickled."""
    if not path.is_file():
        raise InputError(f"{parameter}: no file{'' if path.suffix else ' or folder'} {path}.")
    try:
        with known_classes(kind):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises another type, some without a word, for nearly every way to be broken
        why = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
        raise InputError(
            f"{path} cannot be read as a torch_geometric.data.{kind} ({why}); write it with torch.save(data, path), "
            "its attributes tensors, numbers or lists."
        ) from error


@contextmanager
def known_classes(kind: Kind) -> Iterator[None]:
    """Let `torch.load` take what an object is made of, and otherwise tensors only."""
    from torch_geometric.data import Data, HeteroData, data, feature_store, graph_store, storage  # takes seconds

    known = {
        "Data": [Data, data.DataEdgeAttr, data.DataTensorAttr, storage.GlobalStorage],
        "HeteroData": [
            *(HeteroData, feature_store.TensorAttr, graph_store.EdgeAttr),
            *(storage.BaseStorage, storage.EdgeStorage, storage.NodeStorage),
        ],
    }
    with torch.serialization.safe_globals(known[kind]):
        yield


def numpy_of(value: Any, where: str) -> Array:
    """Return a tensor of any layout, or what NumPy takes, as an array; `where` names it in errors.

    Numbers that NumPy does not have, such as bfloat16, float8 and quantised ones, become float32, which holds them.
    """
    try:
        return np.asarray(_plain(value).numpy() if isinstance(value, torch.Tensor) else value)
    except (TypeError, RuntimeError, ValueError) as error:  # also what is of no device, and not implemented
        kind = f"{value.dtype} on {value.device}" if isinstance(value, torch.Tensor) else type(value).__name__
        raise InputError(f"{where} cannot be read as an array; got {kind}.") from error


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with every value, of a dtype that NumPy has where it has numbers."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    tensor = tensor.dequantize() if tensor.is_quantized else tensor
    if tensor.layout != torch.strided:
        tensor = (_wide(tensor) if tensor.layout in SPARSE else tensor).to_dense()
    return _wide(tensor)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return numbers of fewer than 32 bits as float32, others as they are."""
    return tensor.float() if tensor.is_floating_point() and tensor.dtype.itemsize < 4 else tensor


def ends_of(edge_index: Any, where: str) -> Array:
    """Return the ends of edges, whole numbers [2, edges]; `where` names them in errors."""
    ends = numpy_of(edge_index, where)
    if ends.ndim != 2 or len(ends) != 2 or ends.dtype.kind not in "iu":
        raise InputError(f"{where} must be whole numbers of shape [2, edges]; got {ends.dtype} of {list(ends.shape)}.")
    return ends


def rows_of(x: Any, where: str, nodes: int | None = None) -> Any:
    """Return features as they are: an array of numbers, or a sparse tensor, [nodes, features]; `where` names them."""
    is_sparse = isinstance(x, torch.Tensor) and x.layout in SPARSE
    x = x.detach() if is_sparse else numpy_of(x, where)
    if x.ndim != 2 or nodes not in (None, len(x)):
        shape = "nodes" if nodes is None else f"{nodes} nodes"
        raise InputError(f"{where} must be of shape [{shape}, features]; got {list(x.shape)}.")
    if isinstance(x, np.ndarray) and x.dtype.kind not in "biuf":
        raise InputError(f"{where} must be real numbers; got {x.dtype}.")
    if is_sparse and x.is_complex():
        raise InputError(f"{where} must be real numbers; got {x.dtype}.")
    return x


def features_of(x: Any, where: str, nodes: int | None = None) -> Features:
    """Return features as float32 [nodes, f], dense or CSR, what is too large infinite; arguments as of `rows_of`."""
    x = rows_of(x, where, nodes)
    if isinstance(x, np.ndarray):
        return as_features(x)
    try:
        listed = x.cpu().to_sparse_coo().to(torch.float32).coalesce()
        row, column = listed.indices().numpy()
    except (TypeError, RuntimeError) as error:
        raise InputError(f"{where} cannot be read as an array; got {x.dtype} of {x.layout} on {x.device}.") from error
    return sparse.csr_matrix((listed.values().numpy(), (row, column)), shape=tuple(x.shape))


def as_features(values: Array) -> Features:
    """Return numbers [nodes, f] as float32, sparse where few are other than zero; what is too large is infinite."""
    with np.errstate(over="ignore"):
        return compact(np.ascontiguousarray(values, dtype=np.float32))


def classes_of(y: Any, nodes: int, where: str, hint: str = "") -> Indices:
    """Return the class of each node, int64 [nodes], -1 = unknown, of whole numbers, of which nan is unknown, too.

    `where` names them in errors; `hint` ends one about a fraction.
    """
    y = numpy_of(y, where)
    if y.shape not in ((nodes,), (nodes, 1)) or y.dtype.kind not in "iuf":
        raise InputError(
            f"{where} must be one whole number per node, its class, {[nodes]}; got {y.dtype} of {list(y.shape)}."
        )
    y = y.reshape(-1)
    y = np.where(np.isnan(y), -1, y) if y.dtype.kind == "f" else y
    with np.errstate(invalid="ignore"):  # of infinite ones, which are broken, too
        broken = np.flatnonzero((y % 1 != 0) | (y < -1) | (y > MOST))
    if len(broken):
        raise InputError(
            f"{where} must be a class, 0 or more, or -1 for none; got {y[broken[0]]} at node {broken[0]} "
            f"({len(broken)} such nodes).{hint if y[broken[0]] % 1 else ''}"
        )
    return np.asarray(y.astype(np.int64))


def known_of(y: Any, where: str, na_labels: Sequence[str], nothing: float) -> Array:
    """Return labels as an array, `nothing` in place of numbers among `na_labels`; `where` names it in errors."""
    labels = numpy_of(y, where)
    if not na_labels or labels.dtype.kind not in "iuf":
        return labels
    return np.where(np.isin(labels, numbers_of(na_labels)), nothing, labels)


def occurring(label: Indices) -> tuple[Indices, tuple[str, ...]]:
    """Return labels [nodes] that count the classes of nodes from 0, -1 = unknown, and the names of these, numbers."""
    classes = np.unique(label[label >= 0])
    return np.where(label >= 0, np.searchsorted(classes, label), -1), tuple(map(str, classes.tolist()))


def split_of(entries: Mapping[str, Any], nodes: int, where: str, counted: bool = True) -> tuple[NDArray[np.int8], bool]:
    """Return the split of each node, int8 [nodes], -1 = none, and whether there is one.

    `entries` is what an object has by name; `counted`, whether an error tells how many nodes are in two splits.
    """
    split = np.full(nodes, -1, np.int8)
    masks = {key: numpy_of(entries[key], f"{where}.{key}") for key in MASKS if entries.get(key) is not None}
    if masks and (missing := [key for key in MASKS if key not in masks]):
        raise InputError(f"{where} has {', '.join(masks)} but no {missing[0]}; all three are needed, or none.")
    for part, (key, mask) in enumerate(masks.items()):
        if mask.shape != (nodes,) or mask.dtype != bool:
            raise InputError(
                f"{where}.{key} must be true or false of each node, {[nodes]}; got {mask.dtype} of {list(mask.shape)}."
            )
        if len(twice := np.flatnonzero(mask & (split >= 0))):
            count = f" ({len(twice)} such nodes)" if counted else ""
            other = SPLITS[split[twice[0]]]
            raise InputError(f"{where}.{key}: node {twice[0]} is in the {other} split too{count}; one is allowed.")
        split[mask] = part
    return split, bool(masks)


def clients_of(client: Any, nodes: int, where: str) -> Coded:
    """Return the number of each node's client, int64 [nodes], and their names; zeros and none where None is given.

    `where` names the object in errors.
    """
    if client is None:
        return np.zeros(nodes, np.int64), np.array([], dtype=str)
    clients = numpy_of(client, f"{where}.client")
    if clients.shape != (nodes,):
        raise InputError(f"{where}.client must name one client per node, {nodes}; got {list(clients.shape)}.")
    return codes_of(clients, "client", f"{where}.client")


VALUES: Final = "edge_attr"
READ_BY: Final = {
    VALUES: "data.edge_features = 'all'",
    "edge_weight": "data.weight = 'edge_weight'",
    "edge_time": "data.time = 'edge_time'",
}
"""What edges of an object may carry, and the option that reads it."""


def reads_edges(names: Names) -> bool:
    """Return whether an option names something that edges carry."""
    return bool(names["edge_features"] != () or names["weight"] or names["time"])


def unread(data: Any, where: str, names: Names) -> list[str]:
    """Return a note on each of `READ_BY` that is there and that no option reads."""
    asked = {names["weight"], names["time"], VALUES if names["edge_features"] != () else ""}
    there = [key for key in READ_BY if key not in asked and getattr(data, key, None) is not None]
    return [f"{where}.{key} is not read; {READ_BY[key]} would." for key in there]


def table_of_edges(data: Any, where: str, names: Names) -> pd.DataFrame:
    """Return the edges of an object as a table; arguments as of `columns_of_edges`."""
    return pd.DataFrame(columns_of_edges(data, where, names))


def columns_of_edges(data: Any, where: str, names: Names, owner: str = "Nodes") -> dict[str, Array]:
    """{name: [edges]} of an object: ends by position, columns of `edge_attr` "0", "1" ..., weight, time.

    The last two are the attributes that options of the `owner` name, one number per edge. Raises `InputError`, naming
    the attribute.
    """
    given = data.edge_index
    ends = ends_of(np.zeros((2, 0), np.int64) if given is None else given, f"{where}.edge_index")
    columns: dict[str, Array] = {names["source"]: ends[0], names["target"]: ends[1]}
    if (given := getattr(data, VALUES, None)) is not None:
        values = _of_edges(given, ends.shape[1], f"{where}.{VALUES}")
        columns |= {str(place): values[:, place] for place in range(values.shape[1])}
    for role in ("weight", "time"):
        if not (name := names[role]):
            continue
        if (given := getattr(data, name, None)) is None:
            raise InputError(f"{where} has no {name!r} ({owner}.{role}).{nearest(name, vars_of(data))}")
        values = _of_edges(given, ends.shape[1], f"{where}.{name}")
        if values.shape[1] != 1:
            raise InputError(f"{where}.{name} must be one number per edge; got {list(values.shape)}.")
        columns[name] = values[:, 0]
    return columns


def cross_client_edges(objects: Mapping[str, Any], names: Names) -> dict[str, Array]:
    """Return what edges of several objects carry, one after another, as attributes of one; by what errors call them."""
    attributes: dict[str, Array] = {}
    for key in dict.fromkeys((VALUES, names["weight"], names["time"])):
        lacking = [where for where, each in objects.items() if getattr(each, key or "", None) is None]
        if not key or len(lacking) == len(objects):
            continue
        if lacking:
            raise InputError(f"{lacking[0]} has no {key!r}, which other clients' objects have.")
        parts = [_of_edges(getattr(each, key), None, f"{where}.{key}") for where, each in objects.items()]
        if odd := [part.shape[1] for part in parts if part.shape[1] != parts[0].shape[1]]:
            raise InputError(f"{key!r} must be as wide at all clients: {parts[0].shape[1]}; got {odd[0]}.")
        attributes[key] = np.concatenate(parts)
    return attributes


def vars_of(data: Any) -> Sequence[str]:
    """Return the names of an object's attributes."""
    return [str(key) for key in (data.keys() if callable(getattr(data, "keys", None)) else vars(data))]


def _of_edges(given: Any, edges: int | None, where: str) -> Array:
    """An attribute of edges, numbers [edges, width]."""
    values = numpy_of(given, where)
    values = values[:, None] if values.ndim == 1 else values
    count = len(values) if edges is None else edges
    if values.ndim != 2 or len(values) != count or values.dtype.kind not in "iufb":
        raise InputError(f"{where} must be numbers of shape [{count}, n]; got {values.dtype} of {list(values.shape)}.")
    return values
