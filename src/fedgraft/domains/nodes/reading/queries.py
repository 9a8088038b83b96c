"""Questions about nodes: whose they are, which are new, and what a client's part is with these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.values import HaloRows, Indices, Questions
from fedgraft.domains.edge_data.boundary_columns import ENDS
from fedgraft.domains.edge_data.edge_columns import DIRECTED, LEFT_OUT, asked_values
from fedgraft.domains.edge_data.edge_rows import EdgeRows, both_ways, stacked_edges, taken
from fedgraft.domains.examples import Features, stacked
from fedgraft.domains.nodes.base.historical_embeddings import States
from fedgraft.domains.nodes.base.shards import NodeShard, Numbers, addresses, undirected
from fedgraft.domains.nodes.reading.new_nodes import NOTHING, Joined, NewNodes, RemoteNodes, ends_of
from fedgraft.domains.nodes.reading.tables import ASKED_EDGES, ASKED_NODES
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.columns import check_given, new_features
from fedgraft.domains.tables.query_routing import feature_columns, ids_near, owners_of, places_known
from fedgraft.domains.tables.reader import OWNER, read_asked
from fedgraft.domains.tables.rows import Rows
from fedgraft.wire.layouts import Tree


@dataclass(frozen=True, eq=False)
class NodeQuery:
    """Questions about nodes to one client.

    Args:
        ids: object [asked], the nodes' ids.
        nodes: int64 [asked], their numbers: 0 .. own - 1 are the client's, new ones follow.
        features: float32 [new, f], of new nodes.
        pointers: int64 [own + new + 1], of a CSR of the edges of new nodes, every edge inside the client both ways.
        senders: int32 [edges], its columns; own + new + k is the k-th of `others`.
        edge_rows: what these carry; None where edges carry nothing.
        others: int64 [others], nodes of others that new ones hear from, client << 32 | place, ascending.
        told: what their owners know of them, where all data are here; None where the client has but what it was told.
    """

    ids: NDArray[np.object_]
    nodes: Indices
    features: Features
    pointers: Indices
    senders: Numbers
    edge_rows: EdgeRows | None = None
    others: Indices = field(default_factory=lambda: np.zeros(0, np.int64))
    told: Any = None


def split_nodes_asked(
    shards: Sequence[NodeShard], tables: Mapping[str, pd.DataFrame], unread: str = ""
) -> dict[int, Questions]:
    """{client: its nodes}, every row of the table "nodes" with one client.

    A row whose id no client has is a new node and needs features, which are not read of other rows, in columns that the
    table "features" names in its column "name", or "0", "1" ... The table "edges" has edges of new nodes, to each
    other, to nodes of the client that answers for them, which is the one that they name or whose nodes they are joined
    to, and to nodes of others: of all clients, or at a site of those that it knows (`RemoteNodes`). What leads to none
    of these is left out at a site, with a note; so is every edge to others where it is said why they are `unread`.

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
    new_nodes = NewNodes(shards, owners, ids[new], listed, edges, RemoteNodes.of(tables, len(shards)))
    features = new_features(listed, columns, shards[0].features[:0], ids[new], near)
    client[new] = new_nodes.clients(client[new])
    for number in np.unique(client[new]).tolist():
        mine = new[client[new] == number]
        place[mine] = shards[number].own + np.arange(len(mine))
    joined = new_nodes.joined(client[new], place[new])
    tell(new_nodes.notes(), f"{OWNER}.edges: ")
    if unread and (count := sum(int((each.ends < 0).any(axis=0).sum()) for each in joined.values())):
        tell([f"{count:,} edges to nodes of other clients left out: {unread}."], f"{OWNER}.edges: ")
        joined = {number: each.inside() for number, each in joined.items()}
    carried = _carried(edges, shards) if carries else None
    questions = {}
    for number in np.unique(client).tolist():
        rows, mine = np.flatnonzero(client == number), np.flatnonzero(client[new] == number)
        edges_asked = _edges(shards[number], len(mine), joined.get(number, NOTHING), carried)
        questions[number] = Questions(rows, NodeQuery(ids[rows], place[rows], features[mine], *edges_asked))
    return questions


def _edges(
    shard: NodeShard, new: int, joined: Joined, carried: "_Carried | None"
) -> tuple[Indices, Numbers, EdgeRows | None, Indices]:
    """(pointers, senders, edge_rows, others) of the edges of a client's new nodes, as `NodeQuery` has them."""
    whole, edge_rows = shard.own + new, None
    every = whole + len(joined.others)
    ends = np.where(joined.ends < 0, whole - 1 - joined.ends, joined.ends)
    if carried:
        pointers, senders, edge_rows, notes = carried.joined(ends, joined.rows, every)
    else:
        pointers, senders, notes = undirected(ends, every, f"{OWNER}.edges, row")
    tell(notes, f"{OWNER}.edges, client {shard.name!r}: ")
    pointers = pointers[: whole + 1]  # nodes of others hear from nobody here
    stored = np.arange(pointers[-1])
    return pointers, senders[stored], taken(edge_rows, stored), joined.others


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
    values, weight = asked_values(edges, known[0], ENDS)
    said = {name: edges.frame[name].to_numpy(bool) for name in (LEFT_OUT, DIRECTED) if name in edges.frame}
    one_way = any(not each.along.all() for each in known)
    directed = bool(said[DIRECTED].any()) if DIRECTED in said else one_way and len(edges) > 0
    return _Carried(values, weight, said.get(LEFT_OUT, np.zeros(len(edges), bool)), directed)


def test_nodes(shard: NodeShard) -> NodeQuery:
    """Return the questions that stand for a client's test nodes."""
    nodes, nobody = shard.rows("test"), np.zeros(0, np.int32)
    return NodeQuery(shard.ids[nodes], nodes, shard.features[:0], np.zeros(shard.own + 1, np.int64), nobody)


def with_new_nodes(shard: NodeShard, questions: NodeQuery) -> NodeShard:
    """The client's part with new nodes behind its own, and nodes of others that these hear from in its halo."""
    new = questions.features.shape[0]
    if not new:
        return shard
    own = shard.own + new
    every = np.union1d(addresses(shard), questions.others)
    before, behind = (
        np.concatenate([np.arange(nodes), own + np.searchsorted(every, others)])
        for nodes, others in ((shard.own, addresses(shard)), (own, questions.others))
    )
    receivers = [np.repeat(np.arange(shard.own), shard.degree), np.repeat(np.arange(own), np.diff(questions.pointers))]
    senders = [before[shard.senders], behind[questions.senders]]
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
        halo_owner=(every >> 32).astype(np.int32),
        halo_place=(every & 0xFFFFFFFF).astype(np.int32),
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
