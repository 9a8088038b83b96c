"""What a sharing method adds to the model of the task `node`, and to its steps; by default nothing.

The smallest one follows: masks beside the weights of linear layers (Fed-PUB, Baek et al., ICML 2023).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from fedgraft.contracts.task import Loss
from fedgraft.contracts.values import Indices
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.exchange import NodeExchange
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.wire.layouts import Array, Arrays


class NodeExtension:
    """Hooks of the task's steps; its class is named in errors by the option that asks for it."""

    seeds_draws: bool = False
    """Whether losses depend on `Batch.seed`."""

    def check(self, shards: Sequence[NodeShard]) -> None:
        """Raise `InputError` for clients that are simulated here and that it cannot be simulated with."""

    def exchange(self, exchange: NodeExchange) -> NodeExchange:
        """Return what clients tell each other of nodes, from what they tell without it."""
        return exchange

    def extend(self, model: NodeModel, g: torch.Generator) -> None:
        """Add what belongs to the model."""

    def prepare(self, data: NodeData, shard: NodeShard, seen: NodeShard, shared: Arrays) -> None:
        """Add to prepared data; `seen` is the part of the graph that takes part."""

    def view(self, model: nn.Module, data: NodeData) -> NodeData:
        """Return the part of the graph that the model is run on."""
        return data

    def losses(self, model: nn.Module, data: NodeData, nodes: Indices, most: tuple[int, ...], seed: int) -> Loss | None:
        """Return losses of own nodes, in place of the task's; None leaves them to the task."""
        return None

    def scored(self, model: nn.Module, data: NodeData) -> Array | None:
        """Return probabilities of all own nodes, float32 [own, classes], in place of the task's; None leaves them."""
        return None

    def answers(self, model: nn.Module) -> bool:
        """Return whether losses and answers are this extension's by now."""
        return False


@dataclass(frozen=True)
class Masked(NodeExtension):
    """Weights of linear layers are multiplied by 1 + a mask, at first 0."""

    def extend(self, model: NodeModel, g: torch.Generator) -> None:
        """Add the masks."""
        model.mask()
