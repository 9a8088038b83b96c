"""Tell each other, once before training, what came before edges between clients at the end that only one of them has.

The client of an edge's target tells the client of its source what came before it at the target, and of each node with
an edge between them what came at all. No ids travel: both count the edges between them in one order, by the places of
target and source, and by time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.edges.history import NODE_PARTS, before_at
from fedgraft.domains.edges.order_of_time import EVER
from fedgraft.domains.edges.shards import EdgeShard
from fedgraft.domains.notes import LOG
from fedgraft.errors import WireError
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout, Spec

CLIENTS, COUNTS, ROWS = "history_clients", "history_counts", "history"
"""uint32 [others] whom a client tells something, uint32 [others] how many rows, float32 [rows, width] for all of them.
"""


@dataclass(frozen=True)
class HistoryExchange:
    """The exchange, of edges that carry so many columns; where it is `sealed` the server cannot read histories."""

    edge_width: int
    encrypted: bool = False

    @property
    def width(self) -> int:
        """int, columns of a row."""
        return NODE_PARTS * (1 + self.edge_width)

    @property
    def statistics_layout(self) -> Layout:
        """Layout of what a client publishes."""
        counts = (Spec(name, "uint32", (VARIABLE,), "rows") for name in (CLIENTS, COUNTS))
        return Layout((*counts, Spec(ROWS, "float32", (VARIABLE, self.width), "features")))

    @property
    def combined_layout(self) -> Layout:
        """Layout of what a client gets back: the same, of who told it something."""
        return self.statistics_layout

    def statistics(self, shard: EdgeShard) -> Arrays:
        """Return what a client publishes: for each other client, rows of edges that come from it, then of nodes."""
        graph = shard.graph
        rows = graph.edge_rows
        assert rows is not None and rows.order is not None, "a shard was checked"  # noqa: PT018
        receiver = np.repeat(np.arange(graph.own), graph.degree)
        outside = np.flatnonzero(graph.senders >= graph.own)
        halo = graph.senders[outside] - graph.own
        owner, place, node = graph.halo_owner[halo], graph.halo_place[halo], receiver[outside]
        order, comes = rows.order[outside], rows.along[outside] & (rows.order[outside] > EVER)
        clients, counts, nodes, until = np.unique(owner), [], [], []
        for client in clients.tolist():
            mine = np.flatnonzero((owner == client) & comes)
            mine = mine[np.lexsort((order[mine], place[mine], node[mine]))]
            joined = np.unique(node[owner == client])
            nodes += [node[mine], joined]
            until += [order[mine], np.ones(len(joined))]
            counts.append(len(mine) + len(joined))
        asked = np.concatenate([np.zeros(0, np.int64), *nodes])
        told = before_at(shard.graph, asked, np.concatenate([np.zeros(0), *until]))
        return {CLIENTS: clients.astype(np.uint32), COUNTS: np.array(counts, np.uint32), ROWS: told}

    def check(self, statistics: Arrays) -> None:
        """Raise `WireError` for what no client can have published."""
        clients, counts, rows = (statistics[name] for name in (CLIENTS, COUNTS, ROWS))
        if (np.diff(clients.astype(np.int64)) <= 0).any() or len(clients) != len(counts):
            raise WireError("clients that are told histories must ascend, with a count each")
        if int(counts.sum(dtype=np.int64)) != len(rows):
            raise WireError(f"{len(rows)} histories of edges where {int(counts.sum(dtype=np.int64))} are meant")
        if not np.isfinite(rows).all():
            raise WireError("a history that is not finite")

    def combine(self, statistics: Mapping[int, Arrays]) -> dict[int, Arrays]:
        """Return what each client gets back: the rows for it, by the clients that tell them."""
        told: dict[int, list[tuple[int, NDArray[np.float32]]]] = {client: [] for client in statistics}
        for client in sorted(statistics):
            each = statistics[client]
            bounds = np.cumsum([0, *each[COUNTS].tolist()])
            for other, first, last in zip(each[CLIENTS].tolist(), bounds, bounds[1:], strict=False):
                if other in told:
                    told[other].append((client, each[ROWS][first:last]))
        return {
            client: {
                CLIENTS: np.array([by for by, _ in parts], np.uint32),
                COUNTS: np.array([len(rows) for _, rows in parts], np.uint32),
                ROWS: np.concatenate([statistics[client][ROWS][:0], *(rows for _, rows in parts)]),
            }
            for client, parts in told.items()
        }

    @property
    def handed_on(self) -> tuple[str, ...]:
        """Names of the arrays that the server only hands on, if they are encrypted."""
        return (ROWS,) if self.encrypted else ()

    def sent_places(self, client: int, statistics: Arrays) -> dict[str, Indices]:
        """{array: who tells whom of which row, int64 [rows, 3]}, of what a client publishes."""
        return {ROWS: _places(client, *_told(statistics))} if self.encrypted else {}

    def received_places(self, client: int, shared: Arrays) -> dict[str, Indices]:
        """Return the same of what a client got back. Raises `WireError` for misfits."""
        if not self.encrypted:
            return {}
        clients, counts = _told(shared)
        if len(clients) != len(counts) or counts.sum() != len(shared[ROWS]):
            raise WireError(f"{len(shared[ROWS])} encrypted histories where {counts.sum()} are meant")
        return {ROWS: _places(client, clients, counts)[:, [1, 0, 2]]}

    def received(self, shard: EdgeShard, shared: Arrays) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What was told of targets elsewhere: float32 [examples, width], zeros of others, and [halo, width] in the end.

        Of a client that told nothing, or not of these edges, they are zeros; if others told something, a note says so.
        """
        graph, (source, target) = shard.graph, shard.ends
        edges = np.zeros((len(source), self.width), np.float32)
        nodes = np.zeros((graph.halo, self.width), np.float32)
        if ROWS not in shared:
            return edges, nodes
        bounds = np.cumsum(shared[COUNTS], dtype=np.int64)[:-1]
        told = dict(zip(shared[CLIENTS].tolist(), np.split(shared[ROWS], bounds), strict=False))
        outside = np.flatnonzero((target >= graph.own) & (shard.order < 1))
        owner, place = graph.halo_owner[target[outside] - graph.own], graph.halo_place[target[outside] - graph.own]
        for client in np.unique(graph.halo_owner).tolist():
            mine = np.flatnonzero(owner == client)
            mine = mine[np.lexsort((shard.order[outside[mine]], source[outside[mine]], place[mine]))]
            theirs, rows = np.flatnonzero(graph.halo_owner == client), told.get(client, edges[:0])
            if len(rows) != len(mine) + len(theirs):
                LOG.warning(
                    f"{shard.name}: client {client} told of {len(rows):,} histories where {len(mine) + len(theirs):,} "
                    "belong to edges between the two; what came before these at its nodes counts as nothing."
                )
                continue
            edges[outside[mine]], nodes[theirs] = rows[: len(mine)], rows[len(mine) :]
        return edges, nodes


def _told(arrays: Arrays) -> tuple[Indices, Indices]:
    """Other clients, int64 [others], and how many rows are told to or by each."""
    return arrays[CLIENTS].astype(np.int64), arrays[COUNTS].astype(np.int64)


def _places(client: int, others: Indices, counts: Indices) -> Indices:
    """A client, each other one, and the number of each row between the two, int64 [rows, 3]."""
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack([np.full(len(number), client), np.repeat(others, counts), number], axis=1)
