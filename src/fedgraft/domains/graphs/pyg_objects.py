"""Turns PyG `Data` objects into the three tables of a user's own graphs: one way in, and one that a run can store."""

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from fedgraft.domains.edge_data.edge_columns import NO_COLUMNS
from fedgraft.domains.labels.known import numbers_hint
from fedgraft.domains.notes import LOG
from fedgraft.domains.tables.pyg_objects import READ_BY, VALUES, columns_of_edges, numpy_of, rows_of
from fedgraft.domains.tables.schema import ALL_OTHERS, Names
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array


def tables_of(
    graphs: Sequence[Any] | Mapping[str, Sequence[Any]],
    parameter: str,
    are_numbers: bool = False,
    carried: bool | Names = False,
) -> dict[str, pd.DataFrame]:
    """{"graphs", "nodes", "edges"}: the tables of PyG `Data` objects (x, edge_index, y, client), ids counted from 0.

    They are in a list, where each may say its `client`, or in {client: list}. `y` may be missing, for prediction.
    `carried` says which attributes of edges are read, by names of columns; true = all that are there.
    """
    listed = _listed(graphs, parameter)
    names = {"source": "source", "target": "target", **_edge_names(carried, [graph for _, _, graph in listed])}
    rows: list[dict[str, object]] = []
    features, edges = [], []
    widths: dict[str | None, tuple[int, str]] = {}
    for where, client, graph in listed:
        if (client is None) != (listed[0][1] is None):
            raise InputError(f"{where}: all graphs must say their client, or none; this one and the first differ.")
        x = _features(graph, where)
        width, first = widths.setdefault(client, (x.shape[1], where))
        if x.shape[1] != width:
            raise InputError(
                f"{where}.x has {x.shape[1]} features where {first}.x has {width}; "
                "all graphs of a client need features of one width."
            )
        holder = {} if client is None else {"client": client}
        rows.append({"graph": len(rows), **_label(graph, where, are_numbers), **holder})
        features.append(x)
        edges.append(_edges(graph, len(x), where, names))
        if {*edges[-1]} != {*edges[0]}:
            raise InputError(
                f"{where}: all graphs need edge_attr of one width, or none; this one and the first differ."
            )
    read = {names["weight"], names["time"], VALUES if names["edge_features"] != () else ""}
    for key in [key for key in READ_BY if key not in read]:
        if any(getattr(graph, key, None) is not None for _, _, graph in listed):
            LOG.warning(f"{parameter}: {key} of its objects is not read; {READ_BY[key]} would.")
    sizes = [len(x) for x in features]
    number = np.arange(len(rows))
    # A client of narrower features has none of the further columns: they stay empty at all of its nodes.
    most = max(width for width, _ in widths.values())
    padded = [np.pad(x, ((0, 0), (0, most - x.shape[1])), constant_values=np.nan) for x in features]
    nodes = pd.DataFrame(np.concatenate(padded), columns=[f"x{column}" for column in range(most)])
    nodes.insert(0, "graph", np.repeat(number, sizes))
    nodes.insert(1, "node", np.concatenate([np.arange(size) for size in sizes]))
    of = np.repeat(number, [len(own["source"]) for own in edges])
    joined = pd.DataFrame({"graph": of, **{key: np.concatenate([own[key] for own in edges]) for key in edges[0]}})
    return {"graphs": pd.DataFrame(rows), "nodes": nodes, "edges": joined}


def _listed(graphs: Sequence[Any] | Mapping[str, Sequence[Any]], parameter: str) -> list[tuple[str, str | None, Any]]:
    """(what errors call it, client, graph) of every graph."""
    listed: list[tuple[str, str | None, Any]] = []
    keyed: list[tuple[str, str | None, Any]] = [("", None, graphs)]
    if isinstance(graphs, Mapping):
        keyed = [(f"[{key!r}]", str(key), own) for key, own in graphs.items()]
    for key, named, own in keyed:
        if not isinstance(own, Iterable):
            raise InputError(f"{parameter}{key} must be a list of torch_geometric.data.Data; got {type(own).__name__}.")
        for place, graph in enumerate(own):
            client = getattr(graph, "client", None) if named is None else named
            where = f"{parameter}{key}[{place}]"
            if not hasattr(graph, "edge_index"):
                raise InputError(f"{where} must be a torch_geometric.data.Data; got {type(graph).__name__}.")
            listed.append((where, None if client is None else str(client), graph))
    if not listed:
        raise InputError(f"{parameter}: no graphs; at least one is needed.")
    return listed


def _features(graph: Any, where: str) -> Array:
    values = np.zeros((int(graph.num_nodes or 0), 0)) if graph.x is None else numpy_of(graph.x, f"{where}.x")
    x: Array = rows_of(values, f"{where}.x").astype(np.float64)
    if not np.isfinite(x).all():
        raise InputError(f"{where}.x must hold finite numbers; it does not.")
    return x


def _edge_names(carried: bool | Names, graphs: Sequence[Any]) -> Names:
    """Return {role: name} of what is read of edges."""
    if not isinstance(carried, bool):
        return {role: carried[role] for role in NO_COLUMNS}
    there = {key for key in READ_BY if carried and any(getattr(each, key, None) is not None for each in graphs)}
    found = {role: key * (key in there) for role, key in (("weight", "edge_weight"), ("time", "edge_time"))}
    return {"edge_features": ALL_OTHERS if VALUES in there else (), **found}


def _edges(graph: Any, nodes: int, where: str, names: Names) -> dict[str, Array]:
    """Return the edges of a graph, with what is read of them."""
    read = ["edge_index", names["weight"], names["time"], VALUES if names["edge_features"] != () else ""]
    given = SimpleNamespace(**{key: getattr(graph, key, None) for key in read if key})
    columns = columns_of_edges(given, where, names, "Graphs")
    ends = np.stack([columns["source"], columns["target"]])
    if ends.size and not 0 <= ends.min() <= ends.max() < nodes:
        got = f"{ends.min()}..{ends.max()}"
        raise InputError(f"{where}.edge_index must hold nodes of the graph, 0..{nodes - 1}; got {got}.")
    return columns


def _label(graph: Any, where: str, is_number: bool) -> dict[str, object]:
    if getattr(graph, "y", None) is None:
        return {}
    y = numpy_of(graph.y, f"{where}.y")
    one = y.size == 1 and y.dtype.kind in "iuf" and np.isfinite(y).all()
    if is_number:
        if not one:
            raise InputError(f"{where}.y must be one finite number; got {y.tolist()!r}.")
        return {"label": float(y.item())}
    if not one or float(y.item()) % 1:
        hint = numbers_hint("graph") if one else ""
        raise InputError(f"{where}.y must be one whole number, the class; got {y.tolist()!r}.{hint}")
    return {"label": int(y.item())}
