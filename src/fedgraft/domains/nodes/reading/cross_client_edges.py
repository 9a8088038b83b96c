"""Edges between clients, of tables that say whose their ends are, or whose ids are looked for among all clients.

A client's own tables tell of such an edge the client's own end and the id of the other. It claims the edge by a token
of both ids under a secret that all clients have and the server has not; the server joins what exactly two sides claim
and routes addresses. One machine with all tables does the same: what two sites would not join is not joined there.

Nodes that several clients have: each keeps its own copy, and an edge joins copies of every two of these clients. Such
an edge carries nothing. It is claimed by the names of both clients and the id: what exactly both claim is joined.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.boundary_columns import ENDS, NOBODY, SHARED_WITH, SHOWN, UNSAID, Sharing
from fedgraft.domains.edge_data.edge_columns import Carried, CarriedRows, StoredEdges, repeats_before
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.tables.rows import Cells, Rows, codes_of
from fedgraft.errors import InputError, nearest
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.tokens import ALONE, ANYBODY, SEVERAL, tokens

DOMAIN: Final = "edge between clients"
COPIES: Final = "copies"
"""Last of the texts by which such an edge is claimed, so that it is none that is listed."""
SEPARATOR: Final = ";"
"""Between names of clients in a cell."""
UNKNOWN: Final = "taken as edges to unknown nodes"
"""What becomes of edges with labels whose targets nobody else lists."""


@dataclass(frozen=True, eq=False)
class Boundary:
    """Edges of a client's own nodes to nodes of others, before anybody knows where those are.

    Each is here once, but where edges carry something: then as often as it is listed.

    Args:
        place: int64 [n], its own nodes, by place.
        other: int64 [n], whose the other end is, the number of a client or `ANYBODY`.
        pairs: texts of both ends in an order that both sides know; and which edge of these it is.
        first: bool [n], whether its own end comes first there.
        row: int64 [n], which of its rows carry them, -1 for none.
        along: bool [n], whether they go to its own end.
        copies: how many of them, the last ones, join copies of one node that two clients have.
        guessed: whether copies are of every node and client, for nobody says who has one.
        remarks: notes on what is said of copies.
        are_told: whether those that go out have labels, so that they count where they are not joined, too.
    """

    place: Indices
    other: Indices
    pairs: Sequence[tuple[str, ...]]
    first: Array
    row: Indices
    along: Array
    copies: int = 0
    guessed: bool = False
    remarks: Sequence[str] = ()
    are_told: bool = False

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
        listed = slice(0, len(owner) - self.copies)
        others, owner = self.other[listed], owner[listed]
        told = ~self.along[listed] & self.are_told
        for rows, what in ((~told, "left out"), (told, UNKNOWN)):
            for other, count in _counts(others[rows & (owner == ALONE)]):
                nobody = other == ANYBODY
                whose = "that nobody else lists" if nobody else f"of {clients[other]!r}, which does not list them,"
                notes.append(f"{count:,} edges to nodes {whose} {what}.")
            if several := np.count_nonzero(rows & (owner == SEVERAL)):
                notes.append(f"{several:,} edges of which an end is the id of nodes of several clients {what}.")
        return notes

    def copy_notes(self, owner: Array, clients: Sequence[str]) -> list[str]:
        """Return notes on nodes that others have, too, by the addresses that came back."""
        notes, behind = [*self.remarks], slice(len(owner) - self.copies, None)
        others, owner = self.other[behind], owner[behind]
        for other, count in _counts(others[owner >= 0]):
            notes.append(f"{count:,} nodes that {clients[other]!r} has, too, joined to its copies.")
        for other, count in _counts(others[(owner < 0) & (not self.guessed)]):
            notes.append(f"{count:,} nodes said to be of {clients[other]!r}, too, which does not say so, not joined.")
        return notes


def _counts(others: Indices) -> list[tuple[int, int]]:
    """How often each client is named."""
    values, counts = np.unique(others, return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Divided:
    """Edges of one client's table: `inside`, int64 [2, n], places of own nodes; its boundary; and notes on others.

    What they carry is `carried`, whose rows `row`, int64 [n], are those inside it; None where they carry nothing.
    """

    inside: Indices
    boundary: Boundary
    notes: Sequence[str]
    row: Indices
    carried: CarriedRows | None = None


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
    told = own[0] & ~own[1] & ~other[1] & bool(carried and carried[1].labels)
    counts = [(what, np.count_nonzero(rows & told), np.count_nonzero(rows & ~told)) for what, rows in kinds.items()]
    notes = [f"{count:,} {what} {UNKNOWN}." for what, count, _ in counts if count]
    notes += [f"{count:,} {what} left out." for what, _, count in counts if count]
    across = own.any(axis=0) & other.any(axis=0)
    if carried:
        return _carrying(links, whose, np.where(own, place, -1), (across, told), (client, names, ids), notes, carried)
    rows = np.flatnonzero(across)
    end = own[1, rows].astype(np.int64)  # which of the two is its own
    boundary, repeats = _boundary(links, rows, end, place[end, rows], whose[1 - end, rows], (client, names, ids))
    if repeats:
        notes.append(f"{repeats:,} repeated edges to nodes of others left out.")
    return Divided(place[:, own.all(axis=0)], boundary, notes, np.zeros(0, np.int64))


def _boundary(
    links: Rows, rows: Indices, end: Indices, place: Indices, other: Indices, own: tuple[int, Sequence[str], Array]
) -> tuple[Boundary, int]:
    """(the boundary of some rows, how many of these were there before in the same direction)."""
    if not len(rows):
        nothing = np.zeros(0, bool)
        return Boundary(place, other, (), nothing, rows, nothing), 0
    code, text = _others(links, rows, end)
    edge = np.stack([place, other, code])
    _, kept = np.unique(edge, axis=1, return_index=True)
    repeats = len(rows) - np.unique(np.vstack([edge, end]), axis=1).shape[1]
    pairs, first = _pairs(place[kept], other[kept], text[code[kept]], own)
    return Boundary(place[kept], other[kept], pairs, first, np.full(len(kept), -1), np.ones(len(kept), bool)), repeats


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
    which: tuple[Array, Array],
    own: tuple[int, Sequence[str], Array],
    notes: list[str],
    carried: Carried,
) -> Divided:
    """The edges of a client's rows, which carry something; `place` is that of own ends, -1 for those of others.

    `which` are those to others, and those that have labels and targets of nobody, both bool [rows]. A repeat is an edge
    of its own, told from the others by how many of the same ends, and the same direction if they have one, are listed
    before: so what one side lists more often than the other is not joined.
    """
    (reader, every), (across, told) = carried, which
    rows = np.flatnonzero(across | told | (place >= 0).all(axis=0))
    ends, is_across = place[:, rows], across[rows]
    boundary = np.flatnonzero(is_across)
    end = (ends[1, boundary] >= 0).astype(np.int64)  # which of the two is its own
    other = whose[1 - end, rows[boundary]]
    code, text = _others(links, rows[boundary], end) if len(boundary) else (boundary, np.zeros(0, str))
    number = code + (other - other.min(initial=0)) * len(text)
    ends[1 - end, boundary] = len(own[2]) + np.unique(number, return_inverse=True)[1]  # others' are behind its own
    chosen, kept, more = reader.chosen(ends, every.take(rows))
    row = np.flatnonzero(is_across[chosen])
    at = np.searchsorted(boundary, chosen[row])  # among those of the boundary
    direction = end[at] if reader.directed else np.zeros(len(at), np.int64)
    edge = np.stack([ends[end, boundary][at], other[at], code[at], direction])
    pairs, first = _pairs(edge[0], edge[1], text[code[at]], own)
    goes = (first == (direction == 0)) | (not reader.directed)  # from the first of a pair to the second
    pairs = [(*pair, str(int(way)), str(k)) for pair, way, k in zip(pairs, goes, repeats_before(edge), strict=True)]
    along = (end[at] == 1) | (not reader.directed)
    inside = np.flatnonzero(~is_across[chosen] & (ends[1, chosen] >= 0))
    found = Boundary(edge[0], edge[1], pairs, first, row, along, are_told=kept.labels is not None)
    if kept.labels is not None:
        source = np.where(ends[0, chosen] < len(own[2]), ends[0, chosen], -1)
        kept = replace(kept, labels=replace(kept.labels, source=source))
    return Divided(ends[:, chosen[inside]], found, [*notes, *more], inside, kept)


# --- copies -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Copies:
    """Which nodes are said to be others', too: by the cells of a column, one for each node; None = all by everybody."""

    cells: Cells | None

    @classmethod
    def of(cls, sharing: Sharing, rows: Rows) -> "Copies | None":
        """Return those of rows of nodes; None where there are none. Raises `InputError` where there is no column."""
        if sharing != "column":
            return cls(None) if sharing else None
        if SHARED_WITH not in rows:
            column = rows.names[SHARED_WITH]
            raise InputError(f"{rows.where}: no column {column!r} (data.{SHARED_WITH}).{nearest(column, rows)}")
        return cls(rows[SHARED_WITH])

    def check(self, names: Sequence[str]) -> None:
        """Raise `InputError` for a column that names somebody, but no client."""
        if self.cells is None or not len(self.cells.filled):
            return
        named = {name for cell in self.cells.filled.tolist() for name in _names(self.cells, cell)}
        if named.isdisjoint(names):
            raise self.cells.error(
                self.cells.filled[:1], "the name of a client", hint=nearest(min(named, default=""), names)
            )

    def added(self, boundary: Boundary, nodes: Indices, ids: Array, client: int, names: Sequence[str]) -> Boundary:
        """Return a client's boundary with edges to copies of its nodes behind the others.

        Args:
            boundary: of the client.
            nodes: int64 [own], which of all nodes its own are.
            ids: texts of these.
            client: its number.
            names: of all clients.
        """
        if self.cells is None:
            others = np.array([each for each in range(len(names)) if each != client], np.int64)
            place, other = np.repeat(np.arange(len(nodes)), len(others)), np.tile(others, len(nodes))
            notes: list[str] = []
        else:
            place, other, notes = _said(self.cells.take(nodes), client, names)
        sides = [sorted((names[client], names[whose])) for whose in other.tolist()]
        pairs = [(low, name, high, name, COPIES) for (low, high), name in zip(sides, ids[place].tolist(), strict=True)]
        first = np.array([names[client] < names[whose] for whose in other.tolist()], bool)
        return replace(
            boundary,
            place=np.concatenate([boundary.place, place]),
            other=np.concatenate([boundary.other, other]),
            pairs=[*boundary.pairs, *pairs],
            first=np.concatenate([boundary.first, first]),
            row=np.concatenate([boundary.row, np.full(len(place), -1)]),  # such an edge carries nothing
            along=np.concatenate([boundary.along, np.ones(len(place), bool)]),
            copies=len(place),
            guessed=self.cells is None,
            remarks=notes,
        )


def _names(cells: Cells, cell: int) -> list[str]:
    """The names in a cell."""
    return [name for name in map(str.strip, cells.text(cell).split(SEPARATOR)) if name]


def _said(cells: Cells, client: int, names: Sequence[str]) -> tuple[Indices, Indices, list[str]]:
    """(place of each node, which other client has it, too, notes on names of nobody and of the client itself)."""
    number = {name: each for each, name in enumerate(names)}
    said: set[tuple[int, int]] = set()
    strangers: list[str] = []
    own = 0
    for place in cells.filled.tolist():
        for name in _names(cells, place):
            if name not in number:
                strangers.append(name)
            elif number[name] == client:
                own += 1
            else:
                said.add((place, number[name]))
    notes = []
    if own:
        notes.append(
            f"{own:,} nodes that column {cells.name!r} says {names[client]!r} itself shares are its own alone."
        )
    if strangers:
        shown, like = (
            ", ".join(map(repr, strangers[:SHOWN])),
            nearest(strangers[0], [name for name in names if name != names[client]]),
        )
        notes.append(f"{len(strangers):,} names in column {cells.name!r} are no client's, such as {shown}.{like}")
    found = np.array(sorted(said), np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1], notes


# --- a client's shard -------------------------------------------------------------------------------------------------


def with_halo(
    shard: NodeShard, edges: StoredEdges | None, boundary: Boundary, addresses: Arrays
) -> tuple[NodeShard, StoredEdges | None]:
    """Return a client's shard, which has edges inside it alone, with those to others that were joined.

    `edges` are what its edges carry, which the result has beside those of others, too. `addresses` are as
    `tokens.ADDRESSES` has them, one for each claim of the boundary.
    """
    joined = addresses["owner"] >= 0
    address = addresses["owner"][joined].astype(np.int64) << 32 | addresses["place"][joined]
    halo, number = np.unique(address, return_inverse=True)
    pairs = np.stack([boundary.place[joined], shard.own + number])
    if edges is None:
        pairs = np.unique(pairs, axis=1)
    receiver = np.concatenate([np.repeat(np.arange(shard.own), shard.degree), pairs[0]])
    senders = np.concatenate([shard.senders, pairs[1]])
    order = np.lexsort((senders, receiver))
    if edges is not None:
        row, along = np.append(edges.row, boundary.row[joined]), np.append(edges.along, boundary.along[joined])
        order = np.lexsort((edges.carried.numbers(row), senders, receiver))
        edges = replace(edges, row=row[order], along=along[order])
    found = replace(
        shard,
        pointers=np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=shard.own))]),
        senders=senders[order].astype(np.int32),
        halo_owner=(halo >> 32).astype(np.int32),
        halo_place=(halo & 0xFFFFFFFF).astype(np.int32),
    )
    return found, edges
