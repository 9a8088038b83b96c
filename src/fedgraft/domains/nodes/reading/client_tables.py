"""Reads one client's own tables of nodes and edges: its part of a graph, to train on or to answer by."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fedgraft.contracts.data import ANSWER, ClientTables, Purpose
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.boundary_columns import AUTO, UNSAID, said
from fedgraft.domains.edge_data.edge_columns import StoredEdges, each_both_ways, stored
from fedgraft.domains.edge_data.graph_form import GraphForm, OwnFeatures
from fedgraft.domains.labels.class_notes import class_notes
from fedgraft.domains.nodes.base.shards import NodeShard, undirected
from fedgraft.domains.nodes.reading.cross_client_edges import Boundary, Copies, Divided, divided, with_halo
from fedgraft.domains.nodes.reading.tables import (
    EDGES,
    NODES,
    OWN_EDGES,
    OWN_NODES,
    OWN_TABLES,
    no_features,
    usual_names,
)
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.columns import Columns, own_features
from fedgraft.domains.tables.labels import names_of_classes, read_split
from fedgraft.domains.tables.reader import named_once, read
from fedgraft.domains.tables.rows import Rows, arranged
from fedgraft.domains.tables.schema import Names, check_one_client
from fedgraft.errors import InputError, WireError, nearest
from fedgraft.errors import unknown as unlike
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.tokens import ALONE, ANYBODY, check_addresses


def own_rows(nodes: Given, names: Names, parameter: str) -> Rows:
    """Read one client's own table of nodes, with all its columns; `parameter` names it in errors."""
    nodes = named_once(nodes, parameter) if isinstance(nodes, pd.DataFrame) else nodes
    return read(nodes, replace(NODES, folder="", rest=True), names, "data", parameter, needed=("node",))


def ids_of(rows: Rows) -> Array:
    """Return the ids of a client's own nodes, text, in the order of rows."""
    code, ids = rows["node"].codes()
    rows.check_once(code, ids, "node", noun="")
    return ids[code]


def own_part(
    rows: Rows,
    edges: Given,
    form: GraphForm,
    classes: tuple[str, ...],
    features: OwnFeatures,
    purpose: Purpose = ANSWER,
) -> Collection[NodeShard]:
    """Return one client's own part of a graph from its own two tables, the first by `own_rows`. Labels are not read.

    Edges to nodes that are not in the table of nodes are left out, with a note, but those to nodes of others are in its
    halo, as far as the purpose knows where these are; so are copies of nodes that others have, too. Where edges have
    labels, those that go out to nodes of nobody count, too. What edges carry the part lacks yet, and features where
    these are read as columns.
    """
    links, part = _divided(rows, edges, form, purpose)
    kept: StoredEdges | None = None
    notes: Sequence[str] = ()
    if form.reader and part.carried is not None:
        receiver, sender, row, along = each_both_ways(part.inside, form.reader.directed)
        pointers, senders, kept = stored(len(rows), receiver, sender, part.row[row], along, part.carried)
    else:
        pointers, senders, notes = undirected(part.inside, len(rows), f"{links.where}, row")
    tell((*rows.notes, *links.notes))
    tell((*notes, *part.notes), f"{links.where}: ")
    made = features(rows, no_features(rows.names))
    values = np.zeros((len(rows), 0), np.float32) if isinstance(made, Columns) else made
    label = np.full(len(rows), -1 if classes else np.nan)
    shard = NodeShard.unsplit(purpose.name, ids_of(rows), values, label, (pointers, senders), classes)
    if addresses := _addresses(rows, links, part.boundary, purpose) if form.boundaries else None:
        shard, kept = with_halo(shard, kept, part.boundary, addresses)
    client, columns = np.zeros(len(rows), np.int64), made if isinstance(made, Columns) else None
    return Collection(shard, client, (), False, (), columns=columns, edges=kept)


def _divided(rows: Rows, edges: Given, form: GraphForm, purpose: Purpose) -> tuple[Rows, Divided]:
    """(the edges of a client's table, these divided); without boundaries every end is its own, or of nobody."""
    table = replace(EDGES, folder="")
    if not form.boundaries:
        roles = {"source_client", "target_client"} if form.reader else {*EDGES.roles} - {"source", "target"}
        table = replace(table, columns=tuple(column for column in table.columns if column.role not in roles))
    links = read(edges, table, rows.names, "data", "--data edges" if purpose.trains else f"--{OWN_EDGES}")
    ids, carried = ids_of(rows), form.carried(links)
    if not form.boundaries:
        return links, divided(links, np.full((2, len(links)), UNSAID), ids, 0, (purpose.name,), rows.where, carried)
    if purpose.neighbours is None:
        raise InputError(
            "data.source_client and data.target_client say whose the ends of edges are, which is known at a site of a "
            "federation alone: its folder names all clients and has their common secret."
        )
    clients, client = purpose.neighbours.clients, purpose.client
    whose, notes = (np.full((2, len(links)), ANYBODY), ()) if form.boundaries == AUTO else said(links, clients)
    part = divided(links, whose, ids, client, clients, rows.where, carried)
    if copies := Copies.of(form.sharing, rows):
        copies.check(clients)
        part = replace(part, boundary=copies.added(part.boundary, np.arange(len(rows)), ids, client, clients))
    return links, replace(part, notes=(*notes, *part.notes))


def _addresses(rows: Rows, links: Rows, boundary: Boundary, purpose: Purpose) -> Arrays | None:
    """Where the other ends of a site's edges to others are, with notes; None where nothing is known of them yet."""
    if purpose.neighbours is None or (addresses := purpose.neighbours.addresses) is None:
        return None
    if not addresses:  # it was not there when others claimed theirs
        nothing = np.full(len(boundary.place), ALONE, np.int32)
        addresses = {"owner": nothing, "place": np.zeros(len(nothing), np.uint32)}
    try:
        check_addresses(addresses, len(boundary.place), len(purpose.neighbours.clients))
    except WireError as error:
        raise InputError(f"The server has sent what is no answer to the edges of {links.where}: {error}.") from error
    for told, where in ((boundary.notes, links.where), (boundary.copy_notes, rows.where)):
        tell(told(addresses["owner"], purpose.neighbours.clients), f"{where}: ")
    return addresses


# --- a part to train on -----------------------------------------------------------------------------------------------


def _site_rows(nodes: Given, names: Names) -> Rows:
    """A site's own nodes, in the order of their ids."""
    rows = own_rows(nodes, names, "--data nodes")
    code, ids = rows["node"].codes()
    rows.check_once(code, ids, "node", noun="")
    return rows.take(arranged(code, ids)[0])


def site_boundary(tables: Mapping[str, Given], form: GraphForm, purpose: Purpose) -> Boundary:
    """Return the edges of a site's nodes to nodes of others; arguments as of `site_part`."""
    return _divided(_site_rows(tables["nodes"], form.names), tables["edges"], form, purpose)[1].boundary


def site_part(
    tables: Mapping[str, Given], form: GraphForm, classes: tuple[str, ...], features: OwnFeatures, purpose: Purpose
) -> Collection[NodeShard]:
    """Return the own part, with its labels, of the client of a purpose.

    Nodes are in the order of their ids. `classes` are those of the recipe's task, which all sites have in common, or
    () for those that occur.
    """
    rows, names = _site_rows(tables["nodes"], form.names), form.names
    part = own_part(rows, tables["edges"], form, classes, features, purpose)
    if "client" in rows:
        where = f"column {names['client']!r} of {rows.where}"
        check_one_client(rows["client"].codes()[1].tolist(), where, purpose.name)
    if not names["label"]:
        return part
    if "label" not in rows:
        raise InputError(f"{rows.where}: no column {names['label']!r} (data.label).{nearest(names['label'], rows)}")
    label, classes = form.labels(rows, classes)
    if classes:
        tell(class_notes(label, classes, rows.where, form.na_labels))
    whole = replace(part.whole, label=label, classes=classes, split=read_split(rows, label))
    return replace(part, whole=whole, split="split" in rows)


# --- a part to answer by ----------------------------------------------------------------------------------------------


class OwnNodes(ClientTables[NodeShard]):
    """Ability of data sets whose features have no names: read one client's own nodes, features in columns 0, 1 ..."""

    own_tables: ClassVar[tuple[str, ...]] = OWN_TABLES

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> NodeShard:
        """Read one client's nodes and the edges between them."""
        features = partial(own_features, names=numbered(task.features), is_sparse=task.sparse)
        return own_nodes(task, tables, GraphForm("data", usual_names()), features).whole


def own_nodes(
    task: Any, tables: Mapping[str, Given], form: GraphForm, features: OwnFeatures, check: bool = False
) -> Collection[NodeShard]:
    """Read one client's nodes and the edges between them from both of `OWN_TABLES`.

    `check` says whether labels, which are not read, must be classes of the run, or unknown.
    """
    if OWN_EDGES not in tables:
        raise InputError(f"--{OWN_NODES} needs --{OWN_EDGES}, the edges of these nodes; a table without rows for none.")
    form = replace(form, boundaries="", names={**form.names, "edge_label": ""})
    rows = own_rows(tables[OWN_NODES], form.names, f"--{OWN_NODES}")
    labels = rows["label"] if check and "label" in rows and getattr(task, "classes", None) else None
    for name in () if labels is None else names_of_classes(labels, form.na_labels):
        if name not in task.class_names:
            of = f"class of the run, as column {rows.names['label']!r} of {rows.where} has it,"
            raise unlike(of, name, task.class_names)
    return own_part(rows, tables[OWN_EDGES], form, task.class_names, features)


def numbered(count: int) -> tuple[str, ...]:
    """Return so many columns of features where they have no names: "0", "1" ..."""
    return tuple(map(str, range(count)))
