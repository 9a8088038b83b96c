"""The part of tasks about nodes in which clients tell each other of nodes: features, and hidden states in training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedgraft.contracts import Batch, Exchange, Halo, HaloRows, Indices
from fedgraft.contracts.abilities import EncryptedRowsTask, HaloTask
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.halo_setup import halo_of, thinned
from fedgraft.domains.nodes.training.neighbour_sampling import NeighbourBatches, Reach
from fedgraft.wire.layouts import Array, Arrays, Tree


@dataclass(frozen=True, eq=False)
class NodeExchange(HaloTask[NodeShard, NodeData], EncryptedRowsTask[NodeShard]):
    """Exchange features and hidden states of nodes with neighbours elsewhere.

    Args:
        set_up: what is published before training, a `HaloSetup` where rows are handed on; None for nothing.
        draws: neighbours that take part in a step.
        losses: returns the labels' losses, float32 [n], of outputs and labels.
        exchange: the method, which says what leaves.
        hands_on: whether features or states are shared; others as of the abilities.
    """

    set_up: Any
    draws: NeighbourBatches
    losses: Callable[[Tensor, Tensor], Tensor]
    exchange: Exchange
    hands_on: bool = False
    halo_widths: tuple[int, ...] = ()
    handed_on: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "handed_on", self.set_up.handed_on if self.seals else ())

    @property
    def seals(self) -> bool:
        """Whether rows are encrypted."""
        return self.exchange.encrypted_rows

    @property
    def pull(self) -> str:
        """What a client that asks is sent."""
        return self.exchange.pull

    def halos(self, statistics: Mapping[int, Arrays]) -> dict[int, tuple[int, Halo]]:
        """Return the same as published."""
        halos: dict[int, tuple[int, Halo]] = self.set_up.halos(statistics)
        return halos

    def named(self, statistics: Arrays) -> list[Halo]:
        """Those that it needs states or features of, or tells sums for."""
        if "owner" not in statistics:
            return []
        return [Halo(statistics["owner"].astype(np.int64), statistics["place"].astype(np.int64))]

    def sent_places(self, client: int, statistics: Arrays) -> Mapping[str, Indices]:
        """Return own nodes."""
        places: Mapping[str, Indices] = self.set_up.sent_places(client, statistics)
        return places

    def received_places(self, client: int, shard: NodeShard, shared: Arrays) -> Mapping[str, Indices]:
        """Return nodes elsewhere."""
        places: Mapping[str, Indices] = self.set_up.received_places(self.halo_of(shard), shared)
        return places

    def halo_of(self, shard: NodeShard) -> Halo:
        """Return those that `halo` leaves."""
        return halo_of(thinned(shard, self.exchange.halo))

    def opened(self, data: NodeData, states: Tree) -> NodeData:
        """Return the data with these states of own nodes and of the halo."""
        return data.opened(states)

    def closed(self, data: NodeData) -> Tree:
        """Return the states of own nodes and of the halo."""
        return data.states.to_tree()

    def receive(self, data: NodeData, rows: Sequence[HaloRows]) -> None:
        """Remember states of the halo."""
        data.states.receive(rows)

    def changed(self, data: NodeData) -> list[HaloRows]:
        """Return states of nodes that others need, those that changed."""
        return self.exchange.sent(data.states.changed(data.needed))

    def read(self, data: NodeData, draw: Batch) -> list[Indices]:
        """Return halo nodes that are stored senders of each hidden layer, int64 [nodes] each."""
        nodes = data.rows["train"][draw.examples if draw.ahead is None else draw.ahead]
        all_known = [np.ones(data.own + data.halo, bool)] * self.draws.layers
        reach = Reach(all_known, self.draws.most(draw), self.draws.deep, draw.seed, alone=data.alone)
        hops = data.around.around(nodes, self.draws.layers, reach)
        return [np.sort(hop.stored[hop.stored >= data.own]) - data.own for hop in hops[1:]]

    def look(self, model: nn.Module, data: NodeData, seed: int, losses: bool) -> Array:
        """Pass once over all own nodes and note their states; return losses of training nodes, float32 [nodes]."""
        if not (losses or data.exchanges):
            return np.zeros(0, np.float32)
        everybody, most = np.arange(data.own), (self.draws.neighbours,) * self.draws.layers
        outputs = data.logits(model, data.computed(everybody, most, True, seed, "look"), True)
        train = data.rows["train"]
        return self.losses(outputs.cpu()[train], torch.from_numpy(data.label[train])).numpy(force=True)

    def relay(self, model: nn.Module, data: NodeData, layer: int) -> list[HaloRows]:
        """States of one hidden layer of all own nodes, from all their neighbours."""
        return self.exchange.sent(data.relay(model, layer))
