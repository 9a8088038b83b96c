"""New nodes of a typed graph and their edges: whose they are, among all that clients have."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fedgraft.contracts.values import Indices
from fedgraft.domains.tables.asked import Places
from fedgraft.domains.tables.reader import read_asked
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.typed.shards import JOIN, TypedGraph
from fedgraft.domains.typed.tables import ASKED_EDGES, ASKED_ENDS, ENDS
from fedgraft.errors import InputError, nearest, unknown

Node = tuple[str, str]
"""A type, and an id as text."""
Owners = Mapping[Node, Places]
"""{node: everybody who has it, and where}."""


@dataclass(frozen=True, eq=False)
class Links:
    """Edges that questions name.

    Args:
        pairs: both ends of each.
        rows: that list them.
    """

    pairs: list[tuple[Node, Node]]
    rows: Rows


def read_links(tables: Mapping[str, pd.DataFrame], graph: TypedGraph) -> Links:
    """Return the edges of the table "edges"; none where there is no such table.

    Args:
        tables: of questions.
        graph: of a client; all know the same types.

    Raises `InputError` for a type that is none, and for types that have no edges.
    """
    rows = read_asked(tables, ASKED_EDGES)
    kinds, ids = ([rows[role].texts().tolist() for role in roles] for roles in (ENDS, ASKED_ENDS))
    joined = {*graph.edges, *(pair[::-1] for pair in graph.edges)}
    for row, pair in enumerate(zip(*kinds, strict=True)):
        for column, kind in zip(ENDS, pair, strict=True):
            if kind not in graph.ids:
                raise InputError(f"{rows.row(row)}: {column!r}: {unknown('node type', kind, graph.ids)}")
        if pair not in joined:
            there = ", ".join(JOIN.join(known) for known in graph.edges)
            raise InputError(f"{rows.row(row)}: there are no edges {JOIN.join(pair)}; there are {there}.")
    ends = [list(zip(kinds[end], ids[end], strict=True)) for end in (0, 1)]
    return Links(list(zip(*ends, strict=True)), rows)


def owners_of(shards: Sequence[TypedGraph], wanted: Iterable[Node]) -> Owners:
    """Return who has which of these nodes, compared as text, as files hold them."""
    names: dict[str, set[str]] = {}
    for kind, name in wanted:
        names.setdefault(kind, set()).add(name)
    found: dict[Node, Places] = {}
    for number, shard in enumerate(shards):
        for kind, some in names.items():
            for place, name in enumerate(map(str, shard.ids.get(kind, ()))):
                if name in some:
                    found.setdefault((kind, name), {})[number] = place
    return found


class Newcomers:
    """Nodes that no client has, in groups that edges between them make; one client answers for a group.

    Args:
        shards: all clients' own parts.
        owners: of the other nodes that `links` names.
        listed: {id of a new target node: its row in the table of nodes}.
        said: {id of a new target node: the client that its row names}.
        nodes: the rows of that table.
        links: the edges.

    Raises `InputError` for edges to target nodes that are none, and without a new end.
    """

    def __init__(
        self,
        shards: Sequence[TypedGraph],
        owners: Owners,
        listed: Mapping[str, int],
        said: Mapping[str, int],
        nodes: Rows,
        links: Links,
    ) -> None:
        self._shards, self._owners, self._listed, self._said = shards, owners, listed, said
        self._nodes, self._links, self._target = nodes, links, shards[0].target
        for row, pair in enumerate(links.pairs):
            self._check_ends(row, pair)
        self._group = self._groups()
        self._rows: dict[int, list[int]] = {}
        for row, pair in enumerate(links.pairs):
            self._rows.setdefault(self._group_of(pair), []).append(row)
        self._client: dict[int, int] = {}

    @property
    def others(self) -> dict[str, list[str]]:
        """{type: ids of new nodes that are no target nodes}."""
        found: dict[str, list[str]] = {}
        for kind, name in self._group:
            if kind != self._target:
                found.setdefault(kind, []).append(name)
        return found

    def _check_ends(self, row: int, pair: tuple[Node, Node]) -> None:
        for column, node in zip(ASKED_ENDS, pair, strict=True):
            if node[0] == self._target and node not in self._owners and node[1] not in self._listed:
                known = [str(name) for shard in self._shards for name in shard.ids[self._target]]
                hint = nearest(node[1], [*self._listed, *known])
                raise InputError(
                    f"{self._links.rows.row(row)}: {column!r} must be a node of type {self._target!r} of a client, or "
                    f"a new one of --nodes; got {node[1]!r}.{hint}"
                )
        if all(node in self._owners for node in pair):
            ends = " and ".join(f"{kind} {name!r}" for kind, name in pair)
            raise InputError(
                f"{self._links.rows.row(row)}: one end must be new; got {ends}, whose edges their clients know."
            )

    def _groups(self) -> dict[Node, int]:
        """{new node: its group}, of all that are listed or that edges name."""
        listed = [(self._target, name) for name in self._listed]
        new = [end for pair in self._links.pairs for end in pair if end not in self._owners]
        number = {node: each for each, node in enumerate(dict.fromkeys([*listed, *new]))}
        pairs = [[number[end] for end in pair] for pair in self._links.pairs if {*pair} <= number.keys()]
        one, other = np.array(pairs, np.int64).reshape(-1, 2).T
        joined = sparse.coo_matrix((np.ones(len(pairs)), (one, other)), shape=(len(number), len(number)))
        return dict(zip(number, connected_components(joined, directed=False)[1].tolist(), strict=True))

    def _group_of(self, pair: tuple[Node, Node]) -> int:
        return next(self._group[end] for end in pair if end in self._group)

    def client(self, node: Node) -> int:
        """Return who answers for a new node.

        That is the client that a row of its group names, or whose target nodes the group is joined to; else the one
        that alone has all other nodes that the group is joined to. Raises `InputError` where none is, or several are.
        """
        group = self._group[node]
        if group not in self._client:
            self._client[group] = self._found(node, group)
        return self._client[group]

    def _found(self, node: Node, group: int) -> int:
        if len(self._shards) == 1:
            return 0
        firm: dict[int, str] = {}
        for name, said in self._said.items():
            if self._group[self._target, name] == group:
                firm.setdefault(said, self._nodes.row(self._listed[name]))
        among: set[int] | None = None
        for number in self._rows.get(group, ()):
            for end in self._links.pairs[number]:
                whose = self._owners.get(end, {})
                if end[0] == self._target and len(whose) == 1:
                    firm.setdefault(next(iter(whose)), self._links.rows.row(number))
                elif whose:
                    among = set(whose) if among is None else among & set(whose)
        if len(firm) > 1:
            (one, where), (other, there), *_ = firm.items()
            raise InputError(
                f"{there}: new {node[0]} {node[1]!r} would be of client {self._shards[other].name!r}, and of "
                f"{self._shards[one].name!r} by {where}; a new node has edges inside its client only."
            )
        if firm:
            return next(iter(firm))
        if among is not None and len(among) == 1:
            return next(iter(among))
        row = f"{self._nodes.row(self._listed[node[1]])}: " if node[0] == self._target else ""
        raise InputError(
            f"{row}who answers for new {node[0]} {node[1]!r}? No edge joins it to a node that one client has; a column "
            "'client' (or --client) must say."
        )

    def edges_of(self, client: int) -> list[tuple[Node, Node]]:
        """Return the edges of the new nodes that a client answers for."""
        pairs = self._links.pairs
        return [pair for pair in pairs if self.client(next(end for end in pair if end in self._group)) == client]


def placed(
    graph: TypedGraph, owners: Owners, client: int, first: Sequence[str], pairs: Sequence[tuple[Node, Node]]
) -> tuple[dict[str, NDArray[np.object_]], dict[tuple[str, str], Indices]]:
    """Return the new nodes of a client, {type: object [new], ids}, and their edges, {types: int64 [2, edges], places}.

    Places count the client's own nodes first, then the new ones. A node that others have and this client has not is new
    to it.

    Args:
        graph: the client's.
        owners: of the nodes that edges name.
        client: its number.
        first: ids of its new target nodes.
        pairs: both ends of each edge.
    """
    new: dict[str, dict[str, int]] = {kind: {} for kind in graph.ids}
    new[graph.target] = {name: number for number, name in enumerate(first)}
    ends: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for pair in pairs:
        places = []
        for kind, name in pair:
            place = owners.get((kind, name), {}).get(client)
            if place is None:
                place = len(graph.ids[kind]) + new[kind].setdefault(name, len(new[kind]))
            places.append(place)
        kinds = pair[0][0], pair[1][0]
        known = kinds in graph.edges
        ends.setdefault(kinds if known else kinds[::-1], []).append(
            (places[0], places[1]) if known else (places[1], places[0])
        )
    ids = {kind: np.array(list(names), dtype=object) for kind, names in new.items() if names}
    return ids, {kinds: np.array(some, np.int64).T for kinds, some in ends.items()}
