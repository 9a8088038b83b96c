"""Variants of the task `node`: its linear model, its clipped gradients, its synthetic graph.

- The linear model reads a node's own features.
- The gradient of each training node is clipped by itself, where its loss depends on no other node.
- Models of nodes are compared on a synthetic graph, which belongs to nobody.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from fedgraft.contracts.abilities.linear import Linear
from fedgraft.contracts.abilities.private import ClippedGradientTask
from fedgraft.contracts.abilities.tasks import SyntheticTask
from fedgraft.contracts.encoder import LayeredEncoder, NetworkEncoder
from fedgraft.contracts.labels import Labels
from fedgraft.contracts.loss import ClassObjective
from fedgraft.contracts.values import Indices, Regression
from fedgraft.domains.labels.class_weights import entropies_of
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.nn.clipped_gradients import LossesOf, RowLayer, clipped_gradients, each_gradient
from fedgraft.wire.layouts import Array, Arrays

WEIGHT, BIAS = "convolutions.0.own.weight", "convolutions.0.own.bias"
"""Parameters of a single layer that looks at a node alone; its weights are [features, outputs]."""


def linear_of(features: int, labels: Labels) -> Linear:
    """Return the linear model of so many features."""
    return Linear(WEIGHT, BIAS, features, labels.width, labels.numbers is None, by_features=True)


def regression_of(data: NodeData, examples: Indices, labels: Labels, weights: Tensor | None) -> Regression:
    """Return some training nodes; `weights` are of classes, float32 [classes], None for 1."""
    nodes = data.rows["train"][examples]
    label = data.label[nodes]
    if labels.numbers is None:
        targets = np.eye(labels.width, dtype=np.float32)[label]
        counts = np.ones(len(nodes), np.float32) if weights is None else weights.numpy()[label]
    else:
        targets, counts = label.astype(np.float32).reshape(len(nodes), -1), np.ones(len(nodes), np.float32)
    return Regression(data.features.filled(nodes), targets, counts)


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


BLOCKS: Final = 5
"""Blocks of the graph; this and the next two as in the code of Fed-PUB (Baek et al., ICML 2023)."""
SIZE: Final = 100
"""Nodes of a block."""
LINKED: Final = 0.1
"""Chance of an edge between two nodes of a block; between blocks there is none."""


@dataclass(frozen=True, eq=False)
class SyntheticNodes(SyntheticTask[NodeShard, NodeData]):
    """Draw a graph of a stochastic block model with normal features, and say what a model makes of its nodes.

    Args:
        features: their width.
        classes: their names.
        sparse: whether features are sparse.
        prepare: returns the graph as a client has it that shares nothing, of (shard, {}).
        embeddings: returns the last hidden layer of all own nodes, float32 [own, width], of (model, data).
        response_width: of that layer; of the answers where there is none.
    """

    features: int
    classes: tuple[str, ...]
    sparse: bool
    prepare: Callable[[NodeShard, Arrays], NodeData]
    embeddings: Callable[[torch.nn.Module, NodeData], Array]
    response_width: int = 0

    def synthetic(self, g: np.random.Generator) -> NodeData:
        """Return the graph as a client would have it that shares nothing."""
        graph = block_graph(g, self.features, self.classes)
        kind = sparse.csr_matrix(graph.features) if self.sparse else graph.features
        return self.prepare(replace(graph, features=kind), {})

    def response(self, model: torch.nn.Module, data: NodeData) -> Array:
        """Return the mean of the last hidden layer over its nodes."""
        made: Array = self.embeddings(model, data).mean(0)
        return made


def block_graph(g: np.random.Generator, features: int, classes: tuple[str, ...]) -> NodeShard:
    """Return `BLOCKS` blocks of `SIZE` nodes; features are standard normal, and no node has a label."""
    nodes = BLOCKS * SIZE
    drawn = [sparse.csr_matrix(np.triu(g.random((SIZE, SIZE)) < LINKED, 1)) for _ in range(BLOCKS)]
    upper: Any = sparse.block_diag(drawn, format="csr")
    edges = sparse.csr_matrix(upper + upper.T)
    edges.sort_indices()
    made, ends = g.standard_normal((nodes, features), np.float32), (edges.indptr.astype(np.int64), edges.indices)
    return NodeShard.unsplit("nobody's", np.arange(nodes), made, np.full(nodes, -1), ends, classes)
