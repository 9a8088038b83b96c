"""Tables of a graph's nodes and of its edges: which columns they have, and the graph of all clients read from them.

Ids and classes are kept as text, as written ("007" is not "7").
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.boundary_columns import (
    AUTO,
    ENDS,
    NOBODY,
    SHARED_WITH,
    SIDE_COLUMNS,
    UNSAID,
    owners_said,
    said,
)
from fedgraft.domains.edge_data.edge_columns import (
    EDGE_COLUMNS,
    NO_COLUMNS,
    Carried,
    CarriedRows,
    StoredEdges,
    each_both_ways,
    stored,
)
from fedgraft.domains.edge_data.graph_form import GraphForm
from fedgraft.domains.labels.class_notes import class_notes
from fedgraft.domains.nodes.base.shards import Numbers, WholeGraph, undirected
from fedgraft.domains.nodes.reading.cross_client_edges import Copies, Divided, divided
from fedgraft.domains.tables.columns import ColumnReader, read_columns
from fedgraft.domains.tables.labels import read_split
from fedgraft.domains.tables.reader import read
from fedgraft.domains.tables.rows import Coded, Rows, ascending
from fedgraft.domains.tables.schema import ALL_OTHERS, Column, Names, Table, form_of
from fedgraft.errors import InputError, unknown
from fedgraft.tables.table_files import Given, columns_of, files_of, header, is_address, is_folder, shown
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.masking import matching_bytes
from fedgraft.wire.tokens import ANYBODY, SECRET_BYTES, matched

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
ASKED_EDGES = replace(EDGES, columns=EDGES.columns[:4], folder="")
ASKED = (ASKED_NODES, ASKED_EDGES, ASKED_PAIRS)
"""Tables of questions."""


def no_features(names: Names) -> tuple[str, ...]:
    """Return columns of nodes that are no features unless they are named; "label" also where no classes are read."""
    known = names["node"], names["label"] or "label", names["client"], names["split"]
    return (*known, names[SHARED_WITH]) if names[SHARED_WITH] else known


OWN_NODES, OWN_EDGES = OWN_TABLES = ("data", "data-edges")
"""Names of the tables to answer by: one row per node; one row per edge between them."""


@dataclass(frozen=True, eq=False)
class GraphEdges:
    """Edges as a graph holds them, by `pointers` and `senders`, with notes.

    `carried` is what they carry; None where it is nothing. `matching` is what it takes to join those between clients,
    {client: (bytes down, bytes up)}, and `between` are notes on these.
    """

    pointers: Indices
    senders: Numbers
    carried: StoredEdges | None
    notes: Sequence[str] = ()
    between: Sequence[str] = ()
    matching: Mapping[int, tuple[int, int]] = field(default_factory=dict)


def edges_within(ends: Indices, nodes: int, where: str, carried: Carried | None) -> GraphEdges:
    """Return edges whose ends are numbers of so many nodes, int64 [2, rows]; errors call one `where` and its number."""
    if not carried:
        pointers, senders, told = undirected(ends, nodes, where)
        return GraphEdges(pointers, senders, None, told)
    reader, every = carried
    rows, kept, notes = reader.chosen(ends, every)
    return GraphEdges(*stored(nodes, *each_both_ways(ends[:, rows], reader.directed), kept), notes)


# --- the graph of all clients -----------------------------------------------------------------------------------------


def read_nodes(
    nodes: Given, edges: Given, form: GraphForm, read_features: ColumnReader = read_columns
) -> Collection[WholeGraph]:
    """Return two tables as one graph, its nodes in the order of their ids.

    `nodes` has a row per node; a folder holds one file per client, named after it. `edges` has a row per edge, listed
    one way or both; of a folder all files are read. `read_features` reads columns of features. What edges carry the
    graph lacks yet.
    """
    owner, names = form.owner, form.names
    rows = read(nodes, NODES, names, owner)
    if rows.files and "client" in rows:
        why = f"names clients, but each file of the folder {nodes} is one."
        raise InputError(f"{rows.where}: column {names['client']!r} {why}")
    code, ids = rows["node"].codes()
    links = read(edges, EDGES, names, owner)
    client, clients = _clients(rows, links, code, ids, form)
    rows.check_once(code + client * len(ids) * bool(form.boundaries), ids, "node", f" of column {names['node']!r}")
    order = _arranged(client, code, ids)
    label, classes = form.labels(rows)
    split, is_split = _split(rows, label)
    where = f"{owner}.nodes" if isinstance(nodes, pd.DataFrame) else shown(nodes)
    if form.boundaries:
        copies = Copies.of(form.sharing, rows.take(order))
        found = joined(links, client[order], code[order], ids, clients.tolist(), form, copies)
    else:
        ends = np.stack([links[role].among(ids, f"a node of {where}") for role in ENDS])
        found = edges_within(np.argsort(code[order])[ends], len(rows), f"{owner}.edges, row", form.carried(links))
    whole = WholeGraph(
        name=where,
        ids=ids[code[order]].astype(object),
        features=np.zeros((len(rows), 0), np.float32),
        label=label[order],
        classes=classes,
        split=split[order],
        pointers=found.pointers,
        senders=found.senders,
    )
    columns = read_features(rows, feature_names(rows, owner)).take(order)
    class_said = class_notes(label, classes, where, form.na_labels)
    notes = (*rows.notes, *found.notes, *links.notes, *class_said, *found.between)
    more: dict[str, Any] = {"columns": columns, "edges": found.carried, "matching": found.matching}
    return Collection(whole, client[order], tuple(clients.tolist()), is_split, notes, **more)


def _clients(rows: Rows, links: Rows, code: Indices, ids: Array, form: GraphForm) -> Coded:
    """Return the client of each node and the names of all; none where nobody says it, which boundaries need."""
    told = rows.clients() or (owners_said(links, rows, code, ids) if form.boundaries == "columns" else None)
    if form.boundaries and not told:
        option = f"{form.owner}.client), which {form.owner}.source_client and {form.owner}.target_client need"
        raise InputError(f"{rows.where} names no clients ({option}.")
    return told or (np.zeros(len(rows), np.int64), np.array([], str))


def _arranged(client: Indices, code: Indices, ids: Array) -> Indices:
    """The order of nodes by their ids, those of one id by client."""
    rank = np.empty(len(ids), np.int64)
    rank[ascending(ids)] = np.arange(len(ids))
    return np.lexsort((client, rank[code]))


def _split(rows: Rows, label: Array) -> tuple[Array, bool]:
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


def usual_names(**renamed: Any) -> dict[str, Any]:
    """Return the usual names of the columns of nodes and of edges, or these."""
    return NODES.names(**{SHARED_WITH: "", **renamed}) | EDGES.names(**{**NO_COLUMNS, **renamed})


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


# --- edges between clients, joined as their sites would join them -----------------------------------------------------


def joined(
    links: Rows,
    client: Indices,
    code: Indices,
    ids: Array,
    names: Sequence[str],
    form: GraphForm,
    copies: Copies | None = None,
) -> GraphEdges:
    """Join the edges of all clients' tables as their sites would: each divides its own, and claims are matched.

    Of a folder each file is a client's; of one table a client's rows are those of which it has an end. Raises
    `InputError` where neither that nor columns say whose the edges of shared nodes are.

    Args:
        links: rows of edges.
        client: int64 [nodes], whose each node is.
        code: int64 [nodes], which of `ids` it has; nodes of several clients may have one.
        ids: texts, all different.
        names: of all clients.
        form: how tables are read.
        copies: which nodes several clients have.
    """
    is_auto = form.boundaries == AUTO
    if copies:
        _check_copies(copies, links, is_auto, names)
    whose, notes = (np.full((2, len(links)), ANYBODY), ()) if is_auto else said(links, names)
    end = np.stack([links[role].among(ids) for role in ENDS])
    if not is_auto and not links.files:
        whose = np.where(whose == UNSAID, _only_owners(client, code, len(ids))[end], whose)
    places = [np.flatnonzero(client == k) for k in range(len(names))]
    parts, rows = {}, _rows_of(links, whose, end, [code[each] for each in places], names)
    carried = form.carried(links)
    for k, (mine, at) in enumerate(zip(rows, places, strict=True)):
        own = (carried[0], carried[1].take(mine)) if carried else None
        where = f"the nodes of {names[k]!r}"
        part = divided(links.take(mine), whose[:, mine], ids[code[at]], k, names, where, own)
        if copies:
            part = replace(part, boundary=copies.added(part.boundary, at, ids[code[at]], k, names))
        parts[k] = part
    secret = secrets.token_bytes(SECRET_BYTES)
    claims = {k: part.boundary.claims(secret) for k, part in parts.items()}
    addresses = matched(claims)
    told = [f"{links.where}: {note}" for note in notes]
    if nobodys := len(links) - len(np.unique(np.concatenate(rows))):
        told.append(f"{links.where}: {nobodys:,} edges of which no client has an end left out.")
    for k, part in parts.items():
        owner, boundary = addresses[k]["owner"], part.boundary
        found = [*part.notes, *boundary.notes(owner, names), *boundary.copy_notes(owner, names)]
        told += [f"Client {names[k]!r}: {note}" for note in found]
    more: dict[str, Any] = {"between": told, "matching": matching_bytes(claims, addresses, len(names), form.is_private)}
    if carried:
        return GraphEdges(*_stored(parts, addresses, places, carried[0].directed), **more)
    ends = _ends_of_all(parts, addresses, places)
    return replace(edges_within(ends, len(client), f"{form.owner}.edges, row", None), **more)


def _check_copies(copies: Copies, links: Rows, is_auto: bool, names: Sequence[str]) -> None:
    """Raise `InputError` where nothing says whose the edges of shared nodes are, or which clients share them."""
    copies.check(names)
    if is_auto and not links.files:
        raise InputError(
            f"{links.where}: nodes may be shared (data.{SHARED_WITH}), so that ids do not say whose an edge is: give a "
            "folder of edges, each file of one client, or name columns in data.source_client and data.target_client."
        )


def _only_owners(client: Indices, code: Indices, ids: int) -> Indices:
    """Whose each id is, int64 [ids + 1], `NOBODY` where several have it; last, for the place -1, that of none."""
    owner = np.full(ids + 1, NOBODY)
    owner[code] = client
    owner[:-1][np.bincount(code, minlength=ids) > 1] = NOBODY
    return owner


def _rows_of(
    links: Rows, whose: Indices, end: Indices, owned: Sequence[Indices], names: Sequence[str]
) -> list[Indices]:
    """The rows of each client; `owned` are the codes of its ids, `end`, int64 [2, rows], those of ends."""
    if links.files:
        for name in links.files:
            if name not in names:
                raise unknown(f"client, as the folder of edges of {links.where} has a file of,", name, names)
        number = np.array([names.index(name) for name in links.files])
        return [np.flatnonzero(number[links.file] == k) for k in range(len(names))]
    rows = []
    for k, codes in enumerate(owned):
        has = np.zeros(end.max(initial=-1) + 2, bool)
        has[codes[codes < len(has) - 1]] = True  # the last one is for the place -1
        rows.append(np.flatnonzero(((whose == k) | ((whose == ANYBODY) & has[end])).any(axis=0)))
    return rows


def _ends_of_all(parts: Mapping[int, Divided], addresses: Mapping[int, Arrays], places: Sequence[Indices]) -> Indices:
    """The ends of all edges, int64 [2, edges]; `places` are those of each client's nodes among all."""
    starts = np.cumsum([0, *map(len, places)])
    whole = np.concatenate(places)
    ends = []
    for client, part in parts.items():
        ends.append(places[client][part.inside])
        owner, place = addresses[client]["owner"], addresses[client]["place"]
        rows = np.flatnonzero(owner > client)  # the other side has the same edge
        ends.append(np.stack([places[client][part.boundary.place[rows]], whole[starts[owner[rows]] + place[rows]]]))
    return np.concatenate(ends, axis=1)


def _stored(
    parts: Mapping[int, Divided], addresses: Mapping[int, Arrays], places: Sequence[Indices], directed: bool
) -> tuple[Indices, Numbers, StoredEdges]:
    """The edges of all as each client stores its own, as `edge_columns.stored`; arguments as of `_ends_of_all`."""
    starts, whole = np.cumsum([0, *map(len, places)]), np.concatenate(places)
    made: list[tuple[Array, ...]] = []
    counted: dict[int, Indices] = {}
    begin = 0
    kept = [part.carried for part in parts.values() if part.carried is not None]
    for (client, part), rows_kept in zip(parts.items(), kept, strict=True):
        receiver, sender, row, along = each_both_ways(places[client][part.inside], directed)
        made.append((receiver, sender, begin + part.row[row], along))
        owner, place = addresses[client]["owner"], addresses[client]["place"]
        found = np.flatnonzero(owner >= 0)
        there = whole[starts[owner[found]] + place[found]]
        rows = part.boundary.row[found]
        boundary = np.where(rows < 0, rows, begin + rows), part.boundary.along[found]
        made.append((places[client][part.boundary.place[found]], there, *boundary))
        counted[client] = begin + np.arange(len(rows_kept))
        begin += len(rows_kept)
    receiver, sender, row, along = (np.concatenate(each) for each in zip(*made, strict=True))
    return stored(len(whole), receiver, sender, row, along, CarriedRows.stacked(kept), counted)
