"""What can be told of a node's place in its graph without looking at any feature."""

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fedgraft.graphs.sets import GraphShard


def places(shard: GraphShard, steps: int, degrees: int) -> NDArray[np.float32]:
    """Features of the nodes' places, float32 [nodes, steps + degrees].

    The chance that a random walk is back after 1 .. `steps` steps, diag((A D^-1)^k), and the node's degree as one of
    `degrees` columns, clipped to 1 .. `degrees`. A walk from a node without edges is never back.

    Source: Tan et al., "FedStar", AAAI 2023, section 4.1.
    """
    nodes = int(shard.sizes.sum())
    receiver, sender = shard.edges
    degree = np.bincount(receiver, minlength=nodes)
    inverse = 1.0 / np.maximum(degree, 1)
    one = scipy.sparse.csr_matrix((inverse[sender], (receiver, sender)), shape=(nodes, nodes))
    back = np.zeros((nodes, steps), np.float32)
    half, longer = one, one
    # (T^2a)_ii is the product of row i and column i of T^a: powers are needed only half as far as walks go.
    for step in range(1, steps + 1):
        if step == 1:
            back[:, 0] = one.diagonal()
        elif step % 2 == 0:
            half = longer
            back[:, step - 1] = np.asarray(half.multiply(half.T).sum(1)).ravel()
        else:
            longer = (half @ one).tocsr()
            back[:, step - 1] = np.asarray(half.multiply(longer.T).sum(1)).ravel()
    place = np.zeros((nodes, degrees), np.float32)
    place[np.arange(nodes), np.clip(degree, 1, degrees) - 1] = 1.0
    return np.concatenate([back, place], axis=1)
