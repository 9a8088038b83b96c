"""Reads a site's own tables of nodes and edges: its part of a graph, and its edges to nodes of others."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedgraft.contracts.data import Purpose
from fedgraft.domains.edge_data.border_columns import AUTO, UNSAID, Borders, said
from fedgraft.domains.edge_data.edge_columns import EdgeReader, each_both_ways, stored
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.labels.class_notes import class_notes
from fedgraft.domains.labels.known import numbers_hint
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.borders import Border, Divided, divided, with_halo
from fedgraft.domains.nodes.reading.copies import Copies, Sharing
from fedgraft.domains.nodes.reading.tables import EDGES, Adjacency, OwnFeatures, ids_of, inner_part, own_part, own_rows
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.labels import read_classes, read_classes_among, read_numbers, read_split
from fedgraft.domains.tables.reader import read
from fedgraft.domains.tables.rows import Rows, arranged
from fedgraft.domains.tables.schema import Names, check_one_client
from fedgraft.errors import InputError, WireError, nearest
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Array
from fedgraft.wire.tokens import ALONE, ANYBODY, check_addresses


def _site_rows(nodes: Given, names: Names) -> Rows:
    """A site's own nodes, in the order of their ids."""
    rows = own_rows(nodes, names, "--data nodes")
    code, ids = rows["node"].codes()
    rows.check_once(code, ids, "node", noun="")
    return rows.take(arranged(code, ids)[0])


def site_border(
    nodes: Given,
    edges: Given,
    names: Names,
    purpose: Purpose,
    borders: Borders,
    carried: EdgeReader | None = None,
    sharing: Sharing = "",
) -> Border:
    """Return the edges of a site's nodes to nodes of others; arguments as of `site_part`."""
    return _divided(_site_rows(nodes, names), edges, purpose, borders, carried, sharing)[1].border


def _divided(
    rows: Rows, edges: Given, purpose: Purpose, borders: Borders, reader: EdgeReader | None, sharing: Sharing
) -> tuple[Rows, Divided]:
    """(the edges of a site's table, these divided); without `borders` every end is its own, or of nobody."""
    links = read(edges, replace(EDGES, folder=""), rows.names, "data", "--data edges")
    carried = (reader, reader.read(links, "data")) if reader else None
    if not borders:
        own = np.full((2, len(links)), UNSAID), ids_of(rows), 0, (purpose.name,), rows.where
        return links, divided(links, *own, carried)
    if purpose.neighbours is None:
        raise InputError(
            "data.source_client and data.target_client say whose the ends of edges are, which is known at a site of a "
            "federation alone: its folder names all clients and has their common secret."
        )
    clients, client = purpose.neighbours.clients, purpose.client
    whose, notes = (np.full((2, len(links)), ANYBODY), ()) if borders == AUTO else said(links, clients)
    part = divided(links, whose, ids_of(rows), client, clients, rows.where, carried)
    if copies := Copies.of(sharing, rows):
        copies.check(clients)
        border = copies.added(part.border, np.arange(len(rows)), ids_of(rows), client, clients)
        part = replace(part, border=border)
    return links, replace(part, notes=(*notes, *part.notes))


def _with_border(
    rows: Rows,
    edges: Given,
    purpose: Purpose,
    borders: Borders,
    classes: tuple[str, ...],
    features: OwnFeatures,
    reader: EdgeReader | None,
    sharing: Sharing,
) -> NodeShard:
    """A site's own part with its edges to others, as far as it is known where their other ends are."""
    links, part = _divided(rows, edges, purpose, borders, reader, sharing)
    inside, at_border = _carried(part, len(rows), reader) if reader else (part.inside, None)
    shard = inner_part(rows, links, inside, classes, features)
    tell(part.notes, f"{links.where}: ")
    if purpose.neighbours is None or not borders or (addresses := purpose.neighbours.addresses) is None:
        return shard
    if not addresses:  # it was not there when others claimed theirs
        nothing = np.full(len(part.border.place), ALONE, np.int32)
        addresses = {"owner": nothing, "place": np.zeros(len(nothing), np.uint32)}
    try:
        check_addresses(addresses, len(part.border.place), len(purpose.neighbours.clients))
    except WireError as error:
        raise InputError(f"The server has sent what is no answer to the edges of {links.where}: {error}.") from error
    for told, where in ((part.border.notes, links.where), (part.border.copy_notes, rows.where)):
        tell(told(addresses["owner"], purpose.neighbours.clients), f"{where}: ")
    return with_halo(shard, part.border, addresses, at_border)


def _carried(part: Divided, nodes: int, reader: EdgeReader) -> tuple[Adjacency, EdgeRows]:
    """The edges inside a client and what they carry, and what those of its border carry."""
    carried, border = part.carried, part.border
    assert carried is not None, "as it was read"
    assert part.row is not None, "likewise"
    assert border.row is not None, "likewise"
    assert border.along is not None, "likewise"
    values = reader.make(carried)
    receiver, sender, row, along = each_both_ways(part.inside, reader.directed)
    pointers, senders, kept = stored(nodes, receiver, sender, part.row[row], along, carried)
    return (pointers, senders, kept.edge_rows(values)), carried.edge_rows(values, border.row, border.along)


def site_part(
    nodes: Given,
    edges: Given,
    names: Names,
    classes: tuple[str, ...],
    features: OwnFeatures,
    purpose: Purpose,
    are_numbers: bool,
    unknown: Sequence[str] = (),
    borders: Borders = "",
    carried: EdgeReader | None = None,
    sharing: Sharing = "",
) -> tuple[NodeShard, bool]:
    """Return the own part, with its labels, of the client of a purpose, and whether the table names a split.

    Nodes are in the order of their ids. `classes` are those of the recipe's task, which all sites have in common, or
    () for those that occur; labels `unknown` are as empty. With `borders` edges to nodes of
    others are in its halo, as far as the purpose knows where these are, and so are copies of nodes that others have,
    too, of which `sharing` says how they are known. `carried` says how edges are read that carry something; where they
    have labels, those that go out to nodes of nobody count, too.
    """
    rows, name = _site_rows(nodes, names), purpose.name
    if borders or (carried and carried.labels):
        shard = _with_border(rows, edges, purpose, borders, classes, features, carried, sharing)
    else:
        shard = own_part(rows, edges, classes, features, carried)
    if "client" in rows:
        check_one_client(rows["client"].codes()[1].tolist(), f"column {names['client']!r} of {rows.where}", name)
    shard = replace(shard, name=name)
    if not names["label"]:
        return shard, False
    if "label" not in rows:
        raise InputError(f"{rows.where}: no column {names['label']!r} (data.label).{nearest(names['label'], rows)}")
    cells = rows["label"]
    if are_numbers:
        label: Array = read_numbers(cells, unknown)
    elif classes:
        label = read_classes_among(cells, classes, unknown)
    else:
        label, classes = read_classes(cells, numbers_hint("node"), unknown, needed=False)
    if classes:
        tell(class_notes(label, classes, rows.where, unknown))
    return replace(shard, label=label, classes=classes, split=read_split(rows, label)), "split" in rows
