"""The gradient of each training graph by itself, of the linear model of its subtrees."""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedgraft.contracts import Indices
from fedgraft.contracts.clipping import ClippedGradientTask
from fedgraft.contracts.encoder import LayeredEncoder, NetworkEncoder
from fedgraft.domains.graphs.counts_model import CountsModel
from fedgraft.domains.graphs.graph_task import GraphData
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.nn.clipped_gradients import clipped_gradients
from fedgraft.nn.manual_gradients import cross_entropies
from fedgraft.wire.layouts import Arrays


class ClippedGraphs(ClippedGradientTask[GraphShard, GraphData]):
    """Of a task with the options of `Graph`, where counts of subtrees are all that it reads."""

    example: ClassVar[str] = "graph"

    encoder: LayeredEncoder | NetworkEncoder
    class_weights: str | dict[str, float]
    focal: float

    @property
    def unclipped(self) -> tuple[str, str]:
        """Convolutions, whose products over a graph's nodes are many; weights by shares of classes."""
        if isinstance(self.encoder, NetworkEncoder) or self.encoder.depth:
            why = "a graph's gradient is known by itself for a linear model of its subtrees alone"
            return why, "model.name = 'mlp', model.hidden = [], task.wl and task.wl_shared"
        if self.class_weights and not isinstance(self.class_weights, dict):
            return "weights of classes depend on how many graphs each has", "task.class_weights = '' or a table"
        return "", ""

    def clipped(self, model: nn.Module, data: GraphData, examples: Indices, longest: float) -> Arrays:
        """Cross-entropies of graphs, by their counts alone."""
        assert isinstance(model, CountsModel), "it was checked"
        graphs = data.train[examples]
        label = torch.from_numpy(data.label[graphs])

        def losses_of(logits: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
            own = label.to(logits.device)
            losses, back = cross_entropies(logits, own, None, self.focal)
            if data.weights is None:
                return losses, back
            weights = data.weights.to(logits)[own]
            return losses * weights, lambda gradient: back(gradient * weights)

        # The layer reads counts times the factor, as the model does.
        counts = data.collator.counted(graphs) * model.subtrees.loud
        return clipped_gradients(model, [model.subtrees.layer], counts, losses_of, longest)
