"""The part of the task `edge` that deals with nodes: copies per stage, the exchange between clients, hidden states."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedgraft.contracts import Batch, Exchange, Halo, HaloRows, Indices, OwnInputs
from fedgraft.contracts.abilities import EncryptedRowsTask, HaloTask, NamingTask
from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.domains.edges.client_edges import EdgeData, all_slots
from fedgraft.domains.edges.history import history_of
from fedgraft.domains.edges.history_exchange import HistoryExchange
from fedgraft.domains.edges.model import EdgeModel
from fedgraft.domains.edges.order_of_time import stages
from fedgraft.domains.edges.shards import EdgeShard
from fedgraft.domains.edges.unrolled import COUNTS, Unrolled, unrolled
from fedgraft.domains.examples import scaled
from fedgraft.domains.nodes.base.feature_coding import FeatureCoding
from fedgraft.domains.nodes.base.features import FeatureRows
from fedgraft.domains.nodes.base.historical_embeddings import States
from fedgraft.domains.nodes.reading.queries import remembered_halo
from fedgraft.domains.nodes.training.client_graph import NodeData, around_of
from fedgraft.domains.nodes.training.halo_setup import HaloSetup, halo_of, inside
from fedgraft.domains.publications import Published
from fedgraft.wire.layouts import Array, Arrays, Tree


@dataclass(frozen=True, eq=False)
class EdgeExchange(HaloTask[EdgeShard, EdgeData], NamingTask, EncryptedRowsTask[EdgeShard]):
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
        width, columns = self.input_width, self.edge_features
        nodes = NodeData(
            features=FeatureRows(graph.features, features),
            around=around_of(graph, degree, all_known, self.encoder, width, columns),
            own=graph.own,
            halo=graph.halo,
            label=graph.label,
            rows={},
            known=all_known,
            needed=needed,
            states=States(graph.own, graph.halo, self.halo_widths),
            sums=None,
            degree=graph.weighted_degree,
            layers=self.encoder.depth,
            exchanges=self.exchange.states,
        )
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
