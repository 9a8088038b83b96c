"""Reads a graph from a table of nodes and one of edges: that of all clients, or one client's own part of it.

Ids and classes are kept as text, as written ("007" is not "7").
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Collection_
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.data import ANSWER, ClientTables, Purpose
from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.border_columns import AUTO, ENDS, SIDE_COLUMNS, Borders, owners_said
from fedgraft.domains.edge_data.edge_columns import (
    ASKED_CARRIED,
    EDGE_COLUMNS,
    NO_COLUMNS,
    EdgeReader,
    StoredEdges,
    each_both_ways,
    stored,
)
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.examples import Features
from fedgraft.domains.labels.class_notes import class_notes
from fedgraft.domains.labels.known import numbers_hint
from fedgraft.domains.nodes.base.shards import NodeShard, WholeGraph, undirected
from fedgraft.domains.nodes.reading.copies import SHARED_WITH, Copies, Sharing
from fedgraft.domains.nodes.reading.joined_tables import Joined, joined
from fedgraft.domains.notes import LOG, tell
from fedgraft.domains.tables.columns import ColumnReader, read_columns
from fedgraft.domains.tables.features import known_features
from fedgraft.domains.tables.labels import (
    names_of_classes,
    read_classes,
    read_numbers,
    read_split,
)
from fedgraft.domains.tables.reader import named_once, read
from fedgraft.domains.tables.rows import Coded, Rows, ascending
from fedgraft.domains.tables.schema import ALL_OTHERS, Column, Names, Table, form_of
from fedgraft.errors import InputError
from fedgraft.errors import unknown as unlike
from fedgraft.tables.table_files import Given, columns_of, files_of, header, is_address, is_folder, shown
from fedgraft.wire.layouts import Array

NODES = Table(
    "nodes",
    (
        Column("node"),
        Column("label", "class", silent=True),
        Column("client", needed=False),
        Column("split", "split", needed=False),
        Column(SHARED_WITH, needed=False, silent=True),
        Column("features", "features"),
    ),
    folder="parts",
)
"""One row per node: its id, its class or number, who holds it, its split, who else has it, and its features."""
EDGES = Table(
    "edges",
    (Column("source"), Column("target"), *SIDE_COLUMNS, *EDGE_COLUMNS),
    may_be_empty=True,
    folder="parts",
)
"""One row per edge, listed one way or both, by the ids of its ends; perhaps whose these are, and what it carries."""
ASKED_NODES = Table("nodes", (Column("node"), Column("client", needed=False)), rest=True)
ASKED_PAIRS = Table("pairs", (Column("source"), Column("target"), Column("client", needed=False)))
OWN_EDGE_ENDS = replace(EDGES, columns=EDGES.columns[:2], folder="")
ASKED_EDGES = replace(EDGES, columns=EDGES.columns[:4], folder="")
ASKED = (ASKED_NODES, ASKED_EDGES, ASKED_PAIRS)
"""Tables of questions."""


def no_features(names: Names) -> tuple[str, ...]:
    """Return columns of nodes that are no features unless they are named; "label" also where no classes are read."""
    known = names["node"], names["label"] or "label", names["client"], names["split"]
    return (*known, names[SHARED_WITH]) if names[SHARED_WITH] else known


# --- the graph of all clients -----------------------------------------------------------------------------------------


def read_nodes(
    nodes: Given,
    edges: Given,
    names: Names,
    owner: str,
    are_numbers: bool = False,
    read_features: ColumnReader = read_columns,
    unknown: Sequence[str] = (),
    by_ids: bool = True,
    borders: Borders = "",
    is_private: bool = False,
    carried: EdgeReader | None = None,
    sharing: Sharing = "",
) -> Collection[WholeGraph]:
    """Return two tables as one graph, its nodes in the order of their ids, or of rows unless `by_ids`.

    `nodes` has a row per node; a folder holds one file per client, named after it. `edges` has a row per edge, listed
    one way or both; of a folder all files are read. `owner` is what errors call the parameters: "Nodes" for Nodes.nodes
    ... Labels are numbers or classes, those `unknown` as empty. `read_features` reads columns of features. With
    `borders`, joined as `is_private` says, clients may have ids alike, and nodes in common as `sharing` says; what two
    would not join is not joined. `carried` says how edges are read that carry something, which the graph lacks yet.
    """
    rows = read(nodes, NODES, names, owner)
    if rows.files and "client" in rows:
        why = f"names clients, but each file of the folder {nodes} is one."
        raise InputError(f"{rows.where}: column {names['client']!r} {why}")
    code, ids = rows["node"].codes()
    links = read(edges, EDGES, names, owner)
    client, clients = _clients(rows, links, code, ids, borders, owner)
    rows.check_once(code + client * len(ids) * bool(borders), ids, "node", f" of column {names['node']!r}")
    order = _arranged(client, code, ids) if by_ids else np.arange(len(rows))
    label, classes = _labels(rows, are_numbers, unknown)
    split, is_split = _split(rows, label)
    where = f"{owner}.nodes" if isinstance(nodes, pd.DataFrame) else shown(nodes)
    between = None
    if borders:
        how = clients.tolist(), is_private, carried, Copies.of(sharing, rows.take(order))
        between = joined(links, borders == AUTO, client[order], code[order], ids, *how)
        ends = between.ends
    else:
        ends = np.stack([links[role].among(ids, f"a node of {where}") for role in ENDS])
        ends = np.argsort(code[order])[ends]
    pointers, senders, kept, notes = _arranged_edges(links, ends, len(rows), between, carried, owner)
    whole = WholeGraph(
        name=where,
        ids=ids[code[order]].astype(object),
        features=np.zeros((len(rows), 0), np.float32),
        label=label[order],
        classes=classes,
        split=split[order],
        pointers=pointers,
        senders=senders,
    )
    columns = read_features(rows, feature_names(rows, owner)).take(order)
    between_notes = between.notes if between else ()
    told = (*rows.notes, *notes, *links.notes, *class_notes(label, classes, where, unknown), *between_notes)
    more: dict[str, Any] = {"columns": columns, "edges": kept, "matching": between.matching if between else {}}
    return Collection(whole, client[order], tuple(clients.tolist()), is_split, told, **more)


def _clients(rows: Rows, links: Rows, code: Indices, ids: Array, borders: Borders, owner: str) -> Coded:
    """Return the client of each node and the names of all; none where nobody says it, which `borders` need."""
    said = rows.clients() or (owners_said(links, rows, code, ids) if borders == "columns" else None)
    if borders and not said:
        option = f"{owner}.client), which {owner}.source_client and {owner}.target_client need"
        raise InputError(f"{rows.where} names no clients ({option}.")
    return said or (np.zeros(len(rows), np.int64), np.array([], str))


def _arranged_edges(
    links: Rows, ends: Indices, nodes: int, between: Joined | None, reader: EdgeReader | None, owner: str
) -> tuple[Indices, NDArray[np.int32], StoredEdges | None, tuple[str, ...]]:
    """(pointers, senders, what edges carry, notes); arguments as of `carrying`."""
    if between and between.stored:
        return *stored(nodes, *between.stored), ()
    if reader:
        return carrying(links, ends, nodes, reader, owner)
    pointers, senders, notes = undirected(ends, nodes, f"{owner}.edges, row")
    return pointers, senders, None, notes


def carrying(
    links: Rows, ends: Indices, nodes: int, reader: EdgeReader, owner: str
) -> tuple[Indices, NDArray[np.int32], StoredEdges, tuple[str, ...]]:
    """(pointers, senders, edges, notes) of rows whose ends are numbers of so many nodes, int64 [2, rows]."""
    rows, carried, notes = reader.chosen(ends, reader.read(links, owner))
    return *stored(nodes, *each_both_ways(ends[:, rows], reader.directed), carried), tuple(notes)


def _arranged(client: Indices, code: Indices, ids: Array) -> Indices:
    """The order of nodes by their ids, those of one id by client."""
    rank = np.empty(len(ids), np.int64)
    rank[ascending(ids)] = np.arange(len(ids))
    return np.lexsort((client, rank[code]))


def _split(rows: Rows, label: Array) -> tuple[NDArray[np.int8], bool]:
    """(split of each row, whether the table says it), none where no label is read."""
    if not rows.names["label"]:
        return np.full(len(rows), -1, np.int8), False
    split = read_split(rows, label)
    missing = [name for part, name in enumerate(SPLITS) if not (split == part).any()]
    if "split" in rows and missing:
        raise InputError(
            f"{rows.where}: column {rows.names['split']!r} leaves no node for {missing[0]}; one is needed."
        )
    return split, "split" in rows


def _labels(rows: Rows, are_numbers: bool, unknown: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
    """(class or number of each row, names of classes), all of it none where no label is read."""
    if not rows.names["label"]:
        return np.full(len(rows), -1, np.int64), ()
    if are_numbers:
        return read_numbers(rows["label"], unknown), ()
    return read_classes(rows["label"], numbers_hint("node"), unknown)


def feature_names(rows: Rows, owner: str) -> tuple[str, ...]:
    """Return names of the columns of features, those that are named or all others."""
    names = rows.names["features"]
    if names is ALL_OTHERS:
        others = no_features(rows.names)
        names = tuple(name for name in rows if name not in others)
        if unnamed := [name for name in names if name.startswith("Unnamed: ")]:  # as pandas calls a file's
            raise InputError(
                f"{rows.where}: column {int(unnamed[0][9:]) + 1} has no name, such as an index written along; name "
                f"it in the header, leave it out, or name those that are features in {owner}.features."
            )
    if not names and not rows.names.get("edge_label"):
        raise InputError(
            f"{rows.where}: no column of features ({owner}.features); one is needed, if only of ones or of degrees."
        )
    return tuple(names)


# --- one client's own part --------------------------------------------------------------------------------------------


def own_rows(nodes: Given, names: Names, parameter: str) -> Rows:
    """Read one client's own table of nodes, with all its columns; `parameter` names it in errors."""
    nodes = named_once(nodes, parameter) if isinstance(nodes, pd.DataFrame) else nodes
    return read(nodes, replace(NODES, folder="", rest=True), names, "data", parameter, needed=("node",))


OwnFeatures: TypeAlias = Callable[[Rows, Collection_[str]], Features]
"""What makes features of rows, float32 [rows, features], by the names of columns that are none."""


def own_part(
    rows: Rows, edges: Given, classes: tuple[str, ...], features: OwnFeatures, carried: EdgeReader | None = None
) -> NodeShard:
    """Return one client's own part of a graph from its own two tables, the first by `own_rows`. Labels are not read.

    It has no halo: edges to nodes that are not in the table of nodes are left out, with a note, for nobody here knows
    whose they are. `carried` says how edges are read that carry something.
    """
    links = read(edges, ASKED_CARRIED if carried else OWN_EDGE_ENDS, rows.names, "data", "--data-edges")
    ends = np.stack([links[role].among(ids_of(rows)) for role in ENDS])
    inside = (ends >= 0).all(axis=0)
    if left_out := int((~inside).sum()):
        LOG.warning(f"{links.where}: {left_out:,} edges to nodes that are not in {rows.where} left out.")
    if not carried:
        return inner_part(rows, links, ends[:, inside], classes, features)
    kept = links.take(np.flatnonzero(inside))
    pointers, senders, edges_kept, notes = carrying(kept, ends[:, inside], len(rows), carried, "data")
    tell(notes, f"{links.where}: ")
    edge_rows = edges_kept.edge_rows(carried.make(edges_kept.carried))
    return inner_part(rows, links, (pointers, senders, edge_rows), classes, features)


def ids_of(rows: Rows) -> Array:
    """Return the ids of a client's own nodes, text, in the order of rows."""
    code, ids = rows["node"].codes()
    rows.check_once(code, ids, "node", noun="")
    return ids[code]


Adjacency: TypeAlias = tuple[Indices, NDArray[np.int32], EdgeRows]
"""Pointers, senders and what edges carry, as a shard holds them."""


def inner_part(
    rows: Rows, links: Rows, edges: Indices | Adjacency, classes: tuple[str, ...], features: OwnFeatures
) -> NodeShard:
    """Return a client's own nodes and the edges between them, whose ends are places of nodes, int64 [2, edges].

    Where they carry something they are given as a shard holds them.
    """
    notes: tuple[str, ...] = ()
    edge_rows = None
    if isinstance(edges, tuple):
        pointers, senders, edge_rows = edges
    else:
        pointers, senders, notes = undirected(edges, len(rows), f"{links.where}, row")
    tell(rows.notes)
    tell(links.notes)
    tell(notes, f"{links.where}: ")
    return NodeShard(
        name="own",
        ids=ids_of(rows).astype(object),
        features=features(rows, no_features(rows.names)),
        label=np.full(len(rows), -1 if classes else np.nan),
        classes=classes,
        split=np.full(len(rows), -1, np.int8),
        pointers=pointers,
        senders=senders,
        edge_rows=edge_rows,
        halo_owner=np.zeros(0, np.int32),
        halo_place=np.zeros(0, np.int32),
    )


# --- a part to answer by ----------------------------------------------------------------------------------------------

OWN_NODES, OWN_EDGES = OWN_TABLES = ("data", "data-edges")
"""Names of the tables: one row per node; one row per edge between them."""


class OwnNodes(ClientTables[NodeShard]):
    """Ability of data sets whose features have no names: read one client's own nodes, features in columns 0, 1 ..."""

    own_tables: ClassVar[tuple[str, ...]] = OWN_TABLES

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> NodeShard:
        """Read one client's nodes and the edges between them."""
        names = numbered(task.features)
        return own_nodes(task, tables, usual_names(), partial(own_features, names=names, is_sparse=task.sparse))


def usual_names(**renamed: Any) -> dict[str, Any]:
    """Return the usual names of the columns of nodes and of edges, or these."""
    return NODES.names(**{SHARED_WITH: "", **renamed}) | EDGES.names(**{**NO_COLUMNS, **renamed})


def own_features(rows: Rows, others: Collection_[str], names: Sequence[str], is_sparse: bool) -> Features:
    """Return columns of a client's own nodes as a model knows them; arguments as of `known_features`."""
    return known_features(rows, names, is_sparse, "a feature of the run's data", others)


def own_nodes(
    task: Any,
    tables: Mapping[str, Given],
    names: Names,
    features: OwnFeatures,
    check: bool = False,
    unknown: Sequence[str] = (),
    carried: EdgeReader | None = None,
) -> NodeShard:
    """Read one client's nodes and the edges between them from both of `OWN_TABLES`.

    `check` says whether labels, which are not read, must be classes of the run, or one of those `unknown`.
    """
    if OWN_EDGES not in tables:
        raise InputError(f"--{OWN_NODES} needs --{OWN_EDGES}, the edges of these nodes; a table without rows for none.")
    rows = own_rows(tables[OWN_NODES], names, f"--{OWN_NODES}")
    if check and task.classes and "label" in rows:
        _check_labels(rows, task.class_names, unknown)
    return own_part(rows, tables[OWN_EDGES], task.class_names, features, carried)


def numbered(count: int) -> tuple[str, ...]:
    """Return so many columns of features where they have no names: "0", "1" ..."""
    return tuple(map(str, range(count)))


def named_features(
    task: Any, nodes: Given, names: Names, own: Given | None, made: Callable[[Sequence[str]], Sequence[str]] = tuple
) -> tuple[str, ...]:
    """Return columns of features in order: those that are named, else all others of the run's table of nodes.

    Where that, or the first file of a folder of them, is not there, they are those of the client's own table, in its
    order; `own` is None where the run's data answer. `made` returns the names of the features that columns become.
    """
    if names["features"] is not ALL_OTHERS:
        return tuple(names["features"])
    first, form, others = nodes, form_of(names, NODES.name), no_features(names)
    if is_folder(nodes):
        first = next(iter(files_of(Path(str(nodes)))), nodes)
    if isinstance(first, pd.DataFrame):
        columns, where = columns_of(first, "data.nodes"), "data.nodes"
    elif own is None or is_address(first) or Path(first).is_file():
        columns, where = header(first, "data.nodes", form, others), shown(first)
    else:
        columns = columns_of(own, f"--{OWN_NODES}", form, others)
        where = f"--{OWN_NODES}" if isinstance(own, pd.DataFrame) else str(own)
    features = tuple(name for name in columns if name not in others)
    if (count := len(made(features))) != task.features:
        raise InputError(
            f"{where}: {count} columns of features, but the model was trained on {task.features}; "
            "a run that names them in data.features finds them among others."
        )
    return features


def _check_labels(rows: Rows, classes: Sequence[str], unknown: Sequence[str]) -> None:
    """Raise `InputError` for a class that the run does not know: labels are not read, but it tells of a mistake."""
    cells = rows["label"]
    for name in names_of_classes(cells, unknown):
        if name not in classes:
            raise unlike(f"class of the run, as column {cells.name!r} of {rows.where} has it,", name, classes)
