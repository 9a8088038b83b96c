"""Reads a user's own graphs from three tables (graphs, nodes, edges), with errors that name file, row and column.

A table is a CSV or Parquet file or a DataFrame. Ids, kinds and classes are kept as text, as written ("007" is not "7").
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedgraft.contracts.table_files import Given, table_of
from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.graphs.shards import GraphShard, check_graphs, tidy_edges, with_degrees
from fedgraft.domains.labels.known import classes_hint, numbers_hint
from fedgraft.domains.tables import (
    Source,
    as_numbers,
    check_classes,
    check_roles,
    encode,
    numbers,
    read_table,
    row_of,
    splits_of,
    unread,
)
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array

LOG = logging.getLogger("fedgraft.data")

SHOWN = 5
"""Names in a note before it breaks off."""


@dataclass(frozen=True)
class Columns:
    """Names of columns. `client`, `split` and `kind` may be missing in the tables unless they are renamed here.

    Args:
        graph: in all three tables, the graph's id.
        label: of graphs, the class or number; client: of graphs, who holds it.
        split: of graphs, "train", "validation" or "test".
        node: of nodes, its id within the graph; kind: of nodes, text or a whole number, a one-hot feature.
        attributes: of nodes, numeric columns; None = every other column.
        source: of edges, the id of one end; target: of the other.
    """

    graph: str = "graph"
    label: str = "label"
    client: str = "client"
    split: str = "split"
    node: str = "node"
    kind: str = "kind"
    attributes: tuple[str, ...] | None = None
    source: str = "source"
    target: str = "target"


@dataclass(frozen=True, eq=False)
class Collection:
    """The graphs of all clients together, before each client's own kinds, attributes and classes are made of them.

    Args:
        whole: all graphs; an attribute is nan at nodes of clients that do not have it.
        client: int64 [graphs]; client_names: one per client; none where the data name no clients.
        split: whether `whole.split` was given.
        notes: what was left out, for people to read.
    """

    whole: GraphShard
    client: Indices
    client_names: tuple[str, ...]
    split: bool
    notes: tuple[str, ...]


# --- tables -----------------------------------------------------------------------------------------------------------


def read_graphs(
    graphs: Given | None,
    nodes: Given,
    edges: Given,
    columns: Columns,
    owner: str,
    labelled: bool = True,
    are_numbers: bool = False,
) -> Collection:
    """Three tables as one collection.

    Args:
        graphs: None = the graphs that the nodes name, in that order, where they need no label.
        nodes: one row per node.
        edges: one row per edge, listed one way or both.
        columns: their names.
        owner: what errors call the parameters: "Graphs" for Graphs.nodes ...
        labelled: whether every graph needs a label; else labels, clients and splits are not read.
        are_numbers: whether labels are numbers, not classes.
    """
    _check_columns(columns, owner)
    node_table, node_source = _nodes(nodes, columns, owner)
    node_graph, named = encode(node_table, columns.graph, node_source)
    unlisted = pd.DataFrame({columns.graph: named[pd.unique(node_graph)]}), node_source
    table, source = unlisted if graphs is None else _graphs(graphs, columns, owner, labelled)
    code, ids = encode(table, columns.graph, source)
    _once(code, source, f"graph {{}} of column {columns.graph!r}", ids)
    row_of_id = np.argsort(code)
    node_graph = _found(node_graph, named, ids, row_of_id, node_source, columns.graph, source[0][0])
    node, node_names = encode(node_table, columns.node, node_source)
    key = node_graph * len(node_names) + node
    _once(key, node_source, f"node {{}} of its graph (column {columns.node!r})", node_names)
    order = np.argsort(node_graph, kind="stable")
    sizes = np.bincount(node_graph, minlength=len(ids))
    _none_empty(sizes, ids[code], source, node_source)
    attributes, attribute_names = _attributes(node_table, columns, node_source)
    kind, kind_names = _kinds(node_table, columns, node_source)
    ends = _ends(edges, columns, owner, (ids, row_of_id, source[0][0]), node_names, key[order], order)
    tidy, notes = tidy_edges(ends, sizes, f"{owner}.edges, row")
    notes = (*notes, *unread(edges, f"{owner}.edges", (columns.graph, columns.source, columns.target)))
    whole = GraphShard(
        name=source[0][0],
        sizes=sizes,
        edges=tidy,
        kind=kind[order].astype(np.int32),
        kinds=len(kind_names),
        attributes=attributes[order],
        label=np.full(len(ids), -1),
        classes=(),
        split=np.zeros(len(ids), np.int8),
        ids=ids[code].astype(object),
        kind_names=tuple(kind_names.tolist()),
        attribute_names=attribute_names,
    )
    if not labelled:
        return Collection(whole, np.zeros(len(ids), np.int64), (), False, notes)
    found = _with_labels(whole, notes, (table, source), columns, are_numbers)
    _one_width(found.whole, found.client, np.array(found.client_names), node_source, order)
    return found


def _check_columns(columns: Columns, owner: str) -> None:
    """Raise `InputError` where a column of one table is named twice."""
    for options in (("graph", "label", "client", "split"), ("graph", "node"), ("graph", "source", "target")):
        check_roles(owner, [(option, getattr(columns, option)) for option in options])
    check_roles(owner, [("attributes", column) for column in columns.attributes or ()])


def _with_labels(
    whole: GraphShard,
    notes: tuple[str, ...],
    graphs: tuple[pd.DataFrame, Source],
    columns: Columns,
    are_numbers: bool,
) -> Collection:
    """The graphs with what their own table says of them: labels, splits and clients."""
    table, source = graphs
    labels = _labels(table, columns, source, are_numbers)
    split = splits_of(table, columns.split, source) if columns.split in table else whole.split
    whole = replace(whole, label=labels.label, classes=labels.classes, split=split)
    return Collection(whole, labels.client, tuple(labels.clients.tolist()), columns.split in table, notes)


def _kinds(nodes: pd.DataFrame, columns: Columns, source: Source) -> tuple[Indices, Array]:
    """Kinds of nodes by number, int64 [nodes], -1 where there are none; and their names."""
    if columns.kind in nodes and columns.kind not in (columns.attributes or ()):
        return encode(nodes, columns.kind, source)
    return np.full(len(nodes), -1), np.array([], dtype=str)


def _none_empty(sizes: Indices, ids: Array, source: Source, node_source: Source) -> None:
    """Raise `InputError` for a graph without nodes; `sizes`, int64 [graphs], numbers of nodes; `ids`, names."""
    if len(empty := np.flatnonzero(sizes == 0)):
        raise InputError(
            f"{row_of(source, empty[0])}: graph {str(ids[empty[0]])!r} has no nodes in {node_source[0][0]}; "
            f"every graph needs one ({len(empty)} such graphs)."
        )


class _Labels(NamedTuple):
    """Labels of graphs, [graphs], and names of classes; clients of graphs, int64 [graphs], and their names."""

    label: Array
    classes: tuple[str, ...]
    client: Indices
    clients: Array


def _labels(table: pd.DataFrame, columns: Columns, source: Source, are_numbers: bool) -> _Labels:
    label: Array
    if are_numbers:
        label, classes = numbers(table, columns.label, source, classes_hint("graph")), np.array([], dtype=str)
    else:
        check_classes(table, columns.label, source, numbers_hint("graph"))
        label, classes = encode(table, columns.label, source)
    client, names = np.zeros(len(table), np.int64), np.array([], dtype=str)
    if columns.client in table:
        client, names = encode(table, columns.client, source)
    return _Labels(label, tuple(classes.tolist()), client, names)


def _graphs(graphs: Given, columns: Columns, owner: str, labelled: bool) -> tuple[pd.DataFrame, Source]:
    wanted = {f"{owner}.graph": columns.graph}
    optional = []
    if labelled:
        wanted[f"{owner}.label"] = columns.label
        for option in ("client", "split"):
            column = getattr(columns, option)
            if column == option:
                optional.append(column)
            else:
                wanted[f"{owner}.{option}"] = column
    return read_table(graphs, f"{owner}.graphs", wanted, optional)


def _nodes(nodes: Given, columns: Columns, owner: str) -> tuple[pd.DataFrame, Source]:
    wanted = {f"{owner}.graph": columns.graph, f"{owner}.node": columns.node}
    if columns.kind != "kind":
        wanted[f"{owner}.kind"] = columns.kind
    for column in columns.attributes or ():
        wanted[f"{owner}.attributes: {column}"] = column
    # Which columns there are is known once the file is read; it is read once.
    name = f"{owner}.nodes" if isinstance(nodes, pd.DataFrame) else str(nodes)
    table = table_of(nodes, f"{owner}.nodes")
    others = [str(column) for column in table.columns] if columns.attributes is None else ["kind"]
    return read_table(table, name, wanted, others)


def _found(
    codes: Indices, names: Array, ids: Array, row_of_id: Indices, source: Source, column: str, where: str
) -> Indices:
    """Rows of the table of graphs that `codes` into `names` stand for."""
    place = _places(ids, names)[codes]
    if (place < 0).any():
        row = int((place < 0).argmax())
        raise InputError(
            f"{row_of(source, row)}: {column!r} must be a graph of {where}; got {str(names[codes[row]])!r} "
            f"({int((place < 0).sum())} such rows)."
        )
    rows: Indices = row_of_id[place]
    return rows


def _ends(
    edges: Given,
    columns: Columns,
    owner: str,
    graphs: tuple[Array, Indices, str],
    node_names: Array,
    keys: Indices,
    order: Indices,
) -> Indices:
    """int64 [2, edges], node numbers over all graphs: positions among `keys`, which are graph x names + name."""
    wanted = {f"{owner}.{option}": getattr(columns, option) for option in ("graph", "source", "target")}
    table, source = read_table(edges, f"{owner}.edges", wanted, may_be_empty=True)
    if not len(table):
        return np.zeros((2, 0), np.int64)
    code, named = encode(table, columns.graph, source)
    ids, row_of_id, where = graphs
    graph = _found(code, named, ids, row_of_id, source, columns.graph, where)
    ascending = np.argsort(keys)
    ends = np.empty((2, len(table)), np.int64)
    for end, column in enumerate((columns.source, columns.target)):
        code, named = encode(table, column, source)
        name = _places(node_names, named)[code]
        place = np.minimum(np.searchsorted(keys[ascending], graph * len(node_names) + name), len(keys) - 1)
        ends[end] = ascending[place]
        missing = (name < 0) | (keys[ends[end]] != graph * len(node_names) + name)
        if missing.any():
            row = int(missing.argmax())
            there = "which is in other graphs only" if name[row] >= 0 else "which no graph has"
            raise InputError(
                f"{row_of(source, row)}: {column!r} must be a node of the row's graph, "
                f"{str(table[columns.graph].iloc[row])!r}; got {str(table[column].iloc[row])!r}, {there} "
                f"({int(missing.sum())} such rows)."
            )
    return ends


def _attributes(table: pd.DataFrame, columns: Columns, source: Source) -> tuple[Array, tuple[str, ...]]:
    """float32 [rows, attributes], nan where a field is empty, and their names."""
    names = columns.attributes
    if names is None:
        names = tuple(
            name for name in map(str, table.columns) if name not in (columns.graph, columns.node, columns.kind)
        )
    values = np.zeros((len(table), len(names)), np.float32)
    for place, name in enumerate(names):
        column = table[name]
        parsed = as_numbers(column)
        wrong = ~np.isfinite(parsed) & ~column.isna().to_numpy()
        if wrong.any():
            row = int(wrong.argmax())
            raise InputError(
                f"{row_of(source, row)}: {name!r} must be a finite number, as an attribute; got "
                f"{str(column.iloc[row])!r} ({int(wrong.sum())} such rows). A column of names is Graphs.kind; columns "
                "that are no features are left out by naming the others in Graphs.attributes."
            )
        values[:, place] = parsed
    return values, names


def _one_width(whole: GraphShard, client: Indices, names: Array, source: Source, order: Indices) -> None:
    """Raise `InputError` where some nodes of a client have an attribute and others do not."""
    owner = np.repeat(client, whole.sizes)
    for column, name in enumerate(whole.attribute_names):
        missing = np.isnan(whole.attributes[:, column])
        has = np.bincount(owner, ~missing) > 0
        if (wrong := missing & has[owner]).any():
            row = int(order[wrong].min())
            place = int(np.flatnonzero(order == row)[0])
            who = f" of client {str(names[owner[place]])!r}" if len(names) else ""
            raise InputError(
                f"{row_of(source, row)}: {name!r} is empty, but other nodes{who} have it ({int(wrong.sum())} such "
                "rows); all nodes of a client need features of one width."
            )


def _once(keys: Indices, source: Source, what: str, names: Array) -> None:
    """Raise `InputError` where a key is repeated; its name is that of the key modulo the number of names."""
    order = np.argsort(keys, kind="stable")
    again = order[1:][keys[order[1:]] == keys[order[:-1]]]
    if len(again):
        row = int(again.min())
        name = repr(str(names[keys[row] % len(names)]))
        raise InputError(f"{row_of(source, row)}: {what.format(name)} is listed twice ({len(again)} such rows).")


def _places(names: Array, wanted: Array) -> Indices:
    """Where each wanted name stands among the ascending names, -1 where it does not."""
    place = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return np.where(names[place] == wanted, place, -1)


# --- graphs to classify -----------------------------------------------------------------------------------------------


def read_queries(
    trained: GraphShard,
    nodes: Given,
    edges: Given,
    graphs: Given | None = None,
    columns: Columns | None = None,
    owner: str = "queries",
) -> GraphShard:
    """Graphs without labels, with the kinds, attributes and classes that a client was trained with.

    Kinds that it was not trained with count as none (-1), with a note; further columns are not read.

    Args:
        trained: that client's shard; its name is the result's.
        nodes: one row per node.
        edges: one row per edge, listed one way or both.
        graphs: which graphs, in which order; None = all that `nodes` names, in that order.
        columns: names of columns; the attributes are those of `trained`.
        owner: what errors call the parameters.

    Returns:
        The graphs with label -1, as a test split.
    """
    columns = replace(columns or Columns(), attributes=trained.attribute_names)
    collection = read_graphs(graphs, nodes, edges, columns, owner, labelled=False)
    whole, notes = collection.whole, list(collection.notes)
    where = f"{owner}.nodes" if isinstance(nodes, pd.DataFrame) else str(nodes)
    check_graphs(whole, where)
    if whole.attributes.shape[1] != trained.attributes.shape[1]:
        raise InputError(f"{owner}: the attributes of client {trained.name!r} have no names to find columns by.")
    if trained.degrees:
        whole = with_degrees(whole, trained.kinds)
        if count := int((whole.kind < 0).sum()):
            notes.append(f"{count:,} nodes have over {trained.kinds - 1} neighbours, unseen in training: of no kind.")
    elif trained.kinds:
        if not whole.kinds:
            raise InputError(
                f"{where}: no column {columns.kind!r} ({owner}.kind); client {trained.name!r} was trained with kinds "
                f"{_some(trained.kind_names)}."
            )
        known = {name: place for place, name in enumerate(trained.kind_names)}
        new = [name for name in whole.kind_names if name not in known]
        kind = np.array([known.get(name, -1) for name in whole.kind_names], np.int32)[whole.kind]
        whole = replace(whole, kind=kind, kinds=trained.kinds, kind_names=trained.kind_names)
        if new:
            count = int((kind < 0).sum())
            notes.append(f"{count:,} nodes of kinds unseen in training ({_some(new)}) count as of no kind.")
    else:
        whole = replace(whole, kind=np.full_like(whole.kind, -1), kinds=0, kind_names=())
    for note in notes:
        LOG.warning(note)
    split = np.full(whole.graphs, SPLITS.index("test"), np.int8)
    return replace(whole, name=trained.name, classes=trained.classes, split=split)


def _some(names: Sequence[str]) -> str:
    return ", ".join([*map(repr, names[:SHOWN]), *(["..."] if len(names) > SHOWN else [])])
