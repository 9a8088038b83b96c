"""What the task `node` tells of its model in training: of training nodes, and of all own nodes and their edges."""

import torch
from torch import Tensor, nn

from fedgraft.contracts import Indices, Observations
from fedgraft.contracts.abilities.graphs import StructuredTask
from fedgraft.contracts.encoder import NetworkEncoder
from fedgraft.contracts.loss import ClassObjective
from fedgraft.contracts.structure import WHOLE, Augmentation
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.task.node_task import NodeTask
from fedgraft.domains.nodes.training.augmented_graph import augmented
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.losses import example_losses_of


class ObservedNodes(NodeTask, StructuredTask[NodeShard, NodeData]):
    """Tell what the model makes of nodes, with all their neighbours and none that are generated."""

    classes: int
    objective: ClassObjective

    @property
    def hidden_width(self) -> int:
        """Width of the last hidden layer; of a model without any, of its logits."""
        if isinstance(self.encoder, NetworkEncoder):
            widths = self.input_width, self.edge_features
            return self.encoder.network(widths[0], torch.Generator(), widths[1]).width if self.features else 0
        return self.encoder.width if self.encoder.depth else self.classes

    @property
    def common_classes(self) -> int:
        """Number of classes."""
        return self.classes

    def observe(self, model: nn.Module, data: NodeData) -> Observations:
        """What the model makes of all training nodes; the more neighbours, the more central."""
        nodes = data.rows["train"]
        computed = data.computed(nodes, (0,) * self.layers, self._deep, keep="observed")
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
