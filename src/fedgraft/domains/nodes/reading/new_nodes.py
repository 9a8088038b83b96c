"""Nodes that no client has: whose they are, and to which nodes edges join them, of their client or of others."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.abilities.matching import CLIENTS, ELSEWHERE
from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.boundary_columns import ENDS, SIDES
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.tables.query_routing import Places, clients_said, groups_of
from fedgraft.domains.tables.rows import Rows
from fedgraft.errors import InputError, nearest

Owners: TypeAlias = Mapping[str, Places]
"""{id: everybody who has it, and where}."""
SHOWN: Final = 3
"""Ids that a note lists."""


def ends_of(edges: Rows) -> NDArray[np.str_]:
    """Return the ids of both ends of edges or pairs, text [2, rows]."""
    return np.stack([edges[role].texts() for role in ENDS])


def nowhere(
    rows: Rows, row: int, column: str, name: str, known: Iterable[str], shards: Sequence[NodeShard]
) -> InputError:
    """Return the error of an end that is no node: neither of a client nor one of those that are known."""
    hint = nearest(name, [*known, *(str(each) for shard in shards for each in shard.ids)])
    must = "must be a node of a client, or a new one of --nodes"
    return InputError(f"{rows.row(row)}: {column!r} {must}; got {name!r}.{hint}")


@dataclass(frozen=True)
class RemoteNodes:
    """What a site knows of nodes of others, whose numbers follow those of the clients that are here.

    Args:
        names: of all clients of its federation, in the order of their numbers; () where all data are here.
        owners: of the nodes to which its edges were joined.
    """

    names: tuple[str, ...] = ()
    owners: Owners = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Mapping[str, pd.DataFrame], here: int) -> "RemoteNodes":
        """Return what tables of questions say of it, where so many clients are here."""
        if CLIENTS not in tables:
            return cls()
        owners: dict[str, Places] = {}
        for owner, name, place in tables[ELSEWHERE][["owner", "node", "place"]].itertuples(index=False):
            owners.setdefault(str(name), {})[here + int(owner)] = int(place)
        return cls(tuple(tables[CLIENTS]["name"]), owners)


class Joined(NamedTuple):
    """Edges of one client's new nodes.

    Args:
        ends: int64 [2, edges], numbers of its nodes; -1 - k is the k-th node of others.
        rows: int64 [edges], those of the table of edges.
        others: int64 [others], addresses of nodes of others, client << 32 | place, ascending.
    """

    ends: Indices
    rows: Indices
    others: Indices

    def inside(self) -> "Joined":
        """Return those without nodes of others."""
        kept = (self.ends >= 0).all(axis=0)
        return Joined(self.ends[:, kept], self.rows[kept], NOTHING.others)


NOTHING: Final = Joined(np.zeros((2, 0), np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
"""Of a client without new edges."""


class NewNodes:
    """Nodes that no client has, with the ids `ids`, object [new].

    `owners` are those of the other nodes that `edges` names: rows with the ids of both ends, of which one is new, and
    perhaps whose they are. `nodes` are the rows of the table of nodes that list them. Raises `InputError` for a node
    that is listed twice, and for edges to nowhere or without a new end.
    """

    def __init__(
        self,
        shards: Sequence[NodeShard],
        owners: Owners,
        ids: NDArray[np.object_],
        nodes: Rows,
        edges: Rows,
        elsewhere: RemoteNodes,
    ) -> None:
        self._shards, self._ids, self._nodes, self._rows = shards, ids, nodes, edges
        self._names = [*(shard.name for shard in shards), *elsewhere.names]
        self._pairs = ends_of(edges).T.tolist()
        self._said = np.stack([clients_said(edges, self._names, side) for side in SIDES], axis=1)
        ends = {name for pair in self._pairs for name in pair}
        self._owners = {name: {**elsewhere.owners.get(name, {}), **owners.get(name, {})} for name in ends}
        self._number = {str(name): number for number, name in enumerate(ids)}
        for number, name in enumerate(ids):
            if self._number[name] != number:
                raise InputError(f"{nodes.row(self._number[name])}: new node {name!r} is listed twice.")
        self._new = np.array([[self._new_end(row, end) for end in range(2)] for row in range(len(edges))], np.int64)
        self._new = self._new.reshape(-1, 2)
        self._lost = np.zeros(len(edges), bool)
        for row, end in np.argwhere(self._new < 0).tolist():
            self._lost[row] |= self._is_lost(row, end, bool(elsewhere.names))
        if len(known := np.flatnonzero((self._new < 0).all(axis=1))):
            one, other = self._pairs[known[0]]
            raise InputError(
                f"{edges.row(known[0])}: one end must be a new node of --nodes; got {one!r} and {other!r}, whose "
                "edges their clients know."
            )

    def notes(self) -> list[str]:
        """Return a note on edges to nodes of others of which nobody here knows, if there are any."""
        lost = np.array(self._pairs, object).reshape(-1, 2)[self._lost]
        names = sorted({str(name) for name in lost[self._new[self._lost] < 0].tolist()})
        if not names:
            return []
        shown = ", ".join([*map(repr, names[:SHOWN]), *(["..."] if len(names) > SHOWN else [])])
        return [
            f"{len(lost):,} edges lead to {len(names):,} nodes of other clients that this site was never joined to "
            f"({shown}) and are left out."
        ]

    def clients(self, named: Indices) -> Indices:
        """int64 [new], the client of each: the one that it names (-1 for none), or the one whose nodes it is joined to.

        A column of edges may name it, too; what joins it may be other new nodes. Raises `InputError` where nothing says
        whose it is, or more than one is said.
        """
        named = self._named(named)
        if len(self._shards) == 1:
            return np.zeros(len(named), np.int64)
        inner = [self._ids[pair].tolist() for pair in self._new[(self._new >= 0).all(axis=1)]]
        group = groups_of(list(self._number), map(tuple, inner))
        of_group: dict[int, set[int]] = {}
        for number in np.flatnonzero(named >= 0).tolist():
            of_group.setdefault(group[number], {int(named[number])})
        is_said = set(of_group)
        for row, new in enumerate(self._new.tolist()):
            whose = self._owners_of(row, int(new[0] >= 0)) if min(new) < 0 else {}
            if len(whose) == 1 and group[max(new)] not in is_said:
                of_group.setdefault(group[max(new)], set()).update(whose)
        answerers = zip(named.tolist(), (of_group.get(each, set()) for each in group), strict=True)
        return np.array(
            [each if each >= 0 else self._only(number, whose) for number, (each, whose) in enumerate(answerers)],
            np.int64,
        )

    def joined(self, client: Indices, place: Indices) -> dict[int, Joined]:
        """{client: edges of its new nodes}, each new one at its place, but for those that are lost.

        Raises `InputError` for an edge between new nodes of two clients, and for an end that may be of several others.
        """
        found: dict[int, list[tuple[int, list[int]]]] = {}
        for row in np.flatnonzero(~self._lost).tolist():
            new = self._new[row]
            mine = int(client[new.max()])
            found.setdefault(mine, []).append((row, [self._at(row, end, mine, client, place) for end in range(2)]))
        return {mine: _joined(rows) for mine, rows in found.items()}

    def _new_end(self, row: int, end: int) -> int:
        """The number of the new node that an end is; -1 for a node that the client has which its column names."""
        name, said = self._pairs[row][end], int(self._said[row, end])
        return -1 if said in self._owners[name] else self._number.get(name, -1)

    def _owners_of(self, row: int, end: int) -> Places:
        """Who has a node that is not new, of those whose it may be."""
        said, every = int(self._said[row, end]), self._owners[self._pairs[row][end]]
        return {who: place for who, place in every.items() if said in (-1, who)}

    def _is_lost(self, row: int, end: int, has_others: bool) -> bool:
        """Whether nobody here has or knows a node that is not new, but others may. Raises where they may not."""
        if self._owners_of(row, end):
            return False
        said, name = int(self._said[row, end]), self._pairs[row][end]
        if has_others and not 0 <= said < len(self._shards):
            return True
        if said < 0:
            raise nowhere(self._rows, row, ENDS[end], name, self._number, self._shards)
        ids = [str(each) for each in self._shards[said].ids]
        raise InputError(
            f"{self._rows.row(row)}: client {self._names[said]!r}, which {SIDES[end]!r} names, has no node {name!r}, "
            f"and no new one of --nodes has this id.{nearest(name, ids)}"
        )

    def _named(self, named: Indices) -> Indices:
        """Whose new nodes are as their rows or those of edges name it, int64 [new]; -1 for none."""
        named = named.copy()
        for row, end in np.argwhere((self._new >= 0) & (self._said >= 0)).tolist():
            number, said = int(self._new[row, end]), int(self._said[row, end])
            where, name = f"{self._rows.row(row)}: {SIDES[end]!r}", self._names[said]
            if said >= len(self._shards):
                raise InputError(f"{where} must name who answers for new node {self._ids[number]!r}; got {name!r}.")
            if named[number] not in (-1, said):
                other = self._names[named[number]]
                raise InputError(f"{where} names {name!r} for new node {self._ids[number]!r}, which is of {other!r}.")
            named[number] = said
        return named

    def _only(self, number: int, whose: set[int]) -> int:
        """The only client of those to whose nodes edges lead. Raises `InputError` for none and for several."""
        if len(whose) == 1:
            return next(iter(whose))
        why = "No edge joins it to a node that one client has"
        if whose:
            why = f"Edges join it to nodes of {' and '.join(repr(self._names[each]) for each in sorted(whose))}"
        raise InputError(
            f"{self._nodes.row(number)}: who answers for new node {self._ids[number]!r}? {why}; a column 'client' (or "
            "--client) must say."
        )

    def _at(self, row: int, end: int, mine: int, client: Indices, place: Indices) -> int:
        """The number of an end among a client's nodes; of a node of others -1 - its address."""
        number, name = int(self._new[row, end]), self._pairs[row][end]
        if number >= 0:
            if client[number] != mine:
                here, other = self._names[mine], self._names[client[number]]
                raise InputError(
                    f"{self._rows.row(row)}: new node {name!r} is of client {other!r}, the other end of {here!r}; new "
                    "nodes have edges to each other inside one client only."
                )
            return int(place[number])
        whose = self._owners_of(row, end)
        if mine in whose:
            return whose[mine]
        if len(whose) > 1:
            several = " and ".join(repr(self._names[each]) for each in sorted(whose))
            raise InputError(
                f"{self._rows.row(row)}: node {name!r} is of clients {several}; a column {SIDES[end]!r} must say whose "
                "is meant."
            )
        ((who, there),) = whose.items()
        owner = who - len(self._shards) if who >= len(self._shards) else who
        return -1 - (owner << 32 | there)


def _joined(rows: Sequence[tuple[int, Sequence[int]]]) -> Joined:
    """The edges of one client: rows, and their ends, where nodes of others are -1 - their addresses."""
    ends = np.array([pair for _, pair in rows], np.int64).T
    others, place = np.unique(-1 - ends[ends < 0], return_inverse=True)
    ends[ends < 0] = -1 - place
    return Joined(ends, np.array([row for row, _ in rows], np.int64), others)
