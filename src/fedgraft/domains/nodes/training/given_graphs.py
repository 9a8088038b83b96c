"""A model of nodes on a graph that is given, all of whose nodes are known."""

import numpy as np
from scipy import sparse
from torch import Tensor, nn

from fedgraft.contracts.encoder import LayeredEncoder, NetworkEncoder
from fedgraft.contracts.values import Indices
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.client_graph import around_of
from fedgraft.domains.nodes.training.neighbour_sampling import Reach


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
    nobody = np.zeros(0, np.int32)
    return NodeShard(
        name="a given graph",
        ids=np.arange(nodes).astype(object),
        features=np.zeros((nodes, 1), np.float32),
        label=np.full(nodes, np.nan),
        classes=(),
        split=np.full(nodes, -1, np.int8),
        pointers=matrix.indptr.astype(np.int64),
        senders=matrix.indices.astype(np.int32),
        halo_owner=nobody,
        halo_place=nobody,
    )
