"""Reads a user's own graphs from three tables (graphs, nodes, edges), with errors that name file, row and column.

A table is a CSV or Parquet file or a DataFrame. Ids, kinds and classes are kept as text, as written ("007" is not "7").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.values import SPLITS, Indices, Questions
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.edge_columns import (
    DIRECTED,
    EDGE_COLUMNS,
    LEFT_OUT,
    NO_COLUMNS,
    CarriedRows,
    EdgeReader,
    StoredEdges,
    Values,
    each_both_ways,
    stored,
)
from fedgraft.domains.graphs.shards import Edges, GraphShard, check_graphs, check_inside, tidy_edges, with_degrees
from fedgraft.domains.labels.class_notes import class_notes
from fedgraft.domains.labels.known import classes_hint, is_known, numbers_hint
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.columns import ColumnReader, some
from fedgraft.domains.tables.labels import check_among, class_codes, without
from fedgraft.domains.tables.reader import OWNER, read
from fedgraft.domains.tables.rows import Rows, arranged, as_numbers, ascending, places_of
from fedgraft.domains.tables.schema import Column, Names, Table
from fedgraft.domains.tables.transforms import Transforms
from fedgraft.errors import InputError
from fedgraft.errors import unknown as unlike
from fedgraft.nn.sparse import ranges
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Array

GRAPHS = Table(
    "graphs",
    (Column("graph"), Column("label", "class"), Column("client", needed=False), Column("split", "split", needed=False)),
)
NODES = Table(
    "nodes", (Column("graph"), Column("node"), Column("kind", needed=False), Column("attributes", "features"))
)
ENDS = (Column("graph"), Column("source"), Column("target"))
EDGES = Table("edges", (*ENDS, *EDGE_COLUMNS), may_be_empty=True)
ASKED = tuple(Table(table.name, (*GRAPHS.columns, *NODES.columns, *ENDS)) for table in (GRAPHS, NODES, EDGES))
"""Questions; columns are known whichever table they stand in."""


def names_of() -> Names:
    """Return the usual names of the columns of all three tables, whose edges carry nothing."""
    return GRAPHS.names() | NODES.names() | EDGES.names(**NO_COLUMNS)


def read_graphs(
    tables: Mapping[str, Given],
    names: Names,
    owner: str,
    labelled: bool = True,
    are_numbers: bool = False,
    columns_of: ColumnReader | None = None,
    na_labels: Sequence[str] = (),
    known_classes: Sequence[str] = (),
    carried: EdgeReader | None = None,
) -> Collection[GraphShard]:
    """Three tables as one collection; an attribute is nan at nodes of clients that do not have it.

    With `columns_of`, which reads columns of attributes, these are `columns`, and the graphs have none.

    They are "nodes"; "edges", listed one way or both; and "graphs", where every graph needs a label; graphs, and their
    nodes, are then in the order of their ids. If it needs none, labels, clients and splits are not read, and without
    that table the graphs are those that the nodes name, in that order. Errors call the tables
    by `owner`: "Graphs" for Graphs.nodes ... Labels are classes, all of them `known_classes` where these are said, or
    numbers; graphs whose labels are `na_labels` are left out. `carried` reads edges as `columns_of` attributes.
    """
    for table, roles in ((GRAPHS, None), (NODES, ("graph", "node")), (EDGES, None), (NODES, ("attributes",))):
        table.check(owner, names, roles)
    nodes = read(tables["nodes"], NODES, names, owner)
    graphs = _graph_rows(tables, nodes, names, owner, labelled)
    code, ids = graphs.read("graph")
    graphs.check_once(code, ids, "graph", f" of column {names['graph']!r}")
    ids = ids[code]
    graph = _graph_of(nodes, ids, graphs.where)
    node, node_names = nodes.read("node")
    keys = graph * len(node_names) + node
    nodes.check_once(keys, node_names, "node", f" of its graph (column {names['node']!r})")
    rank = arranged(np.arange(len(node_names)), node_names)[1][node]
    sizes, order = np.bincount(graph, minlength=len(ids)), np.lexsort((rank, graph))
    _check_nodes(graphs, ids, sizes, nodes.where)
    columns = None if columns_of is None else columns_of(nodes, _attribute_names(nodes)).take(order)
    attributes, attribute_names = _attributes(nodes) if columns is None else (np.zeros((len(nodes), 0), np.float32), ())
    kind, kind_names = _kinds(nodes)
    edges = _edge_table(tables["edges"], names, owner, carried)
    ends = _ends(edges, ids, graphs.where, node_names, keys[order])
    tidy, stored, notes = _stored(edges, ends, sizes, carried, owner)
    whole = GraphShard(
        name=graphs.where,
        sizes=sizes,
        edges=tidy,
        kind=kind[order].astype(np.int32),
        kinds=len(kind_names),
        attributes=attributes[order],
        label=np.full(len(ids), -1),
        classes=(),
        split=np.zeros(len(ids), np.int8),
        ids=ids.astype(object),
        kind_names=tuple(kind_names.tolist()),
        attribute_names=attribute_names,
    )
    told = (*nodes.notes, *notes, *edges.notes)
    collection = Collection(whole, np.zeros(len(ids), np.int64), (), False, told, columns=columns, edges=stored)
    labels = are_numbers, na_labels, known_classes
    return _arranged(_with_labels(collection, graphs, *labels)) if labelled else collection


def _graph_rows(tables: Mapping[str, Given], nodes: Rows, names: Names, owner: str, labelled: bool) -> Rows:
    """One row for each graph, of its own table, else of nodes."""
    if "graphs" in tables:
        return read(tables["graphs"], GRAPHS, names, owner, only=None if labelled else ("graph",))
    return nodes.take(np.sort(np.unique(nodes.read("graph")[0], return_index=True)[1]))


def _edge_table(given: Given, names: Names, owner: str, carried: EdgeReader | None) -> Rows:
    """Return the rows of edges, without those that a data set has left out of questions."""
    if not (isinstance(carried, QueryReader) and carried.made):
        return read(given, EDGES, names, owner)
    rows = read(given, replace(EDGES, rest=True), names, owner)
    return rows.take(np.flatnonzero(~rows.frame[LEFT_OUT].to_numpy(bool)))


def _stored(
    edges: Rows, ends: Indices, sizes: Indices, carried: EdgeReader | None, owner: str
) -> tuple[Edges, StoredEdges | None, tuple[str, ...]]:
    """(edges as a shard holds them, what they carry, notes) of rows with these ends, int64 [2, rows]."""
    where = f"{owner}.edges, row"
    if carried:
        return carried_edges(ends, sizes, carried.read(edges, owner), carried, where)
    tidy, notes = tidy_edges(ends, sizes, where)
    return tidy, None, notes


def _check_nodes(graphs: Rows, ids: Array, sizes: Indices, where: str) -> None:
    """Raise `InputError` for a graph without nodes in their table, `where`."""
    if (empty := sizes == 0).any():
        what = f"graph {str(ids[empty.argmax()])!r} has no nodes in {where}; every graph needs one"
        raise graphs.error(empty, what, noun="graphs")


def _arranged(collection: Collection[GraphShard]) -> Collection[GraphShard]:
    """The graphs in the order of their ids; those without a label are left out, with a note."""
    whole = collection.whole
    order = ascending(whole.ids)
    kept = order[is_known(whole.label)[order]]
    lost = whole.graphs - len(kept)
    notes = (*collection.notes, *([f"{lost:,} graphs of unknown label left out."] if lost else []))
    columns, edges = collection.columns, collection.edges
    if (np.diff(kept) != 1).any() or lost:
        nodes, starts = ranges(whole.node_starts[kept], whole.sizes[kept]), whole.edge_starts
        edges = None if edges is None else edges.take(ranges(starts[kept], starts[kept + 1] - starts[kept]))
        whole, columns = whole.take(kept), None if columns is None else columns.take(nodes)
    return replace(collection, whole=whole, client=collection.client[kept], notes=notes, columns=columns, edges=edges)


def _with_labels(
    collection: Collection[GraphShard],
    graphs: Rows,
    are_numbers: bool,
    na_labels: Sequence[str],
    known_classes: Sequence[str],
) -> Collection[GraphShard]:
    """The graphs with what their own table says of them: labels, splits and clients."""
    every, classes = graphs["label"], np.array([], dtype=str)
    known = np.flatnonzero(every.values.isna() | without(every, na_labels).values.notna())
    if not len(known):
        raise InputError(f"{every.where}: every {every.name!r} is unknown (data.na_labels); graphs need a label.")
    cells, label = every.take(known), np.full(len(every), np.nan if are_numbers else -1)
    if are_numbers:
        label[known] = cells.numbers(classes_hint("graph"))
    else:
        cells.check_classes(numbers_hint("graph"))
        code, classes = class_codes(cells)
        if known_classes:
            check_among(cells, code, classes.tolist(), known_classes, known_classes)
        label = label.astype(np.int64)
        label[known] = code
        told = class_notes(label, classes.tolist(), graphs.where, na_labels)
        collection = replace(collection, notes=(*collection.notes, *told))
    client, clients = graphs.clients() or (collection.client, np.array([], dtype=str))
    split = collection.whole.split if "split" not in graphs else graphs.read("split")
    whole = replace(collection.whole, label=label, classes=tuple(classes.tolist()), split=split)
    named, notes = tuple(clients.tolist()), (*graphs.notes, *collection.notes)
    kept = {"columns": collection.columns, "edges": collection.edges}
    return Collection(whole, client, named, "split" in graphs, notes, **kept)


def _kinds(nodes: Rows) -> tuple[Indices, Array]:
    """Kinds of nodes by number, int64 [nodes], -1 where there are none; and their names."""
    if "kind" in nodes and nodes.names["kind"] not in (nodes.names["attributes"] or ()):
        kinds: tuple[Indices, Array] = nodes.read("kind")
        return kinds
    return np.full(len(nodes), -1), np.array([], dtype=str)


def _graph_of(rows: Rows, ids: Array, where: str) -> Indices:
    """Return which of the graphs each row is of, int64 [rows]; `where` is their table."""
    cells = rows["graph"]
    graph = cells.among(ids)
    if (lost := graph < 0).any():
        raise cells.error(lost, f"a graph of {where}", repr(str(cells.texts()[lost.argmax()])))
    return graph


def _ends(edges: Rows, ids: Array, where: str, node_names: Array, keys: Indices) -> Indices:
    """int64 [2, edges], node numbers over all graphs: positions among `keys`, which are graph x names + name."""
    graph, ends = _graph_of(edges, ids, where), []
    for cells in (edges["source"], edges["target"]):
        name = cells.among(node_names)
        ends.append(np.where(name < 0, -1, places_of(keys, graph * len(node_names) + name)))
        if (missing := ends[-1] < 0).any():
            row = int(missing.argmax())
            there = "which is in other graphs only" if name[row] >= 0 else "which no graph has"
            must = f"a node of the row's graph, {edges['graph'].text(row)!r}"
            raise cells.error(missing, must, f"{cells.text(row)!r}, {there}")
    return np.stack(ends)


def _attribute_names(nodes: Rows) -> tuple[str, ...]:
    if (names := nodes.names["attributes"]) is not None:
        return tuple(names)
    others = {nodes.names[role] for role in ("graph", "node", "kind")}
    return tuple(name for name in nodes if name not in others)


def _attributes(nodes: Rows) -> tuple[Array, tuple[str, ...]]:
    """float32 [rows, attributes], nan where a field is empty, and their names."""
    names = _attribute_names(nodes)
    values = np.zeros((len(nodes), len(names)), np.float32)
    for place, name in enumerate(names):
        cells = nodes.column(name)
        parsed = as_numbers(cells.values)
        wrong = ~np.isfinite(parsed) & ~cells.values.isna().to_numpy()
        if wrong.any():
            hint = (
                " A column of names is Graphs.kind; columns that are no features are left out by naming the others in "
                "Graphs.attributes."
            )
            raise cells.error(wrong, "a finite number, as an attribute", hint=hint)
        values[:, place] = parsed
    return values, names


# --- graphs to classify -----------------------------------------------------------------------------------------------


def read_queries(
    trained: GraphShard, tables: Mapping[str, Given], names: Names | None = None, owner: str = "queries"
) -> GraphShard:
    """Return graphs to classify, a test split, with the kinds, attributes and classes of a client's training.

    Kinds that it was not trained with count as none (-1), with a note; further columns are not read. The result has the
    name of the client's shard. A table "graphs" says the order. Without `names`, columns have the usual ones.
    """
    carried, reader = asked_reader(trained, tables["edges"], owner)
    names = {**(names or names_of()), "attributes": trained.attribute_names, **carried}
    collection = read_graphs(tables, names, owner, labelled=False, carried=reader)
    whole, notes = collection.whole, list(collection.notes)
    if reader and (edges := collection.edges) is not None:
        rows = edges.edge_rows(reader.make(edges.carried))
        whole = replace(whole, edge_rows=rows, edge_names=trained.edge_names)
    where = f"{owner}.nodes" if isinstance(tables["nodes"], pd.DataFrame) else str(tables["nodes"])
    check_graphs(whole, where)
    if whole.attributes.shape[1] != trained.attributes.shape[1]:
        raise InputError(f"{owner}: the attributes of client {trained.name!r} have no names to find columns by.")
    if trained.degrees:
        whole = with_degrees(whole, trained.kinds)
        if count := int((whole.kind < 0).sum()):
            notes.append(f"{count:,} nodes have over {trained.kinds - 1} neighbours, unseen in training: of no kind.")
    elif not trained.kinds:
        whole = replace(whole, kind=np.full_like(whole.kind, -1), kinds=0, kind_names=())
    elif whole.kinds:
        new = [name for name in whole.kind_names if name not in trained.kind_names]
        place = [-1 if name in new else trained.kind_names.index(name) for name in whole.kind_names]
        kind = np.array(place, np.int32)[whole.kind]
        whole = replace(whole, kind=kind, kinds=trained.kinds, kind_names=trained.kind_names)
        if new:
            count = int((kind < 0).sum())
            notes.append(f"{count:,} nodes of kinds unseen in training ({some(new)}) count as of no kind.")
    else:
        raise InputError(
            f"{where}: no column {names['kind']!r} ({owner}.kind); client {trained.name!r} was trained with kinds "
            f"{some(trained.kind_names)}."
        )
    tell(notes)
    split = np.full(whole.graphs, SPLITS.index("test"), np.int8)
    return replace(whole, name=trained.name, classes=trained.classes, split=split)


def split_graphs(shards: Sequence[GraphShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
    """{client: its graphs}, of tables "nodes", "edges" and, where there is one, "graphs".

    Raises `InputError` for what is missing, and for graphs of no known client.
    """
    for name in ("nodes", "edges"):
        if name not in tables:
            raise InputError(f"{OWNER}: a table of {name} is needed, one row each; give --{name}.")
    for name, table in tables.items():
        if "graph" not in table:
            raise InputError(f"{OWNER}.{name}: no column 'graph'; got {', '.join(map(str, table)) or 'none'}.")
    graphs = tables.get("graphs", tables["nodes"].drop_duplicates("graph"))
    client = _clients(shards, graphs)
    questions = {}
    for number in np.unique(client).tolist():
        rows = np.flatnonzero(client == number)
        wanted = graphs["graph"].iloc[rows].astype(str)
        parts = {name: tables[name] for name in ("nodes", "edges")}
        own = {name: table[table["graph"].astype(str).isin(wanted)] for name, table in parts.items()}
        own["graphs"] = graphs.iloc[rows].drop(columns="client", errors="ignore")
        questions[number] = Questions(rows, read_queries(shards[number], own))
    return questions


def _clients(shards: Sequence[GraphShard], graphs: pd.DataFrame) -> np.ndarray:
    names = [shard.name for shard in shards]
    if "client" not in graphs:
        if len(shards) > 1:
            raise InputError(
                f"{OWNER}: whose graphs are these? Give --client, or a column 'client' of the graphs, with one of "
                f"{', '.join(names)}."
            )
        return np.zeros(len(graphs), np.int64)
    for name in graphs["client"].astype(str).unique():
        if name not in names:
            raise unlike("client", name, names)
    return np.array([names.index(name) for name in graphs["client"].astype(str)], np.int64)


# --- asked edges ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryReader(EdgeReader):
    """Reads edges of questions; `made`: a data set has made columns "0", "1" ... of them, and has left rows out."""

    made: bool = False


def asked_reader(trained: GraphShard, edges: Given, owner: str) -> tuple[Names, QueryReader | None]:
    """({role: name} of columns that edges must have, how they are read), as those of a client's training carry it.

    Of a data set that makes nothing of tables columns have the names of the shard's: where these are of the form
    "NAME=VALUE" the column NAME has the values as text. `owner` is what notes call the table.
    """
    if (rows := trained.edge_rows) is None:
        return {}, None
    made, directed = False, not rows.along.all()
    if isinstance(edges, pd.DataFrame) and LEFT_OUT in edges:
        made, directed = True, bool(edges[DIRECTED].any())
    values: dict[str, list[str]] = {}
    for name in () if made else trained.edge_names:
        column, is_text, value = name.partition("=")
        values.setdefault(column, []).extend([value] * bool(is_text))
    texts = {column: {"values": each} for column, each in values.items() if each}
    columns = tuple(values) or tuple(map(str, range(rows.width)))
    names = {**NO_COLUMNS, "edge_features": columns, "weight": "weight" * (rows.weight is not None)}
    make = partial(_values, transforms=Transforms(texts), where=f"{owner}.edges: ")
    return names, QueryReader(make, directed, "keep" if made else "last", tuple(texts), made=made)


def _values(carried: CarriedRows, transforms: Transforms, where: str) -> Values:
    """What a model reads of rows, float32 [edges, width]; a note says which values training had not."""
    for name, texts in carried.columns.texts.items():
        known = transforms.by_name[name]["values"]
        told = ["nothing" if text is None else text for text in texts]
        if new := sorted({*told} - {*known}):
            count = sum(text in new for text in told)
            tell([f"{where}{count:,} edges whose {name!r} is unseen in training ({some(new)}) count as of none."])
    return np.asarray(transforms.dense(carried.columns), np.float32)


# --- carried edges ----------------------------------------------------------------------------------------------------


def carried_edges(
    ends: Indices, sizes: Indices, carried: CarriedRows, reader: EdgeReader, where: str, base: int = 0
) -> tuple[Edges, StoredEdges, tuple[str, ...]]:
    """Return edges as a `GraphShard` holds them, what they carry, and a note for each kind of row that is no edge.

    An undirected edge may be listed one way or both: listed both ways it has each way what its row there says, so that
    it is one edge. Several rows of one direction are several edges, or what `reader.duplicate_edges` makes of them. The
    other arguments are as of `tidy_edges`.
    """
    check_inside(ends, sizes, where, base)
    rows, carried, notes = replace(reader, directed=True).chosen(ends, carried)
    ends, nodes = ends[:, rows], int(sizes.sum())
    ways = each_both_ways(ends, True) if reader.directed else _each_way(ends, nodes)
    pointers, senders, kept = stored(nodes, *ways, carried)
    receivers = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(pointers))
    return np.stack([receivers, senders]), kept, tuple(notes)


def _each_way(ends: Indices, nodes: int) -> tuple[Indices, Indices, Indices, NDArray[np.bool_]]:
    """(receiver, sender, row, along) of undirected edges, all [stored]: those listed one way alone go back, too."""
    alone = np.flatnonzero(~np.isin(ends[1] * nodes + ends[0], ends[0] * nodes + ends[1]))
    receiver, sender = np.concatenate([ends[1], ends[0, alone]]), np.concatenate([ends[0], ends[1, alone]])
    row = np.concatenate([np.arange(ends.shape[1]), alone])
    return receiver, sender, row, np.ones(len(row), bool)
