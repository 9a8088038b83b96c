"""Questions about target nodes of typed graphs: whose they are, which are new, and a client's graph with these."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices, Questions
from fedgraft.domains.edge_data.edge_columns import LEFT_OUT, asked_values
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.examples import Features, stacked
from fedgraft.domains.notes import LOG
from fedgraft.domains.tables import query_routing
from fedgraft.domains.tables.columns import new_features
from fedgraft.domains.tables.query_routing import Places, feature_columns, ids_near, places_known
from fedgraft.domains.tables.reader import OWNER, read_asked
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.typed.partitions import structural_features
from fedgraft.domains.typed.shards import JOIN, EdgeType, TypedGraph, distinct
from fedgraft.domains.typed.tables import ASKED_EDGES, ASKED_ENDS, ASKED_NODES, ENDS
from fedgraft.errors import InputError, nearest, unknown

Node = tuple[str, str]
"""A type, and an id as text."""
Owners = Mapping[Node, Places]
"""{node: everybody who has it, and where}."""
Link = tuple[Node, Node]
"""Both ends of an edge."""


def read_links(tables: Mapping[str, pd.DataFrame], graph: TypedGraph) -> tuple[list[Link], Rows]:
    """Return the edges of the table "edges", none without one, and the rows that list them.

    Rows that a data set has left out are none. Raises `InputError` for a type that is none of the graph of a client,
    and for types that have no edges.
    """
    rows = read_asked(tables, replace(ASKED_EDGES, rest=graph.edge_rows is not None))
    if LEFT_OUT in rows.frame:
        rows = rows.take(np.flatnonzero(~rows.frame[LEFT_OUT].to_numpy(bool)))
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
    return list(zip(*ends, strict=True)), rows


def rows_asked(rows: Rows, graph: TypedGraph) -> EdgeRows | None:
    """Return what edges carry, in columns "0" ... and "weight", as a client's graph has it; None where it is nothing.

    Raises `InputError` for a column that is not there.
    """
    if (known := graph.carried) is None:
        return None
    values, weight = asked_values(rows, known, ASKED_EDGES.roles)
    return EdgeRows(values, np.ones(len(rows), bool), np.arange(len(rows)), weight)


def owners_of(shards: Sequence[TypedGraph], wanted: Iterable[Node]) -> Owners:
    """Return who has which of these nodes, compared as text, as files hold them."""
    names: dict[str, set[str]] = {}
    for kind, name in wanted:
        names.setdefault(kind, set()).add(name)
    owners_by_node: dict[Node, Places] = {}
    for kind, some in names.items():
        owners = query_routing.owners_of([shard.ids.get(kind, ()) for shard in shards], some)
        owners_by_node |= {(kind, name): places for name, places in owners.items()}
    return owners_by_node


class NewNodes:
    """Nodes that no client has, in groups that edges between them make; one client answers for a group.

    `owners` are those of the other nodes that `pairs`, both ends of each edge, name; `edges` are the rows that list
    these. Of new target nodes `listed` has {id: its row in the table of nodes} and `named` {id: the client that its row
    names}. Raises `InputError` for edges to target nodes that are none, and without a new end.
    """

    def __init__(
        self,
        shards: Sequence[TypedGraph],
        owners: Owners,
        listed: Mapping[str, int],
        named: Mapping[str, int],
        nodes: Rows,
        pairs: Sequence[Link],
        edges: Rows,
    ) -> None:
        self._shards, self._owners, self._listed, self._named = shards, owners, listed, named
        self._nodes, self._pairs, self._edges, self._target = nodes, pairs, edges, shards[0].target
        for row, pair in enumerate(pairs):
            self._check_ends(row, pair)
        ends = [end for pair in pairs for end in pair if end not in owners]
        new = list(dict.fromkeys([*((self._target, name) for name in listed), *ends]))
        self._group = dict(zip(new, query_routing.groups_of(new, pairs), strict=True))
        self._rows: dict[int, list[int]] = {}
        for row, pair in enumerate(pairs):
            self._rows.setdefault(next(self._group[end] for end in pair if end in self._group), []).append(row)
        self._client: dict[int, int] = {}

    @property
    def others(self) -> dict[str, list[str]]:
        """{type: ids of new nodes that are no target nodes}."""
        ids: dict[str, list[str]] = {}
        for kind, name in self._group:
            if kind != self._target:
                ids.setdefault(kind, []).append(name)
        return ids

    def _check_ends(self, row: int, pair: Link) -> None:
        for column, node in zip(ASKED_ENDS, pair, strict=True):
            if node[0] == self._target and node not in self._owners and node[1] not in self._listed:
                known = [str(name) for shard in self._shards for name in shard.ids[self._target]]
                hint = nearest(node[1], [*self._listed, *known])
                raise InputError(
                    f"{self._edges.row(row)}: {column!r} must be a node of type {self._target!r} of a client, or "
                    f"a new one of --nodes; got {node[1]!r}.{hint}"
                )
        if all(node in self._owners for node in pair):
            got = " and ".join(f"{kind} {name!r}" for kind, name in pair)
            raise InputError(f"{self._edges.row(row)}: one end must be new; got {got}, whose edges their clients know.")

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
        for name, client in self._named.items():
            if self._group[self._target, name] == group:
                firm.setdefault(client, self._nodes.row(self._listed[name]))
        among: set[int] | None = None
        for number in self._rows.get(group, ()):
            for end in self._pairs[number]:
                whose = self._owners.get(end, {})
                if end[0] == self._target and len(whose) == 1:
                    firm.setdefault(next(iter(whose)), self._edges.row(number))
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

    def edges_of(self, client: int) -> list[int]:
        """Return which edges are of the new nodes that a client answers for."""
        whose = (self.client(next(end for end in pair if end in self._group)) for pair in self._pairs)
        return [row for row, each in enumerate(whose) if each == client]


def placed(
    graph: TypedGraph, owners: Owners, client: int, first: Sequence[str], pairs: Sequence[Link]
) -> tuple[dict[str, NDArray[np.object_]], dict[EdgeType, Indices], dict[EdgeType, list[int]]]:
    """Return a client's new nodes, {type: object [new], ids}, and their edges, {types: int64 [2, edges], places}.

    And {types: which of the pairs each of these edges is}.

    Places count the client's own nodes first, then the new ones, of which `first` are the target nodes. A node that
    others have and this client has not is new to it.
    """
    new: dict[str, dict[str, int]] = {kind: {} for kind in graph.ids}
    new[graph.target] = {name: number for number, name in enumerate(first)}
    ends: dict[EdgeType, list[tuple[int, int]]] = {}
    rows: dict[EdgeType, list[int]] = {}
    for row, pair in enumerate(pairs):
        places = []
        for kind, name in pair:
            place = owners.get((kind, name), {}).get(client)
            if place is None:
                place = len(graph.ids[kind]) + new[kind].setdefault(name, len(new[kind]))
            places.append(place)
        kinds = pair[0][0], pair[1][0]
        known = kinds in graph.edges
        kinds = kinds if known else kinds[::-1]
        ends.setdefault(kinds, []).append((places[0], places[1]) if known else (places[1], places[0]))
        rows.setdefault(kinds, []).append(row)
    ids = {kind: np.array(list(names), dtype=object) for kind, names in new.items() if names}
    return ids, {kinds: np.array(some, np.int64).T for kinds, some in ends.items()}, rows


@dataclass(frozen=True, eq=False)
class TypedNodeQuery:
    """Questions about target nodes to one client.

    Args:
        ids: object [asked], the nodes' ids.
        nodes: int64 [asked], their places: the client's target nodes first, then new ones.
        new: {type: object [new], ids} of nodes that the client has not.
        features: float32 [new target nodes, f]; None where features are made of what a client holds.
        edges: {types: int64 [2, edges]}, edges of new nodes, by places, the client's nodes first.
        edge_rows: {types: what they carry}; None for nothing.
    """

    ids: NDArray[np.object_]
    nodes: Indices
    new: Mapping[str, NDArray[np.object_]]
    features: "Features | None"
    edges: Mapping[EdgeType, Indices]
    edge_rows: Mapping[EdgeType, EdgeRows] | None = None


def split_typed_nodes_asked(shards: Sequence[TypedGraph], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
    """Return {client: its target nodes}, every row of the table "nodes" with one client.

    A row whose id no client has is a new node and needs features, which are not read of other rows: in columns that
    the table "features" names, or "0", "1" ...; in none where they are made of what a client
    holds. The table "edges" has edges of new nodes, and of nodes of other types that come with them.

    Raises `InputError` for whatever is missing, unknown or without a client.
    """
    rows = read_asked(tables, ASKED_NODES)
    ids = rows["node"].texts().astype(object)
    target, names = shards[0].target, [shard.name for shard in shards]
    pairs, edges = read_links(tables, shards[0])
    carried = rows_asked(edges, shards[0])
    ends = [node for pair in pairs for node in pair]
    owners = owners_of(shards, [*((target, name) for name in ids), *ends])
    client, place = places_known(rows, ids, lambda name: owners.get((target, name), {}), names)
    new = np.flatnonzero(place < 0)
    listed: dict[str, int] = {}
    for row in new.tolist():
        if listed.setdefault(ids[row], row) != row:
            raise InputError(f"{rows.row(listed[ids[row]])}: new node {ids[row]!r} is listed twice.")
    columns = feature_columns(tables, shards[0].width)
    values = _features(shards, rows.take(new), ids[new], client[new], columns, {*ends})
    named = {ids[row]: int(client[row]) for row in new.tolist() if client[row] >= 0}
    new_nodes = NewNodes(shards, owners, listed, named, rows, pairs, edges)
    for kind, new_ids in new_nodes.others.items():
        LOG.warning(f"{OWNER}.edges: {len(new_ids):,} new nodes of type {kind!r}, such as {new_ids[0]!r}.")
    client[new] = [new_nodes.client((target, ids[row])) for row in new.tolist()]
    questions = {}
    for number in np.unique(client).tolist():
        here, mine = np.flatnonzero(client == number), np.flatnonzero(client[new] == number)
        place[new[mine]] = shards[number].targets + np.arange(len(mine))
        first, own = ids[new[mine]].tolist(), new_nodes.edges_of(number)
        added, joined, rows_of = placed(shards[number], owners, number, first, [pairs[row] for row in own])
        told = None if carried is None else carried.take(np.array(own, np.int64))
        carrying = None if told is None else {kinds: told.take(np.array(rows)) for kinds, rows in rows_of.items()}
        features = None if values is None else values[mine]
        of_client = TypedNodeQuery(ids[here], place[here], added, features, joined, carrying)
        questions[number] = Questions(here, of_client)
    return questions


def with_new_nodes(graph: TypedGraph, questions: TypedNodeQuery) -> tuple[TypedGraph, Indices]:
    """Return the client's graph with new nodes behind its own, and places of the nodes asked about, int64 [asked].

    Features that are made of what the client holds are made anew, of all its target nodes.
    """
    if not questions.new:
        return graph, questions.nodes
    new = len(questions.new.get(graph.target, ()))
    edges, edge_rows = dict(graph.edges), None if graph.edge_rows is None else dict(graph.edge_rows)
    for pair, ends in questions.edges.items():
        edges[pair], first = distinct(np.concatenate([edges[pair], ends], axis=1), pair[0] == pair[1])
        if edge_rows is not None and questions.edge_rows is not None:
            edge_rows[pair] = EdgeRows.stacked([edge_rows[pair], questions.edge_rows[pair]]).take(first)
    features = np.zeros((new, graph.width), np.float32) if questions.features is None else questions.features
    extended = replace(
        graph,
        ids={kind: np.concatenate([known, questions.new.get(kind, known[:0])]) for kind, known in graph.ids.items()},
        features=stacked([graph.features, features]),
        label=np.concatenate([graph.label, np.full(new, -1)]),
        split=np.concatenate([graph.split, np.full(new, -1, np.int8)]),
        edges=edges,
        edge_rows=edge_rows,
    )
    if questions.features is None:
        extended = replace(extended, features=structural_features(extended))
    return extended, questions.nodes


def _features(
    shards: Sequence[TypedGraph],
    new: Rows,
    ids: NDArray[np.object_],
    client: Indices,
    columns: Sequence[str],
    linked: Collection[Node],
) -> "Features | None":
    """Float32 [new, f], of new target nodes; None where they are made of what a client holds.

    Raises `InputError` for a new node without features, or where these are made without edges: its id is taken for
    wrong.
    """
    target = shards[0].target
    near = ids_near([shard.ids[target] for shard in shards], client)
    if columns:
        return new_features(new, columns, shards[0].features[:0], ids, near)
    if lonely := [row for row, name in enumerate(ids) if (target, name) not in linked]:
        name = ids[lonely[0]]
        end = f".{nearest(name, near(lonely[0]))} A new node needs edges, in the table of edges."
        raise new.error(lonely, f"no client has a {target} {name!r}", end=end)
    return None
