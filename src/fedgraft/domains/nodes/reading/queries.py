"""Questions about nodes: whose they are, which are new, and what a client's part is with these."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.values import HaloRows, Indices, Questions
from fedgraft.domains.edge_data.edge_columns import DIRECTED, LEFT_OUT
from fedgraft.domains.edge_data.edge_rows import EdgeRows, both_ways, stacked_edges, taken
from fedgraft.domains.examples import Features, stacked
from fedgraft.domains.nodes.base.historical_embeddings import States
from fedgraft.domains.nodes.base.shards import NodeShard, Numbers, undirected
from fedgraft.domains.nodes.reading.tables import ASKED_EDGES, ASKED_NODES
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.asked import Places, feature_columns, groups_of, ids_near, owners_of, places_known
from fedgraft.domains.tables.features import check_given, check_present, new_features
from fedgraft.domains.tables.reader import OWNER, read_asked
from fedgraft.domains.tables.rows import Rows
from fedgraft.errors import InputError, nearest
from fedgraft.wire.layouts import Tree

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
    """Nodes that no client has, with the ids `ids`, object [new].

    `owners` are those of the other nodes that `edges` names: rows with the ids of both ends, of which one is new.
    `nodes` are the rows of the table of nodes that list them. Raises `InputError` for a node that is listed twice, and
    for edges to nowhere or without a new end.
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

    def clients(self, named: Indices) -> Indices:
        """int64 [new], the client of each: the one that it names (-1 for none), or the one whose nodes it is joined to.

        What joins it may be other new nodes. Raises `InputError` where neither says.
        """
        if len(self._shards) == 1:
            return np.zeros(len(named), np.int64)
        group = groups_of(list(self._number), self._edges)
        of_group: dict[int, int] = {}
        for number in np.flatnonzero(named >= 0).tolist():
            of_group.setdefault(group[number], int(named[number]))
        for one, other in self._edges:
            known, new = (one, other) if other in self._number else (other, one)
            if len(whose := self._owners.get(known, {})) == 1:
                of_group.setdefault(group[self._number[new]], next(iter(whose)))
        for number in np.flatnonzero(named < 0).tolist():
            if group[number] not in of_group:
                raise InputError(
                    f"{self._nodes.row(number)}: who answers for new node {self._ids[number]!r}? No edge joins it to a "
                    "node that one client has; a column 'client' (or --client) must say."
                )
        return np.array([each if each >= 0 else of_group[group[k]] for k, each in enumerate(named.tolist())], np.int64)

    def ends(self, client: Indices, place: Indices) -> dict[int, tuple[Indices, Indices]]:
        """{client: edges of its new nodes}, numbers of nodes, int64 [2, edges], each new one at its place; and rows.

        Raises `InputError` for an edge between two clients.
        """
        edges: dict[int, list[list[int]]] = {}
        rows: dict[int, list[int]] = {}
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
            edges.setdefault(mine, []).append(numbers)
            rows.setdefault(mine, []).append(row)
        return {each: (np.array(numbers, np.int64).T, np.array(rows[each])) for each, numbers in edges.items()}


@dataclass(frozen=True, eq=False)
class Asked:
    """Questions about nodes to one client.

    Args:
        ids: object [asked], the nodes' ids.
        nodes: int64 [asked], their numbers: 0 .. own - 1 are the client's, new ones follow.
        features: float32 [new, f], of new nodes.
        pointers: int64 [own + new + 1], of a CSR of the edges of new nodes, every edge both ways.
        senders: int32 [edges], its columns.
        edge_rows: what these carry; None where edges carry nothing.
    """

    ids: NDArray[np.object_]
    nodes: Indices
    features: Features
    pointers: Indices
    senders: Numbers
    edge_rows: EdgeRows | None = None


def split_nodes_asked(shards: Sequence[NodeShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
    """{client: its nodes}, every row of the table "nodes" with one client.

    A row whose id no client has is a new node and needs features, which are not read of other rows, in columns that the
    table "features" names in its column "name", or "0", "1" ... The table "edges" has edges of new nodes, to each other
    or to nodes of the client that answers for them: the one that they name, or whose nodes they are joined to.

    Raises `InputError` for whatever is missing, unknown or without a client.
    """
    nodes = read_asked(tables, ASKED_NODES)
    ids = nodes["node"].texts().astype(object)
    carries = any(shard.edge_rows is not None for shard in shards)
    edges = read_asked(tables, replace(ASKED_EDGES, rest=carries))
    known = [shard.ids for shard in shards]
    owners = owners_of(known, {*ids, *ends_of(edges).ravel().tolist()})
    client, place = places_known(nodes, ids, lambda name: owners.get(name, {}), [shard.name for shard in shards])
    new = np.flatnonzero(place < 0)
    columns = feature_columns(tables, shards[0].width)
    listed, near = nodes.take(new), ids_near(known, client[new])
    check_given(listed, columns, ids[new], near)
    newcomers = Newcomers(shards, owners, ids[new], listed, edges)
    features = new_features(listed, columns, shards[0].features[:0], ids[new], near)
    client[new] = newcomers.clients(client[new])
    for number in np.unique(client[new]).tolist():
        mine = new[client[new] == number]
        place[mine] = shards[number].own + np.arange(len(mine))
    ends = newcomers.ends(client[new], place[new])
    carried = _carried(edges, shards) if carries else None
    questions = {}
    for number in np.unique(client).tolist():
        rows, mine = np.flatnonzero(client == number), np.flatnonzero(client[new] == number)
        pairs, at = ends.get(number, (np.zeros((2, 0), np.int64), np.zeros(0, np.int64)))
        whole, where = shards[number].own + len(mine), f"{OWNER}.edges, client {shards[number].name!r}: "
        if carried:
            pointers, senders, edge_rows, notes = carried.joined(pairs, at, whole)
        else:
            edge_rows = None
            pointers, senders, notes = undirected(pairs, whole, f"{OWNER}.edges, row")
        tell(notes, where)
        asked = Asked(ids[rows], place[rows], features[mine], pointers, senders, edge_rows)
        questions[number] = Questions(rows, asked)
    return questions


@dataclass(frozen=True, eq=False)
class _Carried:
    """What rows of edges carry, as `EdgeRows` has it; `left_out`, bool [rows], are none of the graph."""

    values: NDArray[np.float32]
    weight: NDArray[np.float32] | None
    left_out: NDArray[np.bool_]
    directed: bool

    def joined(self, ends: Indices, rows: Indices, nodes: int) -> tuple[Indices, Numbers, EdgeRows, tuple[str, ...]]:
        """(pointers, senders, edge_rows, notes) of edges that are some of the rows; `ends` are int64 [2, edges]."""
        there, loops = ~self.left_out[rows], ends[0] == ends[1]
        count, kept = int((there & loops).sum()), there & ~loops
        notes = (f"{count:,} edges from a node to itself left out.",) if count else ()
        weight = None if self.weight is None else self.weight[rows[kept]]
        return *both_ways(ends[:, kept], self.values[rows[kept]], nodes, self.directed, weight), notes


def _carried(edges: Rows, shards: Sequence[NodeShard]) -> _Carried:
    """What edges carry whose columns `asked_carried` made, or "0", "1" ..., and "weight", as a data set has them."""
    known = [shard.edge_rows for shard in shards if shard.edge_rows is not None]
    names, weighted = [str(place) for place in range(known[0].width)], known[0].weight is not None
    wanted = [*names, *(["weight"] if weighted else [])]
    if not len(edges):
        nothing = np.zeros((0, len(names)), np.float32)
        return _Carried(nothing, np.zeros(0, np.float32) if weighted else None, np.zeros(0, bool), False)
    check_present(edges, wanted, "which edges of the run's data carry", ("source", "target"))
    values = np.zeros((len(edges), len(names)), np.float32)
    for place, name in enumerate(names):
        values[:, place] = edges.column(name).numbers()
    said = {name: edges.frame[name].to_numpy(bool) for name in (LEFT_OUT, DIRECTED) if name in edges.frame}
    weight = edges.column("weight").numbers().astype(np.float32) if weighted else None
    one_way = any(not each.along.all() for each in known)
    directed = bool(said[DIRECTED].any()) if DIRECTED in said else one_way
    return _Carried(values, weight, said.get(LEFT_OUT, np.zeros(len(edges), bool)), directed)


def test_nodes(shard: NodeShard) -> Asked:
    """Return the questions that stand for a client's test nodes."""
    nodes, nobody = shard.rows("test"), np.zeros(0, np.int32)
    return Asked(shard.ids[nodes], nodes, shard.features[:0], np.zeros(shard.own + 1, np.int64), nobody)


def with_new_nodes(shard: NodeShard, questions: Asked) -> NodeShard:
    """The client's part with new nodes behind its own; the halo stays as it is."""
    new = questions.features.shape[0]
    if not new:
        return shard
    own = shard.own + new
    receivers = [np.repeat(np.arange(shard.own), shard.degree), np.repeat(np.arange(own), np.diff(questions.pointers))]
    senders = [np.where(shard.senders < shard.own, shard.senders, shard.senders + new), questions.senders]
    receiver, sender = np.concatenate(receivers), np.concatenate(senders)
    carried = _behind(shard.edge_rows, questions.edge_rows)
    order = np.lexsort((sender, receiver) if carried is None else (carried.number, sender, receiver))
    is_new = questions.nodes >= shard.own
    ids = np.concatenate([shard.ids, np.full(new, "", dtype=object)])
    ids[questions.nodes[is_new]] = questions.ids[is_new]
    return replace(
        shard,
        ids=ids,
        features=stacked([shard.features, questions.features]),
        label=np.concatenate([shard.label, np.full(new, -1 if shard.classes else np.nan)]),
        split=np.concatenate([shard.split, np.full(new, -1, np.int8)]),
        pointers=np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=own))]),
        senders=sender[order].astype(np.int32),
        edge_rows=taken(carried, order),
    )


def _behind(known: EdgeRows | None, new: EdgeRows | None) -> EdgeRows | None:
    """What edges carry and, behind it, what those of new nodes do, whose rows go on from the others'."""
    if known is None or new is None:
        return None
    begin = int(known.number.max(initial=-1)) + 1
    return stacked_edges([known, replace(new, number=new.number + begin)])


def remembered_halo(remembered: Tree, own: int, halo: int, widths: Sequence[int]) -> list[HaloRows]:
    """Return the halo states that a client remembers: by now it may have more nodes of its own.

    `remembered` is what `States.to_tree` returned, or None, when it had `own` nodes, and a halo of so many.
    """
    states = States(own, halo, widths, remembered)
    slots = [np.flatnonzero(known[own:]) for known in states.known]
    return [HaloRows(slot, rows[own + slot]) for slot, rows in zip(slots, states.rows, strict=True)]
