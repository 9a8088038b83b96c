"""New nodes and their edges: whose they are, among all that clients have."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fedgraft.contracts.values import Indices
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.tables.columns import Source, row_of
from fedgraft.errors import InputError, nearest

Owners = Mapping[str, list[tuple[int, int]]]
"""{id: (client, place among its nodes) of everybody who has it}."""


def owners_of(shards: Sequence[NodeShard], wanted: set[str]) -> Owners:
    """Return who has which of these ids, compared as text, as files hold them."""
    found: dict[str, list[tuple[int, int]]] = {}
    for number, shard in enumerate(shards):
        for place, name in enumerate(map(str, shard.ids)):
            if name in wanted:
                found.setdefault(name, []).append((number, place))
    return found


class Newcomers:
    """Nodes that no client has.

    Args:
        shards: all clients' own parts.
        owners: of the other nodes that `edges` names.
        ids: object [new], theirs.
        edges: text [2, edges], ids of both ends; one of the two is new.
        nodes: where they are listed: the table, and the row of each.
        where: what errors call the table of edges.

    Raises `InputError` for a node that is listed twice, and for edges to nowhere or without a new end.
    """

    def __init__(
        self,
        shards: Sequence[NodeShard],
        owners: Owners,
        ids: NDArray[np.object_],
        edges: NDArray[np.str_],
        nodes: tuple[Source, Indices],
        where: str,
    ) -> None:
        self._shards, self._owners, self._ids, self._where = shards, owners, ids, where
        self._nodes, self._edges = nodes, edges.T.tolist()
        self._number = {str(name): number for number, name in enumerate(ids)}
        for number, name in enumerate(ids):
            if self._number[name] != number:
                raise InputError(f"{self._row(self._number[name])}: new node {name!r} is listed twice.")
        for row, (one, other) in enumerate(self._edges, 1):
            for column, name in (("source", one), ("target", other)):
                if name not in self._number and name not in owners:
                    hint = nearest(name, [*self._number, *(str(each) for shard in shards for each in shard.ids)])
                    raise InputError(
                        f"{where}, row {row}: {column!r} must be a node of a client, or a new one of --nodes; got "
                        f"{name!r}.{hint}"
                    )
            if one not in self._number and other not in self._number:
                raise InputError(
                    f"{where}, row {row}: one end must be a new node of --nodes; got {one!r} and {other!r}, whose "
                    "edges their clients know."
                )

    def clients(self, said: Indices) -> Indices:
        """The client of each: the one that it names (-1 for none), or the one whose nodes it is joined to.

        What joins it may be other new nodes. Raises `InputError` where neither says.
        """
        if len(self._shards) == 1:
            return np.zeros(len(said), np.int64)
        pairs = [[self._number[name] for name in pair] for pair in self._edges if set(pair) <= self._number.keys()]
        ends = np.array(pairs, np.int64).reshape(-1, 2).T
        joined = sparse.coo_matrix((np.ones(len(pairs)), (ends[0], ends[1])), shape=(len(said), len(said)))
        group = connected_components(joined, directed=False)[1].tolist()
        of_group: dict[int, int] = {}
        for number in np.flatnonzero(said >= 0).tolist():
            of_group.setdefault(group[number], int(said[number]))
        for one, other in self._edges:
            known, new = (one, other) if other in self._number else (other, one)
            if len(whose := self._owners.get(known, [])) == 1:
                of_group.setdefault(group[self._number[new]], whose[0][0])
        for number in np.flatnonzero(said < 0).tolist():
            if group[number] not in of_group:
                raise InputError(
                    f"{self._row(number)}: who answers for new node {self._ids[number]!r}? No edge joins it to a node "
                    "that one client has; a column 'client' (or --client) must say."
                )
        return np.array([each if each >= 0 else of_group[group[k]] for k, each in enumerate(said.tolist())], np.int64)

    def ends(self, client: Indices, place: Indices) -> dict[int, Indices]:
        """{client: int64 [2, edges]}, the edges of its new nodes by numbers of nodes.

        Args:
            client: int64 [new], whose each is.
            place: int64 [new], which of that client's nodes.

        Raises `InputError` for an edge between two clients.
        """
        found: dict[int, list[list[int]]] = {}
        for row, pair in enumerate(self._edges, 1):
            new = next(name for name in pair if name in self._number)
            mine, numbers = int(client[self._number[new]]), []
            for name in pair:
                number = self._number.get(name)
                whose = dict(self._owners[name]) if number is None else {int(client[number]): int(place[number])}
                if mine not in whose:
                    others = " and ".join(repr(self._shards[each].name) for each in whose)
                    raise InputError(
                        f"{self._where}, row {row}: node {name!r} is of client {others}, new node {new!r} of "
                        f"{self._shards[mine].name!r}; a new node has edges inside its client only."
                    )
                numbers.append(whose[mine])
            found.setdefault(mine, []).append(numbers)
        return {each: np.array(numbers, np.int64).T for each, numbers in found.items()}

    def _row(self, number: int) -> str:
        source, rows = self._nodes
        return row_of(source, rows[number])
