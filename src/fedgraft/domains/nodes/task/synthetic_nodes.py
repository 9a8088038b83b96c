"""A graph that is nobody's, by which models of nodes are compared."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from scipy import sparse

from fedgraft.contracts.abilities.tasks import SyntheticTask
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.wire.layouts import Array, Arrays

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
