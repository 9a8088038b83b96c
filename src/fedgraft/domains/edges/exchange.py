"""The part of the task `edge` that deals with nodes: copies per stage, the exchange between clients, hidden states."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedgraft.contracts import Batch, Exchange, Halo, HaloRows, Indices, LayeredEncoder, OwnInputs
from fedgraft.contracts.abilities import EncryptedRowsTask, HaloTask
from fedgraft.domains.edges.history import NODE_PARTS, before_at, history_of
from fedgraft.domains.edges.model import EdgeData, EdgeModel, all_slots
from fedgraft.domains.edges.order_of_time import EVER, stages
from fedgraft.domains.edges.shards import COUNTS, EdgeShard, Unrolled, unrolled
from fedgraft.domains.examples import scaled
from fedgraft.domains.nodes.base.features import FeatureCoding, FeatureRows
from fedgraft.domains.nodes.reading.queries import remembered_halo
from fedgraft.domains.nodes.training.client_graph import NodeData, around_of
from fedgraft.domains.nodes.training.halo_setup import HaloSetup, halo_of, inside
from fedgraft.domains.notes import LOG
from fedgraft.domains.publications import Published
from fedgraft.errors import WireError
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec, Tree

CLIENTS, SIZES, ROWS = "history_clients", "history_counts", "history"
"""uint32 [others] whom a client tells something, uint32 [others] how many rows, float32 [rows, width] for all of them.
"""


@dataclass(frozen=True)
class HistoryExchange:
    """The exchange, of edges that carry so many columns; where it is `encrypted` the server cannot read histories."""

    edge_width: int
    encrypted: bool = False

    @property
    def width(self) -> int:
        """int, columns of a row."""
        return NODE_PARTS * (1 + self.edge_width)

    @property
    def statistics_layout(self) -> Layout:
        """Layout of what a client publishes."""
        counts = (Spec(name, "uint32", (VARIABLE,), "rows") for name in (CLIENTS, SIZES))
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
        return {CLIENTS: clients.astype(np.uint32), SIZES: np.array(counts, np.uint32), ROWS: told}

    def check(self, statistics: Arrays) -> None:
        """Raise `WireError` for what no client can have published."""
        clients, counts, rows = (statistics[name] for name in (CLIENTS, SIZES, ROWS))
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
            bounds = np.cumsum([0, *each[SIZES].tolist()])
            for other, first, last in zip(each[CLIENTS].tolist(), bounds, bounds[1:], strict=False):
                if other in told:
                    told[other].append((client, each[ROWS][first:last]))
        return {
            client: {
                CLIENTS: np.array([by for by, _ in parts], np.uint32),
                SIZES: np.array([len(rows) for _, rows in parts], np.uint32),
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
        bounds = np.cumsum(shared[SIZES], dtype=np.int64)[:-1]
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
    return arrays[CLIENTS].astype(np.int64), arrays[SIZES].astype(np.int64)


def _places(client: int, others: Indices, counts: Indices) -> Indices:
    """A client, each other one, and the number of each row between the two, int64 [rows, 3]."""
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack([np.full(len(number), client), np.repeat(others, counts), number], axis=1)


@dataclass(frozen=True, eq=False)
class EdgeExchange(HaloTask[EdgeShard, EdgeData], EncryptedRowsTask[EdgeShard]):
    """Compute states of nodes of a graph that is cut over clients, a copy per stage; options as of `Edge`.

    Args:
        losses_of: returns the labels' losses of some edges, float32 [n], of (model, data, states, rows).
    """

    encoder: LayeredEncoder
    windows: int
    exchange: Exchange
    inputs: OwnInputs
    features: int
    edge_features: int
    edge_weights: bool
    sparse: bool
    losses_of: Callable[[EdgeModel, EdgeData, torch.Tensor, Indices], torch.Tensor]

    @property
    def input_width(self) -> int:
        """Number of columns that the first layer reads of a node."""
        return self.inputs.width(self.features) + COUNTS

    @property
    def halo_widths(self) -> tuple[int, ...]:
        """Widths of all layers: what is told of an edge reads the last."""
        return self.encoder.widths if self.exchange.states else ()

    @property
    def pull(self) -> str:
        """Rows that changed."""
        return "changed"

    @property
    def published(self) -> tuple[Published, ...]:
        """Addresses of the halo and what others may know of own copies; what came before edges."""
        copies = Published(self._set_up, self._copies)
        history = Published(self._history)
        return (*([copies] * self._connected), *([history] * self.exchange.history))

    def _copies(self, shard: EdgeShard) -> tuple[Any, Any]:
        seen = self._seen(shard)
        return replace(seen.graph, features=self.exchange.published(seen.graph.features)), seen.outward

    def halos(self, statistics: Mapping[int, Arrays]) -> dict[int, tuple[int, Halo]]:
        """Return the same as published."""
        return self._set_up.halos(statistics)

    @property
    def seals(self) -> bool:
        """Whether rows are encrypted."""
        return self.exchange.encrypted_rows

    @property
    def hands_on(self) -> bool:
        """Whether features, states or histories are shared."""
        return self.exchange.features or self.exchange.states or self.exchange.history

    @property
    def handed_on(self) -> tuple[str, ...]:
        """Degrees and features of copies, and histories."""
        return tuple(name for each in self._exchanges for name in each.handed_on)

    def sent_places(self, client: int, statistics: Arrays) -> Mapping[str, Indices]:
        """Own copies; whom histories are for."""
        return {name: place for x in self._exchanges for name, place in x.sent_places(client, statistics).items()}

    def received_places(self, client: int, shard: EdgeShard, shared: Arrays) -> Mapping[str, Indices]:
        """Copies elsewhere; who tells histories."""
        copies = self._set_up.received_places(self.halo_of(shard), shared) if self._connected else {}
        return {**copies, **(self._history.received_places(client, shared) if self.exchange.history else {})}

    def halo_of(self, shard: EdgeShard) -> Halo:
        """Return the addresses of copies elsewhere."""
        return halo_of(self._seen(shard).graph)

    @property
    def copies(self) -> int:
        """A copy of each node per stage."""
        return stages(self.windows)

    def named(self, statistics: Arrays) -> Sequence[Halo]:
        """Return the nodes whose copies a client needs."""
        if not self._connected:
            return []
        place = statistics["place"].astype(np.int64) // self.copies
        address = np.unique(statistics["owner"].astype(np.int64) << 32 | place)
        return [Halo(address >> 32, address & 0xFFFFFFFF)]

    def nodes_of(self, shard: EdgeShard, shared: Arrays) -> tuple[NodeData, Indices]:
        """Copies of nodes, with what was told of those elsewhere, and which of them each edge joins, int64 [2, n]."""
        seen = self._seen(shard)
        graph = seen.graph
        features, known, degree, needed = self._set_up.received(graph, shared if self._connected else {})
        all_known = np.concatenate([np.ones(graph.own, bool), known])
        around = around_of(graph, degree, all_known, self.encoder, self.input_width, self.edge_features)
        rows, layers, states = FeatureRows(graph.features, features), self.encoder.depth, self.exchange.states
        nodes = NodeData.of(graph, all_known, rows, around, needed, self.halo_widths, layers, states)
        return nodes, seen.ends

    def history(self, shard: EdgeShard, shared: Arrays) -> NDArray[np.float32]:
        """What came before each edge, float32 [examples, n]; of targets elsewhere as their clients told it."""
        found = history_of(shard)
        told, later = self._history.received(shard, shared if self.exchange.history else {})
        asked = np.flatnonzero((shard.order >= 1) & (shard.ends[1] >= shard.graph.own))
        told[asked] = later[shard.ends[1][asked] - shard.graph.own]
        found[:, -told.shape[1] :] += told
        return found

    def remember(self, data: EdgeData, own: int, states: Tree) -> None:
        """Put states of the halo, which a client of so many nodes remembers, into data to which edges were added."""
        if self.exchange.states:
            kept = remembered_halo(states, own * self.copies, data.nodes.halo, self.halo_widths)
            data.nodes.states.receive(kept)

    def opened(self, data: EdgeData, states: Tree) -> EdgeData:
        """Return the data with these states of own copies and of the halo."""
        return data.opened(states)

    def closed(self, data: EdgeData) -> Tree:
        """Return the states of own copies and of the halo."""
        return data.nodes.states.to_tree()

    def receive(self, data: EdgeData, rows: Sequence[HaloRows]) -> None:
        """Remember states of the halo."""
        data.nodes.states.receive(rows)

    def changed(self, data: EdgeData) -> list[HaloRows]:
        """Return states of copies that others need, those that changed."""
        return self.exchange.sent(data.changed())

    def read(self, data: EdgeData, draw: Batch) -> list[Indices]:
        """Return all slots of the halo, for each layer."""
        return [all_slots(data)] * len(self.halo_widths)

    def look(self, model: nn.Module, data: EdgeData, seed: int, losses: bool) -> Array:
        """Pass once over all own copies and note their states; return losses of training edges, float32 [examples]."""
        if not (losses or data.nodes.exchanges):
            return np.zeros(0, np.float32)
        assert isinstance(model, EdgeModel), "edges have no ensembles"
        with torch.no_grad():
            states = data.states(model, notes=True)
            return self.losses_of(model, data, states, data.rows["train"]).numpy(force=True)

    def relay(self, model: nn.Module, data: EdgeData, layer: int) -> list[HaloRows]:
        """States of one layer of all own copies, from all their neighbours."""
        return self.exchange.sent(data.nodes.relay(model, layer))

    @property
    def _exchanges(self) -> list[HaloSetup | HistoryExchange]:
        """What clients tell each other before training."""
        return [*([self._set_up] * self._connected), *([self._history] * self.exchange.history)]

    @property
    def _history(self) -> HistoryExchange:
        return HistoryExchange(self.edge_features, self.exchange.encrypted_rows)

    @property
    def _connected(self) -> bool:
        return self.exchange.states or self.exchange.features

    @property
    def _set_up(self) -> HaloSetup:
        coding = FeatureCoding(self.input_width, self.sparse)
        return HaloSetup(coding, self.exchange.features, self.edge_weights, self.exchange.encrypted_rows)

    def _seen(self, shard: EdgeShard) -> Unrolled:
        """Copies of the nodes that take part, their features as the model reads them."""
        graph = shard.graph
        scale = self.inputs.scale if graph.scale_rows else 0.0
        read = self.inputs.read(scaled(graph.features, scale) if scale else graph.features)
        shard = shard if read is graph.features else replace(shard, graph=replace(graph, features=read))
        return unrolled(shard if self._connected else alone(shard), self.windows)


def alone(shard: EdgeShard) -> EdgeShard:
    """Return a shard without nodes elsewhere; its edges to these stay, and nothing is known of their targets."""
    graph = inside(shard.graph)
    return replace(shard, graph=graph, ends=np.where(shard.ends < graph.own, shard.ends, -1))
