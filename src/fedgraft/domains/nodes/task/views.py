"""The part of the task `node` that tells what a model makes of nodes, a client's or those of a given graph."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from fedgraft.contracts.abilities.graph_network import GraphNetworkTask
from fedgraft.contracts.abilities.graphs import LocalGraphTask, StructuredTask
from fedgraft.contracts.encoder import LayeredEncoder, NetworkEncoder
from fedgraft.contracts.loss import ClassObjective
from fedgraft.contracts.structure import WHOLE, Augmentation, LocalGraph
from fedgraft.contracts.values import Indices, Observations
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.augmented_graph import augmented
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.given_graphs import logits_on
from fedgraft.domains.nodes.training.losses import example_losses_of
from fedgraft.domains.nodes.training.neighbour_sampling import NeighbourBatches
from fedgraft.wire.layouts import Array


@dataclass(frozen=True, eq=False)
class NodeViews(
    StructuredTask[NodeShard, NodeData], LocalGraphTask[NodeShard, NodeData], GraphNetworkTask[NodeShard, NodeData]
):
    """Tell what the model makes of nodes, with all their neighbours and none that are generated.

    Args:
        encoder: of the model, for graphs that are given.
        columns: that it reads of an edge.
        draws: of the task.
        objective: what losses of training are.
        scored: returns probabilities of all own nodes, float32 [own, classes], of (model, data).
        classes: how many there are; others as of the abilities.
    """

    encoder: LayeredEncoder | NetworkEncoder
    columns: int
    draws: NeighbourBatches
    objective: ClassObjective
    scored: Callable[[nn.Module, NodeData], Array]
    classes: int = 0
    hidden_width: int = 0
    given_width: int = 0

    @property
    def common_classes(self) -> int:
        """Number of classes."""
        return self.classes

    def observe(self, model: nn.Module, data: NodeData) -> Observations:
        """What the model makes of all training nodes; the more neighbours, the more central."""
        nodes = data.rows["train"]
        computed = data.computed(nodes, (0,) * self.draws.layers, self.draws.deep, keep="observed")
        hidden, logits = data.observed(model, computed, notes=False)
        labels = data.label[nodes]
        return Observations(
            losses=example_losses_of(logits, data, computed, self.objective).numpy(force=True),
            probabilities=logits.softmax(1).numpy(force=True),
            hidden=hidden.numpy(force=True),
            correct=logits.argmax(1).numpy(force=True) == labels,
            centrality=data.degree[nodes],
            labels=labels,
        )

    def states(self, model: nn.Module, data: NodeData, left_out: Augmentation = WHOLE, seed: int = 0) -> Tensor:
        """Return the last hidden layer of all own nodes, float32 [own, width]."""
        return data.represented(model, augmented(data, left_out, seed))[: data.own]

    def edges(self, data: NodeData) -> tuple[Indices, Indices]:
        """Return the training nodes, and the edges among own nodes."""
        return data.rows["train"], data.around.edges

    def local_graph(self, model: nn.Module, data: NodeData) -> LocalGraph:
        """Own nodes and the edges between them, whatever the model sees of others."""
        train, features = data.rows["train"], data.features.first(data.own)
        return LocalGraph(self.scored(model, data), features, data.around.edges, train, data.label[train])

    def on_graph(self, model: nn.Module, features: Tensor, edges: Indices) -> Tensor:
        """All layers on all nodes."""
        return logits_on(model, self.encoder, self.draws.layers, features, edges, self.columns)
