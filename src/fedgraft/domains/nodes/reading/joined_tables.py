"""Edges between clients where the tables of all are in one place: joined as their sites would join them."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.border_columns import ENDS, NOBODY, UNSAID, said
from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeReader, each_both_ways, stacked_rows
from fedgraft.domains.nodes.reading.borders import Divided, divided
from fedgraft.domains.nodes.reading.copies import SHARED_WITH, Copies
from fedgraft.domains.tables.rows import Rows
from fedgraft.errors import InputError, unknown
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.masking import matching_bytes
from fedgraft.wire.tokens import ANYBODY, SECRET_BYTES, matched

Stored: TypeAlias = tuple[Indices, Indices, Indices, Array, CarriedRows, dict[int, Indices]]
"""Edges as clients store them, as `edge_columns.stored` takes them."""


@dataclass(frozen=True, eq=False)
class Joined:
    """Edges of all clients, `ends` int64 [2, edges], places of nodes; notes; {client: (bytes down, up)} of matching.

    Where edges carry something they are `stored`, receivers and what else `edge_columns.stored` takes; there are no
    `ends`, as of an edge between two clients each has what its own table says.
    """

    ends: Indices
    notes: Sequence[str]
    matching: Mapping[int, tuple[int, int]]
    stored: Stored | None = None


def joined(
    links: Rows,
    is_auto: bool,
    client: Indices,
    code: Indices,
    ids: Array,
    names: Sequence[str],
    is_private: bool = False,
    reader: EdgeReader | None = None,
    copies: Copies | None = None,
) -> Joined:
    """Join the edges of all clients' tables as their sites would: each divides its own, and claims are matched.

    Of a folder each file is a client's; of one table a client's rows are those of which it has an end. Raises
    `InputError` where neither that nor columns say whose the edges of shared nodes are.

    Args:
        links: rows of edges.
        is_auto: whether ids are looked for among all clients.
        client: int64 [nodes], whose each node is.
        code: int64 [nodes], which of `ids` it has; nodes of several clients may have one.
        ids: texts, all different.
        names: of all clients.
        is_private: whether sites would match ids by private set intersection, which joins the same and takes more.
        reader: how edges are read that carry something.
        copies: which nodes several clients have.
    """
    if copies:
        _check_copies(copies, links, is_auto, names)
    whose, notes = (np.full((2, len(links)), ANYBODY), ()) if is_auto else said(links, names)
    end = np.stack([links[role].among(ids) for role in ENDS])
    if not is_auto and not links.files:
        whose = np.where(whose == UNSAID, _only_owners(client, code, len(ids))[end], whose)
    places = [np.flatnonzero(client == k) for k in range(len(names))]
    parts, rows = {}, _rows_of(links, whose, end, [code[each] for each in places], names)
    every = reader.read(links, "Nodes") if reader else None
    for k, (mine, at) in enumerate(zip(rows, places, strict=True)):
        carried = (reader, every.take(mine)) if reader and every is not None else None
        form = k, names, f"the nodes of {names[k]!r}", carried
        part = divided(links.take(mine), whose[:, mine], ids[code[at]], *form)
        if copies:
            part = replace(part, border=copies.added(part.border, at, ids[code[at]], k, names))
        parts[k] = part
    secret = secrets.token_bytes(SECRET_BYTES)
    claims = {k: part.border.claims(secret) for k, part in parts.items()}
    addresses = matched(claims)
    told = [f"{links.where}: {note}" for note in notes]
    if nobodys := len(links) - len(np.unique(np.concatenate(rows))):
        told.append(f"{links.where}: {nobodys:,} edges of which no client has an end left out.")
    for k, part in parts.items():
        owner, border = addresses[k]["owner"], part.border
        found = [*part.notes, *border.notes(owner, names), *border.copy_notes(owner, names)]
        told += [f"Client {names[k]!r}: {note}" for note in found]
    sizes = matching_bytes(claims, addresses, len(names), is_private)
    if not reader:
        return Joined(_ends_of_all(parts, addresses, places), told, sizes)
    return Joined(np.zeros((2, 0), np.int64), told, sizes, _stored(parts, addresses, places, reader.directed))


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
        ends.append(np.stack([places[client][part.border.place[rows]], whole[starts[owner[rows]] + place[rows]]]))
    return np.concatenate(ends, axis=1)


def _stored(
    parts: Mapping[int, Divided], addresses: Mapping[int, Arrays], places: Sequence[Indices], directed: bool
) -> Stored:
    """The edges of all as each client stores its own; arguments as of `_ends_of_all`."""
    starts, whole = np.cumsum([0, *map(len, places)]), np.concatenate(places)
    kept: list[CarriedRows] = []
    stored: list[tuple[Array, ...]] = []
    counted: dict[int, Indices] = {}
    begin = 0
    for client, part in parts.items():
        assert part.carried is not None, "as it was read"
        assert part.row is not None, "likewise"
        assert part.border.row is not None, "likewise"
        receiver, sender, row, along = each_both_ways(places[client][part.inside], directed)
        stored.append((receiver, sender, begin + part.row[row], along))
        owner, place = addresses[client]["owner"], addresses[client]["place"]
        found = np.flatnonzero(owner >= 0)
        there = whole[starts[owner[found]] + place[found]]
        assert part.border.along is not None, "likewise"
        rows = part.border.row[found]
        border = np.where(rows < 0, rows, begin + rows), part.border.along[found]
        stored.append((places[client][part.border.place[found]], there, *border))
        counted[client] = begin + np.arange(len(part.carried))
        kept.append(part.carried)
        begin += len(part.carried)
    receiver, sender, row, along = (np.concatenate(each) for each in zip(*stored, strict=True))
    return receiver, sender, row, along, stacked_rows(kept), counted
