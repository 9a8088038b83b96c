"""A client's part of a graph, ready to train on its edges: states of copies of nodes, and what is told of edges."""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedgraft.contracts.labels import Unit
from fedgraft.contracts.loss import ClassShares
from fedgraft.contracts.values import HaloRows, Indices
from fedgraft.domains.edges.model import EdgeModel
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.nn.layers import device_of
from fedgraft.wire.layouts import Tree


@dataclass(eq=False)
class EdgeData:
    """A client's part of a graph, ready to train on its edges.

    Args:
        nodes: copies of nodes, what they are computed from, and their states.
        ends: int64 [2, examples], copies that each edge joins; -1 = a node of which nothing is known.
        columns: float32 [examples, columns], what is known of each.
        label: [examples], in training's unit.
        rows: {split: int64 [examples]}.
        unit: in which labels are that are numbers.
        weights: float32 [classes], by which losses of training edges are multiplied; None for 1.
        shares: of classes among training edges, where losses depend on them.
    """

    nodes: NodeData
    ends: Tensor
    columns: Tensor
    label: Tensor
    rows: dict[str, Indices]
    unit: Unit
    weights: Tensor | None
    shares: ClassShares | None

    def states(self, model: EdgeModel, notes: bool = False) -> Tensor:
        """Return states of all copies, float32 [own + halo + 1, width], where the model is; the last one is zero.

        Own ones are computed, or what was relayed last; of others they are as they were told. With `notes` fresh ones
        are remembered.
        """
        device, nodes = device_of(model), self.nodes
        if len(nodes.memory.relayed) == nodes.layers:
            own = nodes.memory.relayed[-1]
        else:
            computed = nodes.whole().on(device)
            note = nodes.note if notes and nodes.exchanges else None
            own = model.states(computed.inputs, computed.hops, nodes.stored, note)
        told = [own]
        if nodes.exchanges:
            told.append(torch.from_numpy(nodes.states.rows[-1][nodes.own :]).to(device))
        else:
            told.append(own.new_zeros(nodes.halo, own.shape[1]))
        return torch.cat([*told, own.new_zeros(1, own.shape[1])])

    def outputs(self, model: EdgeModel, states: Tensor, rows: Indices) -> Tensor:
        """Return what the model tells of some edges, float32 [n, outputs], where it is."""
        outputs: Tensor = model(states, self.ends[:, rows].to(states.device), self.columns[rows].to(states.device))
        return outputs

    def opened(self, states: Tree) -> "EdgeData":
        """Return the same part with these states; None = none is known."""
        made = copy.copy(self)
        made.nodes = self.nodes.opened(states)
        return made

    def changed(self) -> list[HaloRows]:
        """Return states of own copies that others need, those that changed."""
        return self.nodes.states.changed(self.nodes.needed)


def all_slots(data: EdgeData) -> Indices:
    """Return the halo's slots, int64 [halo]."""
    return np.arange(data.nodes.halo)
