"""Edges between clients, of tables that say whose their ends are, or whose ids are looked for among all clients.

A client's own tables tell of such an edge the client's own end and the id of the other. It claims the edge by a token
of both ids under a secret that all clients have and the server has not; the server joins what exactly two sides claim
and routes addresses. One machine with all tables does the same: what two sites would not join is not joined there.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from fedgraft.contracts.values import Indices
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.tables.rows import Rows, codes_of, places_of
from fedgraft.errors import InputError, nearest, unknown
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.masking import matching_bytes
from fedgraft.wire.tokens import ALONE, ANYBODY, SECRET_BYTES, SEVERAL, matched, tokens

AUTO: Final[Literal["auto"]] = "auto"
"""In place of the name of a column of clients: ids are looked for among all."""
ENDS: Final = ("source", "target")
SIDES: Final = ("source_client", "target_client")
"""Roles of the columns that say whose an end is."""
DOMAIN: Final = "edge between clients"
UNSAID, NOBODY = -2, -3
"""In place of a client: a table does not say whose an end is; it names somebody who is no client."""
Borders: TypeAlias = Literal["", "columns", "auto"]
"""How edges between clients are known: not at all, by columns that say whose ends are, or by ids among all."""
SHOWN: Final = 3
"""Names of strangers that a note lists."""


@dataclass(frozen=True, eq=False)
class Border:
    """Edges of a client's own nodes to nodes of others, before anybody knows where those are; each is here once.

    Args:
        place: int64 [n], its own nodes, by place.
        other: int64 [n], whose the other end is, the number of a client or `ANYBODY`.
        pairs: texts of both ends in an order that both sides know.
        first: bool [n], whether its own end comes first there.
    """

    place: Indices
    other: Indices
    pairs: Sequence[tuple[str, ...]]
    first: Array

    def claims(self, secret: bytes) -> Arrays:
        """Return what the client tells the server, as `tokens.CLAIMS` has it."""
        return {
            "token": tokens(secret, DOMAIN, self.pairs),
            "first": np.packbits(self.first),
            "other": self.other.astype(np.int32),
            "place": self.place.astype(np.uint32),
        }

    def notes(self, owner: Array, clients: Sequence[str]) -> list[str]:
        """Return a note for each kind of edge that was not joined, by the addresses that came back."""
        notes = []
        for other in np.unique(self.other[owner == ALONE]).tolist():
            count = np.count_nonzero(self.other[owner == ALONE] == other)
            whose = (
                "that nobody else lists" if other == ANYBODY else f"of {clients[other]!r}, which does not list them,"
            )
            notes.append(f"{count:,} edges to nodes {whose} left out.")
        if count := np.count_nonzero(owner == SEVERAL):
            notes.append(f"{count:,} edges of which an end is the id of nodes of several clients left out.")
        return notes


@dataclass(frozen=True, eq=False)
class Divided:
    """Edges of one client's table: `inside`, int64 [2, n], places of own nodes; its border; and notes on others."""

    inside: Indices
    border: Border
    notes: Sequence[str]


def divided(links: Rows, whose: Indices, ids: Array, client: int, names: Sequence[str], where: str) -> Divided:
    """Return the edges of a client's rows, those inside it and those to others.

    Args:
        links: its rows of edges.
        whose: int64 [2, rows], whose the ends are: numbers of clients, `ANYBODY`, `UNSAID` or `NOBODY`. An end of
            `ANYBODY` is the client's own where it has the id.
        ids: texts of its own nodes, in their order.
        client: its number.
        names: of all clients.
        where: what notes call its table of nodes.
    """
    place = np.stack([links[role].among(ids) for role in ENDS])
    own = (place >= 0) & ((whose == client) | (whose == ANYBODY) | (whose == UNSAID))
    lost = (place < 0) & ((whose == client) | (whose == UNSAID))
    other = ~own & ~lost & (whose != NOBODY)
    kinds = {
        f"edges to nodes that are not in {where}": lost.any(axis=0),
        "edges to who is no client": (whose == NOBODY).any(axis=0) & ~lost.any(axis=0),
        "edges between nodes of others": other.all(axis=0),
    }
    notes = [f"{count:,} {what} left out." for what, rows in kinds.items() if (count := np.count_nonzero(rows))]
    rows = np.flatnonzero(own.any(axis=0) & other.any(axis=0))
    end = own[1, rows].astype(np.int64)  # which of the two is its own
    border, repeats = _border(links, rows, end, place[end, rows], whose[1 - end, rows], (client, names, ids))
    if repeats:
        notes.append(f"{repeats:,} repeated edges to nodes of others left out.")
    return Divided(place[:, own.all(axis=0)], border, notes)


def _border(
    links: Rows, rows: Indices, end: Indices, place: Indices, other: Indices, own: tuple[int, Sequence[str], Array]
) -> tuple[Border, int]:
    """(the border of some rows, how many of these were there before in the same direction)."""
    client, names, ids = own
    if not len(rows):
        return Border(place, other, (), np.zeros(0, bool)), 0
    code, text = codes_of(np.where(end == 0, *(links[role].texts()[rows] for role in ENDS[::-1])), "id", links.where)
    edge = np.stack([place, other, code])
    _, kept = np.unique(edge, axis=1, return_index=True)
    repeats = len(rows) - np.unique(np.vstack([edge, end]), axis=1).shape[1]
    here, there = ids[place[kept]].tolist(), text[code[kept]].tolist()
    sides = [
        ((mine,), (theirs,)) if whose == ANYBODY else ((names[client], mine), (names[whose], theirs))
        for mine, theirs, whose in zip(here, there, other[kept].tolist(), strict=True)
    ]
    first = np.array([mine < theirs for mine, theirs in sides], bool)
    pairs = [(*min(each), *max(each)) for each in sides]
    return Border(place[kept], other[kept], pairs, first), repeats


# --- whose the ends are -----------------------------------------------------------------------------------------------


def said(links: Rows, clients: Sequence[str]) -> tuple[Indices, tuple[str, ...]]:
    """Return whose the ends are as columns say it, int64 [2, rows], and notes; `UNSAID` where they say nothing.

    Raises `InputError` for a column that is not there, or names no client at all.
    """
    whose = np.full((2, len(links)), UNSAID, np.int64)
    notes = []
    for end, role in enumerate(SIDES):
        if not (column := links.names[role]):
            continue
        if role not in links:
            raise InputError(f"{links.where}: no column {column!r} (data.{role}).{nearest(column, links)}")
        if not len(filled := links[role].filled):
            continue
        code, names = links[role].take(filled).codes()
        number = places_of(np.array(clients), names)
        if strangers := names[number < 0].tolist():
            if len(strangers) == len(names):
                raise links[role].error(filled[:1], "the name of a client", hint=nearest(strangers[0], clients))
            shown = ", ".join(map(repr, strangers[:SHOWN]))
            count, like = np.count_nonzero(number[code] < 0), nearest(strangers[0], clients)
            notes.append(f"{count:,} rows of column {column!r} name no client, such as {shown}.{like}")
        whose[end, filled] = np.where(number < 0, NOBODY, number)[code]
    return whose, tuple(notes)


# --- a client's shard -------------------------------------------------------------------------------------------------


def with_halo(shard: NodeShard, border: Border, addresses: Arrays) -> NodeShard:
    """Return a client's shard, which has edges inside it alone, with those to others that were joined.

    `addresses` are as `tokens.ADDRESSES` has them, one for each claim of the border.
    """
    joined = addresses["owner"] >= 0
    address = addresses["owner"][joined].astype(np.int64) << 32 | addresses["place"][joined]
    halo, number = np.unique(address, return_inverse=True)
    pairs = np.unique(np.stack([border.place[joined], shard.own + number]), axis=1)
    receiver = np.concatenate([np.repeat(np.arange(shard.own), shard.degree), pairs[0]])
    senders = np.concatenate([shard.senders, pairs[1]])
    order = np.lexsort((senders, receiver))
    return replace(
        shard,
        pointers=np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=shard.own))]),
        senders=senders[order].astype(np.int32),
        halo_owner=(halo >> 32).astype(np.int32),
        halo_place=(halo & 0xFFFFFFFF).astype(np.int32),
    )


# --- all clients in one place -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Joined:
    """Edges of all clients, `ends` int64 [2, edges], places of nodes; notes; {client: (bytes down, up)} of matching."""

    ends: Indices
    notes: Sequence[str]
    matching: Mapping[int, tuple[int, int]]


def joined(
    links: Rows,
    is_auto: bool,
    client: Indices,
    code: Indices,
    ids: Array,
    names: Sequence[str],
    is_private: bool = False,
) -> Joined:
    """Join the edges of all clients' tables as their sites would: each divides its own, and claims are matched.

    Of a folder each file is a client's; of one table a client's rows are those of which it has an end.

    Args:
        links: rows of edges.
        is_auto: whether ids are looked for among all clients.
        client: int64 [nodes], whose each node is.
        code: int64 [nodes], which of `ids` it has; nodes of several clients may have one.
        ids: texts, all different.
        names: of all clients.
        is_private: whether sites would match ids by private set intersection, which joins the same and takes more.
    """
    whose, notes = (np.full((2, len(links)), ANYBODY), ()) if is_auto else said(links, names)
    end = np.stack([links[role].among(ids) for role in ENDS])
    if not is_auto and not links.files:
        whose = np.where(whose == UNSAID, _only_owners(client, code, len(ids))[end], whose)
    places = [np.flatnonzero(client == k) for k in range(len(names))]
    parts, rows = {}, _rows_of(links, whose, end, [code[each] for each in places], names)
    for k, (mine, at) in enumerate(zip(rows, places, strict=True)):
        parts[k] = divided(links.take(mine), whose[:, mine], ids[code[at]], k, names, f"the nodes of {names[k]!r}")
    secret = secrets.token_bytes(SECRET_BYTES)
    claims = {k: part.border.claims(secret) for k, part in parts.items()}
    addresses = matched(claims)
    told = [f"{links.where}: {note}" for note in notes]
    if nobodys := len(links) - len(np.unique(np.concatenate(rows))):
        told.append(f"{links.where}: {nobodys:,} edges of which no client has an end left out.")
    for k, part in parts.items():
        found = [*part.notes, *part.border.notes(addresses[k]["owner"], names)]
        told += [f"Client {names[k]!r}: {note}" for note in found]
    sizes = matching_bytes(claims, addresses, len(names), is_private)
    return Joined(_ends_of_all(parts, addresses, places), told, sizes)


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


# --- options ----------------------------------------------------------------------------------------------------------


def borders_of(owner: str, source_client: str, target_client: str) -> Borders:
    """Return how options say that edges between clients are known; `owner` is what errors call them.

    Raises `InputError` where one says that ids are looked for, and the other names a column.
    """
    said_by = {"source_client": source_client, "target_client": target_client}
    if AUTO not in said_by.values():
        return "columns" if source_client or target_client else ""
    for option, name in said_by.items():
        if name not in (AUTO, ""):
            raise InputError(f"{owner}.{option} must be left out, or {AUTO!r} as the other one; got {name!r}.")
    return AUTO
