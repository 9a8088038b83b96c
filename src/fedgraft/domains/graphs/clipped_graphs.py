"""The gradient of each training graph by itself, of the linear model of its subtrees."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from fedgraft.contracts import ClassObjective, Indices, LayeredEncoder, NetworkEncoder
from fedgraft.contracts.abilities.private import ClippedGradientTask
from fedgraft.domains.graphs.graph_task import GraphData
from fedgraft.domains.graphs.model import CountsModel
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.labels.class_weights import entropies_of
from fedgraft.nn.clipped_gradients import LossesOf, RowLayer, clipped_gradients, each_gradient
from fedgraft.wire.layouts import Array, Arrays


@dataclass(frozen=True, eq=False)
class ClippedGraphs(ClippedGradientTask[GraphShard, GraphData]):
    """Of a task with the options of `Graph`, where counts of subtrees are all that it reads."""

    example: ClassVar[str] = "graph"

    encoder: LayeredEncoder | NetworkEncoder
    objective: ClassObjective

    @property
    def unclipped(self) -> tuple[str, str]:
        """Convolutions, whose products over a graph's nodes are many; weights by shares of classes."""
        if isinstance(self.encoder, NetworkEncoder) or self.encoder.depth:
            why = "a graph's gradient is known by itself for a linear model of its subtrees alone"
            return why, "model.name = 'mlp', model.hidden = [], task.wl and task.wl_shared"
        if self.objective.reads_shares:
            return (
                "losses depend on the client's shares of classes",
                "loss.label_smoothing and loss.logit_adjustment = 0",
            )
        if isinstance(self.objective.class_weights, str) and self.objective.class_weights:
            return "weights of classes depend on how many graphs each has", "loss.class_weights = '' or a table"
        return "", ""

    def clipped(self, model: nn.Module, data: GraphData, examples: Indices, longest: float) -> Arrays:
        """Cross-entropies of graphs, by their counts alone."""
        return clipped_gradients(model, *self._taken_apart(model, data, examples), longest)

    def each_gradient(self, model: nn.Module, data: GraphData, examples: Indices) -> Arrays:
        """Return those of all examples at once."""
        return each_gradient(model, *self._taken_apart(model, data, examples))

    def _taken_apart(
        self, model: nn.Module, data: GraphData, examples: Indices
    ) -> tuple[Sequence[RowLayer], Array, LossesOf]:
        """The one layer, what it reads, and losses of what it gives."""
        assert isinstance(model, CountsModel), "it was checked"
        graphs = data.train[examples]
        losses_of = entropies_of(data.label[graphs], data.weights, self.objective)
        # The layer reads counts times the factor, as the model does.
        counts = data.collator.counted(graphs) * model.subtrees.loud
        return [model.subtrees.layer], counts, losses_of
