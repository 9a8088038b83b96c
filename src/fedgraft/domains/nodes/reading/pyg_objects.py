"""From PyG `Data` objects to a whole graph: those that published data sets are read into, and a user's own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import sparse

from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.labels.known import numbers_hint
from fedgraft.domains.nodes.base.shards import SPARSE, Features, WholeGraph, undirected
from fedgraft.domains.tables import encode
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array

MASKS = ("train_mask", "val_mask", "test_mask")
"""PyG's names of the splits, in the order of `SPLITS`."""
UNREAD = ("edge_attr", "edge_weight")
"""What no encoder of nodes looks at."""


@dataclass(frozen=True, eq=False)
class Collection:
    """A graph as it was given, before it is dealt to clients.

    Args:
        whole: the graph; in no split where none was given.
        client: int64 [nodes]; client_names: one per client; none where the data name no clients.
        split: whether a split was given.
        notes: what was left out, for people to read.
    """

    whole: WholeGraph
    client: Indices
    client_names: tuple[str, ...]
    split: bool
    notes: tuple[str, ...]


def collection_of(
    data: Any, where: str, classes: tuple[str, ...] = (), are_numbers: bool = False, labelled: bool = True
) -> Collection:
    """A PyG `Data` object with x, y (-1 = unknown), edge_index, and optionally `client` and the three masks.

    Args:
        data: the object.
        where: what errors call it, and the name of the graph.
        classes: their names; none = the numbers of those that nodes have, ascending.
        are_numbers: whether y are numbers (nan = unknown), not classes.
        labelled: whether y and the masks are read.
    """
    for key in ("x", "y", "edge_index") if labelled else ("x", "edge_index"):
        if getattr(data, key, None) is None:
            raise InputError(f"{where} must be a torch_geometric.data.Data with x, y and edge_index; it has no {key}.")
    features = _features(data.x, f"{where}.x")
    nodes = features.shape[0]
    if not nodes:
        raise InputError(f"{where}: no nodes; at least one is needed.")
    label: Array
    if not labelled:
        label = np.full(nodes, -1, np.int64)
    elif are_numbers:
        label = _numbers(_numpy(data.y), nodes, f"{where}.y")
    else:
        label, classes = _classes(_labels(_numpy(data.y), nodes, f"{where}.y"), classes, where)
    ends = _numpy(data.edge_index)
    if ends.ndim != 2 or len(ends) != 2 or ends.dtype.kind not in "iu":
        raise InputError(
            f"{where}.edge_index must be whole numbers of shape [2, edges]; got {ends.dtype} of {list(ends.shape)}."
        )
    pointers, senders, notes = undirected(ends, nodes, f"{where}.edge_index, edge")
    notes = (*notes, *(f"{where}.{key} is not read." for key in UNREAD if getattr(data, key, None) is not None))
    split, given = _split(data if labelled else None, nodes, where)
    client, names = np.zeros(nodes, np.int64), np.array([], dtype=str)
    if getattr(data, "client", None) is not None:
        clients = _numpy(data.client)
        if clients.shape != (nodes,):
            raise InputError(f"{where}.client must name one client per node, {nodes}; got {list(clients.shape)}.")
        client, names = encode(pd.DataFrame({"client": clients}), "client", [(f"{where}.client", nodes)])
    whole = WholeGraph(
        name=where,
        ids=np.arange(nodes).astype(object),
        features=features,
        label=label,
        classes=classes,
        split=split,
        pointers=pointers,
        senders=senders,
    )
    return Collection(whole, client, tuple(names.tolist()), given, notes)


def joined(objects: Mapping[Any, Any], where: str) -> Any:
    """One object of several, each a client's own graph; it has `client`, and masks where all of them have.

    Args:
        objects: {client: a `Data` object with x, y and edge_index}.
        where: what errors call them.
    """
    if not objects:
        raise InputError(f"{where} holds no client; at least one is needed.")
    for client, each in objects.items():
        lacking = [key for key in ("x", "y", "edge_index") if not isinstance(getattr(each, key, None), torch.Tensor)]
        if lacking:
            raise InputError(
                f"{where}[{client!r}] must be a torch_geometric.data.Data with x, y and edge_index; "
                f"{type(each).__name__} has no tensor {lacking[0]}."
            )
        if each.x.ndim != 2 or each.x.shape[1] != next(iter(objects.values())).x.shape[1]:
            raise InputError(f"{where}[{client!r}].x must have the features of the others; got {list(each.x.shape)}.")
    every, sizes = list(objects.values()), [each.x.shape[0] for each in objects.values()]
    unread = {key: True for key in UNREAD if any(getattr(each, key, None) is not None for each in every)}
    masks: dict[str, list[Any]] = {key: [getattr(each, key, None) for each in every] for key in MASKS}
    first = np.cumsum([0, *sizes[:-1]]).tolist()
    return SimpleNamespace(
        x=torch.cat([each.x.to_dense() for each in every]),
        y=torch.cat([each.y.reshape(-1) for each in every]),
        edge_index=torch.cat([each.edge_index + start for each, start in zip(every, first, strict=True)], dim=1),
        client=np.repeat(np.array([str(client) for client in objects], dtype=object), sizes),
        **{key: torch.cat(found) for key, found in masks.items() if all(mask is not None for mask in found)},
        **unread,
    )


def tables_of(collection: Collection) -> dict[str, pd.DataFrame]:
    """{"nodes": ..., "edges": ...}, tables that say the same, with the usual names of columns; features by number."""
    whole = collection.whole
    values = whole.features if isinstance(whole.features, np.ndarray) else whole.features.toarray()
    columns: dict[str, Any] = {"node": whole.ids}
    named_classes = [whole.classes[label] if label >= 0 else None for label in whole.label] if whole.classes else None
    columns["label"] = whole.label if named_classes is None else named_classes
    if collection.client_names:
        columns["client"] = np.array(collection.client_names, dtype=object)[collection.client]
    if collection.split:
        columns["split"] = [SPLITS[split] if split >= 0 else None for split in whole.split]
    named = pd.DataFrame(columns)
    nodes = pd.concat([named, pd.DataFrame(values, columns=[str(k) for k in range(whole.features.shape[1])])], axis=1)
    receiver = np.repeat(np.arange(whole.nodes), whole.degree)
    once = receiver < whole.senders
    ends = {"source": whole.ids[receiver[once]], "target": whole.ids[whole.senders[once]]}
    return {"nodes": nodes, "edges": pd.DataFrame(ends)}


def read_object(path: Path, parameter: str) -> Any:
    """The `Data` object that `torch.save` wrote; nothing else is unpickled."""
    if not path.is_file():
        raise InputError(f"{parameter}: no file {path}.")
    try:
        with known_classes():
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises another type, some without a word, for nearly every way to be broken
        why = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
        raise InputError(
            f"{path} cannot be read as a torch_geometric.data.Data ({why}); write it with torch.save(data, path), "
            "its attributes tensors, numbers or lists."
        ) from error


@contextmanager
def known_classes() -> Iterator[None]:
    """Lets `torch.load` take what a `Data` object is made of, and otherwise tensors only."""
    from torch_geometric.data import Data  # takes seconds
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
        yield


def compact(values: Array) -> Features:
    """The features as float32, sparse where few are other than zero."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, which a graph does not take
        features = np.ascontiguousarray(values, dtype=np.float32)
    return sparse.csr_matrix(features) if np.count_nonzero(features) < SPARSE * features.size else features


def _features(x: Any, where: str) -> Features:
    if not isinstance(x, torch.Tensor) or x.layout == torch.strided:
        x = _numpy(x)
    if x.ndim != 2:
        raise InputError(f"{where} must be of shape [nodes, features]; got {list(x.shape)}.")
    if isinstance(x, np.ndarray):
        if x.dtype.kind not in "biuf":
            raise InputError(f"{where} must be real numbers; got {x.dtype}.")
        return compact(x)
    flat: Any = x.detach().cpu()
    listed = flat.to_sparse_coo().coalesce()
    row, column = listed.indices().numpy()
    return sparse.csr_matrix((listed.values().numpy().astype(np.float32), (row, column)), shape=tuple(x.shape))


def _classes(label: Indices, classes: tuple[str, ...], where: str) -> tuple[Indices, tuple[str, ...]]:
    """Labels [nodes] that count the classes from 0, and names of these: as given, or what nodes have."""
    highest = int(label.max(initial=-1))
    if classes and highest >= len(classes):
        raise InputError(f"{where}.y must be below {len(classes)}, the number of classes; got {highest}.")
    if classes:
        return label, classes
    found = np.unique(label[label >= 0])
    return np.where(label >= 0, np.searchsorted(found, label), -1), tuple(str(each) for each in found)


def _numbers(y: Array, nodes: int, where: str) -> Array:
    """Numbers, float64 [nodes], nan = unknown."""
    if y.shape not in ((nodes,), (nodes, 1)) or y.dtype.kind not in "iuf":
        raise InputError(f"{where} must be one number per node, {[nodes]}; got {y.dtype} of {list(y.shape)}.")
    found = y.reshape(-1).astype(np.float64)
    if len(broken := np.flatnonzero(np.isinf(found))):
        raise InputError(f"{where} must be finite, or nan for none; got {found[broken[0]]} at node {broken[0]}.")
    if np.isnan(found).all():
        raise InputError(f"{where} is nan at every node; nodes to learn from need a number.")
    return found


def _labels(y: Array, nodes: int, where: str) -> Indices:
    if y.shape not in ((nodes,), (nodes, 1)) or y.dtype.kind not in "iuf":
        raise InputError(
            f"{where} must be one whole number per node, its class, {[nodes]}; got {y.dtype} of {list(y.shape)}."
        )
    y = y.reshape(-1)
    known = ~np.isnan(y) if y.dtype.kind == "f" else np.ones(nodes, bool)
    broken = np.flatnonzero(known & ((y % 1 != 0) | (y < -1)))
    if len(broken):
        raise InputError(
            f"{where} must be a class, 0 or more, or -1 for none; got {y[broken[0]]} at node {broken[0]} "
            f"({len(broken)} such nodes).{numbers_hint('node') if y[broken[0]] % 1 else ''}"
        )
    return np.where(known, y, -1).astype(np.int64)


def _split(data: Any, nodes: int, where: str) -> tuple[Any, bool]:
    """(int8 [nodes], whether it was given)."""
    split = np.full(nodes, -1, np.int8)
    masks = {key: mask for key in MASKS if (mask := getattr(data, key, None)) is not None}
    if not masks:
        return split, False
    if missing := [key for key in MASKS if key not in masks]:
        raise InputError(f"{where} has {', '.join(masks)} but no {missing[0]}; all three are needed, or none.")
    for part, (key, mask) in enumerate(masks.items()):
        mask = _numpy(mask)
        if mask.shape != (nodes,) or mask.dtype != bool:
            raise InputError(
                f"{where}.{key} must be true or false of each node, {[nodes]}; got {mask.dtype} of {list(mask.shape)}."
            )
        if len(twice := np.flatnonzero(mask & (split >= 0))):
            other = SPLITS[split[twice[0]]]
            raise InputError(
                f"{where}.{key}: node {twice[0]} is in the {other} split too ({len(twice)} such nodes); one is allowed."
            )
        split[mask] = part
    return split, True


def _numpy(value: Any) -> Array:
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
