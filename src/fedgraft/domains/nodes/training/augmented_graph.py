"""A client's part of a cut graph without some of its edges and features: another view of the same nodes.

Source: Zhu et al., "Deep Graph Contrastive Representation Learning" (GRACE), ICML workshop 2020, section 3.2.
"""

from dataclasses import replace

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from fedgraft.contracts.encoder import LayeredEncoder, NetworkEncoder
from fedgraft.contracts.structure import WHOLE, Augmentation
from fedgraft.contracts.values import Indices
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.client_graph import Computed, Memory, NodeData, around_of
from fedgraft.domains.nodes.training.neighbour_sampling import Reach
from fedgraft.nn.propagate import Stacked, States


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
