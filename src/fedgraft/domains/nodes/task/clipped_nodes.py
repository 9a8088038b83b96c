"""The gradient of each training node by itself, where its loss depends on no other node."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from fedgraft.contracts import ClassObjective, Indices, LayeredEncoder, NetworkEncoder
from fedgraft.contracts.abilities.private import ClippedGradientTask
from fedgraft.domains.labels.class_weights import entropies_of
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.nn.clipped_gradients import LossesOf, RowLayer, clipped_gradients, each_gradient
from fedgraft.wire.layouts import Array, Arrays


@dataclass(frozen=True, eq=False)
class ClippedNodes(ClippedGradientTask[NodeShard, NodeData]):
    """Of a task with the options of `Node`: those that mix nodes in a loss are told."""

    example: ClassVar[str] = "node"

    encoder: LayeredEncoder | NetworkEncoder
    propagate: int
    connected: bool
    objective: ClassObjective

    @property
    def unclipped(self) -> tuple[str, str]:
        """What looks at neighbours, at shares of classes, or draws at random."""
        if isinstance(self.encoder, NetworkEncoder) or self.encoder.reads_neighbours:
            return "the model reads a node's neighbours", "model.name = 'mlp'"
        if self.propagate:
            return "features are averaged over neighbours", "inputs.propagate = 0"
        if self.connected:
            told = "clients tell each other of nodes"
            return told, "exchange.features, exchange.states and inputs.aggregates = false"
        if self.objective.reads_shares:
            shares = "losses depend on the client's shares of classes"
            return shares, "loss.label_smoothing and loss.logit_adjustment = 0"
        if isinstance(self.objective.class_weights, str) and self.objective.class_weights:
            return "weights of classes depend on how many nodes each has", "loss.class_weights = '' or a table"
        return ("units are dropped at random", "loss.dropout = 0") if self.objective.dropout else ("", "")

    def clipped(self, model: nn.Module, data: NodeData, examples: Indices, longest: float) -> Arrays:
        """Cross-entropies of nodes, by their features alone."""
        return clipped_gradients(model, *self._taken_apart(model, data, examples), longest)

    def each_gradient(self, model: nn.Module, data: NodeData, examples: Indices) -> Arrays:
        """Return those of all examples at once."""
        return each_gradient(model, *self._taken_apart(model, data, examples))

    def _taken_apart(
        self, model: nn.Module, data: NodeData, examples: Indices
    ) -> tuple[Sequence[RowLayer], Array, LossesOf]:
        """The layers, what the first one reads, and losses of what the last one gives."""
        assert isinstance(model, NodeModel), "nodes have no other"
        nodes = data.rows["train"][examples]
        losses_of = entropies_of(data.label[nodes], data.weights, self.objective)
        return model.by_row, data.features.filled(nodes), losses_of
