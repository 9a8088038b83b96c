"""From PyG `Data` objects to a whole graph: those that published data sets are read into, and a user's own."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedgraft.contracts.values import Indices
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.edge_columns import ASKED_CARRIED
from fedgraft.domains.edge_data.graph_form import GraphForm
from fedgraft.domains.examples import check_ends
from fedgraft.domains.labels.class_notes import class_notes
from fedgraft.domains.labels.known import numbers_hint
from fedgraft.domains.nodes.base.shards import WholeGraph
from fedgraft.domains.nodes.reading.tables import edges_within
from fedgraft.domains.tables import pyg_objects as pyg
from fedgraft.domains.tables.columns import of_matrix
from fedgraft.domains.tables.own_tables import columns_of
from fedgraft.domains.tables.pyg_objects import READ_BY, cross_client_edges, reads_edges, table_of_edges, unread
from fedgraft.domains.tables.reader import read
from fedgraft.domains.tables.schema import Names
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array


def collection_of(
    data: Any,
    where: str,
    form: GraphForm | None = None,
    classes: tuple[str, ...] = (),
) -> Collection[WholeGraph]:
    """Return a PyG `Data` object with x, y, edge_index, and optionally `client` and the three masks, as one graph.

    `where` is what errors call it, and the name of the graph. `classes` are their names; none = the numbers of those
    that nodes have, ascending. The form says whether y is numbers (nan = unknown), not classes (-1 = unknown), and what
    edges carry; unless it names a label, neither y nor the masks are read. Of a user's own object, which has a form,
    features are `columns`, and the graph has none.
    """
    labelled, na_labels = form is None or bool(form.names["label"]), form.na_labels if form else ()
    for key in ("x", "y", "edge_index") if labelled else ("x", "edge_index"):
        if getattr(data, key, None) is None:
            raise InputError(f"{where} must be a torch_geometric.data.Data with x, y and edge_index; it has no {key}.")
    features = pyg.features_of(data.x, f"{where}.x")
    nodes = features.shape[0]
    columns = of_matrix(features, where) if form else None
    if not nodes:
        raise InputError(f"{where}: no nodes; at least one is needed.")
    label: Array
    if not labelled:
        label = np.full(nodes, -1, np.int64)
    elif form and form.are_numbers:
        label = _numbers(pyg.known_of(data.y, f"{where}.y", na_labels, np.nan), nodes, f"{where}.y")
    else:
        y = pyg.known_of(data.y, f"{where}.y", na_labels, -1)
        y = pyg.classes_of(y, nodes, f"{where}.y", numbers_hint("node"))
        label, classes = _classes(y, classes, where)
    ends = pyg.ends_of(data.edge_index, f"{where}.edge_index")
    carried, notes, edge = None, [], f"{where}.edge_index, edge"
    if form and form.reader:
        rows = read(table_of_edges(data, where, form.names), ASKED_CARRIED, form.names, "Nodes", where)
        check_ends(ends, nodes, edge, 0)
        carried, ends, notes = form.carried(rows), ends.astype(np.int64), [*rows.notes]
    edges = edges_within(ends, nodes, edge, carried)
    notes += edges.notes
    if form:
        notes += [*unread(data, where, form.names), *class_notes(label, classes, where, na_labels)]
    masks = {key: getattr(data, key, None) for key in pyg.MASKS} if labelled else {}
    split, is_split = pyg.split_of(masks, nodes, where)
    client, clients = pyg.clients_of(getattr(data, "client", None), nodes, where)
    whole = WholeGraph(
        name=where,
        ids=np.arange(nodes).astype(object),
        features=np.zeros((nodes, 0), np.float32) if form else features,
        label=label,
        classes=classes,
        split=split,
        pointers=edges.pointers,
        senders=edges.senders,
    )
    return Collection(
        whole, client, tuple(clients.tolist()), is_split, tuple(notes), columns=columns, edges=edges.carried
    )


def joined(objects: Mapping[Any, Any], where: str, names: Names) -> Any:
    """One object of several, {client: its `Data`}; it has `client`, and masks where all of them have.

    `names` say which attributes of edges it has, too.
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
    untold = {key: True for key in READ_BY if any(getattr(each, key, None) is not None for each in every)}
    masks: dict[str, list[Any]] = {key: [getattr(each, key, None) for each in every] for key in pyg.MASKS}
    first = np.cumsum([0, *sizes[:-1]])
    named = [(f"{where}[{client!r}]", each) for client, each in objects.items()]
    ends = [pyg.ends_of(each.edge_index, f"{name}.edge_index").astype(np.int64) for name, each in named]
    return SimpleNamespace(
        x=np.concatenate([pyg.numpy_of(each.x, f"{name}.x") for name, each in named]),
        y=np.concatenate([pyg.numpy_of(each.y, f"{name}.y").reshape(-1) for name, each in named]),
        edge_index=np.concatenate([own + start for own, start in zip(ends, first, strict=True)], axis=1),
        client=np.repeat(np.array([str(client) for client in objects], dtype=object), sizes),
        **{
            key: np.concatenate([pyg.numpy_of(mask, f"{where}.{key}") for mask in parts])
            for key, parts in masks.items()
            if all(mask is not None for mask in parts)
        },
        **{**untold, **(cross_client_edges(dict(named), names) if reads_edges(names) else {})},
    )


def tables_of(collection: Collection[WholeGraph], names: Names) -> dict[str, pd.DataFrame]:
    """{"nodes": ..., "edges": ...}, tables that say the same, with these names of columns; features by number."""
    whole, columns = collection.whole, collection.columns
    assert columns is not None, "a user's own object is read raw"
    named = pd.DataFrame({names["node"]: whole.ids, **columns_of(collection, names)})
    nodes = pd.concat([named, columns.frame().astype(np.float32)], axis=1)  # as the object has them
    receiver = np.repeat(np.arange(whole.nodes), whole.degree)
    once = receiver < whole.senders
    ends = {names["source"]: whole.ids[receiver[once]], names["target"]: whole.ids[whole.senders[once]]}
    return {"nodes": nodes, "edges": pd.DataFrame(ends)}


def _classes(label: Indices, classes: tuple[str, ...], where: str) -> tuple[Indices, tuple[str, ...]]:
    """Labels [nodes] that count the classes from 0, and names of these: as given, or what nodes have."""
    highest = int(label.max(initial=-1))
    if classes and highest >= len(classes):
        raise InputError(f"{where}.y must be below {len(classes)}, the number of classes; got {highest}.")
    return (label, classes) if classes else pyg.occurring(label)


def _numbers(y: Array, nodes: int, where: str) -> Array:
    """Numbers, float64 [nodes], nan = unknown."""
    if y.shape not in ((nodes,), (nodes, 1)) or y.dtype.kind not in "iuf":
        raise InputError(f"{where} must be one number per node, {[nodes]}; got {y.dtype} of {list(y.shape)}.")
    numbers = y.reshape(-1).astype(np.float64)
    if len(broken := np.flatnonzero(np.isinf(numbers))):
        raise InputError(f"{where} must be finite, or nan for none; got {numbers[broken[0]]} at node {broken[0]}.")
    if np.isnan(numbers).all():
        raise InputError(f"{where} is nan at every node; nodes to learn from need a number.")
    return numbers
