"""Edges between clients, of tables that say whose their ends are, or whose ids are looked for among all clients.

A client's own tables tell of such an edge the client's own end and the id of the other. It claims the edge by a token
of both ids under a secret that all clients have and the server has not; the server joins what exactly two sides claim
and routes addresses. One machine with all tables does the same: what two sites would not join is not joined there.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.border_columns import ENDS, NOBODY, UNSAID, said
from fedgraft.domains.edge_data.edge_columns import (
    CarriedRows,
    EdgeReader,
    each_both_ways,
    repeats_before,
    stacked_rows,
)
from fedgraft.domains.edge_data.edge_rows import EdgeRows, stacked_edges
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.tables.rows import Rows, codes_of
from fedgraft.errors import unknown
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.masking import matching_bytes
from fedgraft.wire.tokens import ALONE, ANYBODY, SECRET_BYTES, SEVERAL, matched, tokens

DOMAIN: Final = "edge between clients"


@dataclass(frozen=True, eq=False)
class Border:
    """Edges of a client's own nodes to nodes of others, before anybody knows where those are.

    Each is here once, but where edges carry something: then as often as it is listed.

    Args:
        place: int64 [n], its own nodes, by place.
        other: int64 [n], whose the other end is, the number of a client or `ANYBODY`.
        pairs: texts of both ends in an order that both sides know; and which edge of these it is.
        first: bool [n], whether its own end comes first there.
        row: int64 [n], which of its rows carry them; None where they carry nothing.
        along: bool [n], whether they go to its own end.
    """

    place: Indices
    other: Indices
    pairs: Sequence[tuple[str, ...]]
    first: Array
    row: Indices | None = None
    along: Array | None = None

    def claims(self, secret: bytes) -> Arrays:
        """Return what the client tells the server, as `tokens.CLAIMS` has it."""
        return {
            "token": tokens(secret, DOMAIN, self.pairs),
            "first": np.packbits(self.first),
            "other": self.other.astype(np.int32),
            "place": self.place.astype(np.uint32),
        }

    @property
    def others(self) -> Array:
        """Ids of the other ends, text [n]."""
        sides = np.where(self.other == ANYBODY, 1, 2)  # texts of each end, the last one its id
        where = np.where(self.first, 2 * sides - 1, sides - 1)
        return np.array([pair[k] for pair, k in zip(self.pairs, where.tolist(), strict=True)], str)

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
    """Edges of one client's table: `inside`, int64 [2, n], places of own nodes; its border; and notes on others.

    What they carry is `carried`, whose rows `row`, int64 [n], are those inside it; None where they carry nothing.
    """

    inside: Indices
    border: Border
    notes: Sequence[str]
    carried: CarriedRows | None = None
    row: Indices | None = None


Carried: TypeAlias = tuple[EdgeReader, CarriedRows]
"""How edges are read that carry something, and what the rows of a table carry."""


def divided(
    links: Rows,
    whose: Indices,
    ids: Array,
    client: int,
    names: Sequence[str],
    where: str,
    carried: Carried | None = None,
) -> Divided:
    """Return the edges of a client's rows, those inside it and those to others.

    Args:
        links: its rows of edges.
        whose: int64 [2, rows], whose the ends are: numbers of clients, `ANYBODY`, `UNSAID` or `NOBODY`. An end of
            `ANYBODY` is the client's own where it has the id.
        ids: texts of its own nodes, in their order.
        client: its number.
        names: of all clients.
        where: what notes call its table of nodes.
        carried: what its rows carry; None where they carry nothing.
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
    across = own.any(axis=0) & other.any(axis=0)
    if carried:
        return _carrying(links, whose, np.where(own, place, -1), across, (client, names, ids), notes, carried)
    rows = np.flatnonzero(across)
    end = own[1, rows].astype(np.int64)  # which of the two is its own
    border, repeats = _border(links, rows, end, place[end, rows], whose[1 - end, rows], (client, names, ids))
    if repeats:
        notes.append(f"{repeats:,} repeated edges to nodes of others left out.")
    return Divided(place[:, own.all(axis=0)], border, notes)


def _border(
    links: Rows, rows: Indices, end: Indices, place: Indices, other: Indices, own: tuple[int, Sequence[str], Array]
) -> tuple[Border, int]:
    """(the border of some rows, how many of these were there before in the same direction)."""
    if not len(rows):
        return Border(place, other, (), np.zeros(0, bool)), 0
    code, text = _others(links, rows, end)
    edge = np.stack([place, other, code])
    _, kept = np.unique(edge, axis=1, return_index=True)
    repeats = len(rows) - np.unique(np.vstack([edge, end]), axis=1).shape[1]
    pairs, first = _pairs(place[kept], other[kept], text[code[kept]], own)
    return Border(place[kept], other[kept], pairs, first), repeats


def _others(links: Rows, rows: Indices, end: Indices) -> tuple[Indices, Array]:
    """(code of the end that is another's of each row, their texts); `end` is its own."""
    texts = np.where(end == 0, *(links[role].texts()[rows] for role in ENDS[::-1]))
    return codes_of(texts, "id", links.where)


def _pairs(
    place: Indices, other: Indices, there: Array, own: tuple[int, Sequence[str], Array]
) -> tuple[list[tuple[str, ...]], Array]:
    """(texts of both ends in an order that both sides know, whether its own end is first)."""
    client, names, ids = own
    sides = [
        ((mine,), (theirs,)) if whose == ANYBODY else ((names[client], mine), (names[whose], theirs))
        for mine, theirs, whose in zip(ids[place].tolist(), there.tolist(), other.tolist(), strict=True)
    ]
    return [(*min(each), *max(each)) for each in sides], np.array([mine < theirs for mine, theirs in sides], bool)


def _carrying(
    links: Rows,
    whose: Indices,
    place: Indices,
    across: Array,
    own: tuple[int, Sequence[str], Array],
    notes: list[str],
    carried: Carried,
) -> Divided:
    """The edges of a client's rows, which carry something; `place` is that of own ends, -1 for those of others.

    A repeat is an edge of its own, told from the others by how many of the same ends, and the same direction if they
    have one, are listed before: so what one side lists more often than the other is not joined.
    """
    reader, every = carried
    rows = np.flatnonzero(across | (place >= 0).all(axis=0))
    ends, is_across = place[:, rows], across[rows]
    border = np.flatnonzero(is_across)
    end = (ends[1, border] >= 0).astype(np.int64)  # which of the two is its own
    other = whose[1 - end, rows[border]]
    code, text = _others(links, rows[border], end) if len(border) else (border, np.zeros(0, str))
    number = code + (other - other.min(initial=0)) * len(text)
    ends[1 - end, border] = len(own[2]) + np.unique(number, return_inverse=True)[1]  # others' are behind its own
    chosen, kept, more = reader.chosen(ends, every.take(rows))
    row = np.flatnonzero(is_across[chosen])
    at = np.searchsorted(border, chosen[row])  # among those of the border
    direction = end[at] if reader.directed else np.zeros(len(at), np.int64)
    edge = np.stack([ends[end, border][at], other[at], code[at], direction])
    pairs, first = _pairs(edge[0], edge[1], text[code[at]], own)
    goes = (first == (direction == 0)) | (not reader.directed)  # from the first of a pair to the second
    pairs = [(*pair, str(int(way)), str(k)) for pair, way, k in zip(pairs, goes, repeats_before(edge), strict=True)]
    along = (end[at] == 1) | (not reader.directed)
    inside = np.flatnonzero(~is_across[chosen])
    found = Border(edge[0], edge[1], pairs, first, row, along)
    if kept.labels is not None:
        goes_out = np.ones(len(kept), bool)
        goes_out[row] = end[at] == 0
        kept = replace(kept, labels=replace(kept.labels, goes_out=goes_out))
    return Divided(ends[:, chosen[inside]], found, [*notes, *more], kept, inside)


# --- a client's shard -------------------------------------------------------------------------------------------------


def with_halo(shard: NodeShard, border: Border, addresses: Arrays, carried: EdgeRows | None = None) -> NodeShard:
    """Return a client's shard, which has edges inside it alone, with those to others that were joined.

    `addresses` are as `tokens.ADDRESSES` has them, one for each claim of the border; `carried` is what these carry.
    """
    joined = addresses["owner"] >= 0
    address = addresses["owner"][joined].astype(np.int64) << 32 | addresses["place"][joined]
    halo, number = np.unique(address, return_inverse=True)
    pairs = np.stack([border.place[joined], shard.own + number])
    edge_rows = None
    if carried is None:
        pairs = np.unique(pairs, axis=1)
    else:
        edge_rows = stacked_edges([shard.edge_rows, carried.take(joined)])
    receiver = np.concatenate([np.repeat(np.arange(shard.own), shard.degree), pairs[0]])
    senders = np.concatenate([shard.senders, pairs[1]])
    order = np.lexsort((senders, receiver) if edge_rows is None else (edge_rows.number, senders, receiver))
    return replace(
        shard,
        pointers=np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=shard.own))]),
        senders=senders[order].astype(np.int32),
        edge_rows=None if edge_rows is None else edge_rows.take(order),
        halo_owner=(halo >> 32).astype(np.int32),
        halo_place=(halo & 0xFFFFFFFF).astype(np.int32),
    )


# --- all clients in one place -----------------------------------------------------------------------------------------


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
        reader: how edges are read that carry something.
    """
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
        parts[k] = divided(links.take(mine), whose[:, mine], ids[code[at]], *form)
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
    if not reader:
        return Joined(_ends_of_all(parts, addresses, places), told, sizes)
    return Joined(np.zeros((2, 0), np.int64), told, sizes, _stored(parts, addresses, places, reader.directed))


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
        border = part.border.row[found] + begin, part.border.along[found]
        stored.append((places[client][part.border.place[found]], there, *border))
        counted[client] = begin + np.arange(len(part.carried))
        kept.append(part.carried)
        begin += len(part.carried)
    receiver, sender, row, along = (np.concatenate(each) for each in zip(*stored, strict=True))
    return receiver, sender, row, along, stacked_rows(kept), counted
