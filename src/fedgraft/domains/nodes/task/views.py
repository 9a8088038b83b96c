"""The part of the task `node` that tells what a model makes of nodes, a client's or those of a given graph."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from fedgraft.contracts.abilities.graphs import GraphNetworkTask, LocalGraphTask, StructuredTask
from fedgraft.contracts.encoder import LayeredEncoder, NetworkEncoder
from fedgraft.contracts.loss import ClassObjective
from fedgraft.contracts.structure import WHOLE, Augmentation, LocalGraph
from fedgraft.contracts.values import Indices, Observations
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.client_graph import Computed, Memory, NodeData, around_of, example_losses_of
from fedgraft.domains.nodes.training.neighbour_sampling import NeighbourBatches, Reach
from fedgraft.nn.propagate import Stacked, States
from fedgraft.wire.layouts import Array


def augmented(data: NodeData, left_out: Augmentation, seed: int) -> Computed:
    """Return what all own nodes are computed from, less what is left out of it."""
    if left_out == WHOLE:
        return data.whole()
    g = np.random.default_rng(seed)
    around = data.around.thinned(left_out.edges, g)
    computed = replace(data, around=around, memory=Memory()).whole()
    kept = (g.random(computed.inputs.shape[1]) >= left_out.features).astype(np.float32)
    return Computed(computed.hops, masked(computed.inputs, torch.from_numpy(kept)), computed.label)


def masked(inputs: States, kept: Tensor) -> States:
    """Return inputs, float32 [nodes, features], with 0 in the columns that are 0 in `kept`, and 1 in the others."""
    if isinstance(inputs, Tensor):
        return inputs * kept
    if isinstance(inputs, Stacked):
        return Stacked(inputs.upper * kept, inputs.lower * kept)
    return inputs.scaled(torch.ones(inputs.shape[0]), kept)


def logits_on(
    model: nn.Module,
    encoder: LayeredEncoder | NetworkEncoder,
    layers: int,
    features: Tensor,
    edges: Indices,
    columns: int = 0,
) -> Tensor:
    """Return logits, float32 [nodes, classes], of features [nodes, width] and joined nodes, int64 [2, edges].

    A model that reads so many columns of edges is given zeros.
    """
    nodes, width = features.shape
    everybody, known = np.arange(nodes), np.ones(nodes, bool)
    around = around_of(_shard(nodes, edges), None, known, encoder, width, columns)
    reach = Reach([known] * layers, (0,) * layers, deep=True)
    hops = [hop.to(features.device) for hop in around.around(everybody, layers, reach)]
    logits: Tensor = model(features, hops, None)  # nobody's state is remembered
    return logits


def _shard(nodes: int, edges: Indices) -> NodeShard:
    """The graph as a client's that has all of it."""
    matrix = sparse.csr_matrix((np.ones(edges.shape[1], bool), (edges[1], edges[0])), shape=(nodes, nodes))
    matrix.sort_indices()
    edges_in = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    features, label = np.zeros((nodes, 1), np.float32), np.full(nodes, np.nan)
    return NodeShard.unsplit("a given graph", np.arange(nodes), features, label, edges_in)


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
