"""New nodes and their edges: whose they are, among all that clients have."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.tables.asked import Places, groups_of
from fedgraft.domains.tables.rows import Rows
from fedgraft.errors import InputError, nearest

Owners = Mapping[str, Places]
"""{id: everybody who has it, and where}."""


def ends_of(edges: Rows) -> NDArray[np.str_]:
    """Return the ids of both ends of edges or pairs, text [2, rows]."""
    return np.stack([edges[role].texts() for role in ("source", "target")])


def nowhere(
    rows: Rows, row: int, column: str, name: str, known: Iterable[str], shards: Sequence[NodeShard]
) -> InputError:
    """Return the error of an end that is no node: neither of a client nor one of those that are known."""
    hint = nearest(name, [*known, *(str(each) for shard in shards for each in shard.ids)])
    must = "must be a node of a client, or a new one of --nodes"
    return InputError(f"{rows.row(row)}: {column!r} {must}; got {name!r}.{hint}")


class Newcomers:
    """Nodes that no client has.

    Args:
        shards: all clients' own parts.
        owners: of the other nodes that `edges` names.
        ids: object [new], theirs.
        nodes: the rows of the table of nodes that list them.
        edges: rows with the ids of both ends; one of the two is new.

    Raises `InputError` for a node that is listed twice, and for edges to nowhere or without a new end.
    """

    def __init__(
        self, shards: Sequence[NodeShard], owners: Owners, ids: NDArray[np.object_], nodes: Rows, edges: Rows
    ) -> None:
        self._shards, self._owners, self._ids, self._nodes, self._rows = shards, owners, ids, nodes, edges
        self._edges = [tuple(pair) for pair in ends_of(edges).T.tolist()]
        self._number = {str(name): number for number, name in enumerate(ids)}
        for number, name in enumerate(ids):
            if self._number[name] != number:
                raise InputError(f"{nodes.row(self._number[name])}: new node {name!r} is listed twice.")
        for row, (one, other) in enumerate(self._edges):
            for column, name in (("source", one), ("target", other)):
                if name not in self._number and name not in owners:
                    raise nowhere(edges, row, column, name, self._number, shards)
            if one not in self._number and other not in self._number:
                raise InputError(
                    f"{edges.row(row)}: one end must be a new node of --nodes; got {one!r} and {other!r}, whose "
                    "edges their clients know."
                )

    def clients(self, said: Indices) -> Indices:
        """The client of each: the one that it names (-1 for none), or the one whose nodes it is joined to.

        What joins it may be other new nodes. Raises `InputError` where neither says.
        """
        if len(self._shards) == 1:
            return np.zeros(len(said), np.int64)
        group = groups_of(list(self._number), self._edges)
        of_group: dict[int, int] = {}
        for number in np.flatnonzero(said >= 0).tolist():
            of_group.setdefault(group[number], int(said[number]))
        for one, other in self._edges:
            known, new = (one, other) if other in self._number else (other, one)
            if len(whose := self._owners.get(known, {})) == 1:
                of_group.setdefault(group[self._number[new]], next(iter(whose)))
        for number in np.flatnonzero(said < 0).tolist():
            if group[number] not in of_group:
                raise InputError(
                    f"{self._nodes.row(number)}: who answers for new node {self._ids[number]!r}? No edge joins it to a "
                    "node that one client has; a column 'client' (or --client) must say."
                )
        return np.array([each if each >= 0 else of_group[group[k]] for k, each in enumerate(said.tolist())], np.int64)

    def ends(self, client: Indices, place: Indices) -> dict[int, Indices]:
        """{client: int64 [2, edges]}, edges of its new nodes by numbers of nodes, where each new one has a place.

        Raises `InputError` for an edge between two clients.
        """
        found: dict[int, list[list[int]]] = {}
        for row, pair in enumerate(self._edges):
            new = next(name for name in pair if name in self._number)
            mine, numbers = int(client[self._number[new]]), []
            for name in pair:
                number = self._number.get(name)
                whose = self._owners[name] if number is None else {int(client[number]): int(place[number])}
                if mine not in whose:
                    others = " and ".join(repr(self._shards[each].name) for each in whose)
                    raise InputError(
                        f"{self._rows.row(row)}: node {name!r} is of client {others}, new node {new!r} of "
                        f"{self._shards[mine].name!r}; a new node has edges inside its client only."
                    )
                numbers.append(whose[mine])
            found.setdefault(mine, []).append(numbers)
        return {each: np.array(numbers, np.int64).T for each, numbers in found.items()}
