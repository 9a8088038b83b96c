"""Batches of small graphs: many graphs side by side as one CSR, put together from a client's own without a loop."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.graphs.sets import GraphShard
from fedgraft.propagate import Undirected, segment_sums
from fedgraft.values import Indices

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some graphs side by side.

    Args:
        graph: their edges.
        kind: int64 [nodes], the one-hot column of each node, in [0, kinds); the column `kinds` stands for none.
        attributes: float32 [nodes, a].
        structure: float32 [nodes, s], where the model looks at it, else s = 0.
        sizes: int64 [graphs], nodes of each.
        label: int64 [graphs].
    """

    graph: Undirected
    kind: Tensor
    attributes: Tensor
    structure: Tensor
    sizes: Tensor
    label: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return Batch(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))

    def pooled(self, nodes: Float[Tensor, "nodes width"]) -> Float[Tensor, "graphs width"]:
        """Sums over the nodes of each graph."""
        return segment_sums(nodes, self.sizes)


class Collator:
    """A client's graphs, ready to be put together in any choice.

    Args:
        shard: the graphs.
        structure: float32 [nodes, s], features of the nodes' places, or none.
    """

    def __init__(self, shard: GraphShard, structure: Floats | None = None) -> None:
        nodes = int(shard.sizes.sum())
        self._sizes, self._label = shard.sizes, shard.label
        self._first = np.concatenate([[0], np.cumsum(shard.sizes)])
        self._degree = np.bincount(shard.edges[0], minlength=nodes)
        edges_before = np.concatenate([[0], np.cumsum(self._degree)])
        self._first_edge = edges_before[self._first]
        self._senders = shard.edges[1]
        self._kind = np.where(shard.kind < 0, shard.kinds, shard.kind).astype(np.int64)
        self._attributes = shard.attributes
        self._structure = np.zeros((nodes, 0), np.float32) if structure is None else structure

    def batch(self, graphs: Indices) -> Batch:
        """These graphs, in this order."""
        sizes = self._sizes[graphs]
        nodes = _ranges(self._first[graphs], sizes)
        counts = self._first_edge[graphs + 1] - self._first_edge[graphs]
        moved = np.concatenate([[0], np.cumsum(sizes)[:-1]]) - self._first[graphs]
        senders = self._senders[_ranges(self._first_edge[graphs], counts)] + np.repeat(moved, counts)
        degree = self._degree[nodes]
        return Batch(
            graph=Undirected(np.concatenate([[0], np.cumsum(degree)]), senders, degree),
            kind=torch.from_numpy(self._kind[nodes]),
            attributes=torch.from_numpy(self._attributes[nodes]),
            structure=torch.from_numpy(self._structure[nodes]),
            sizes=torch.from_numpy(sizes),
            label=torch.from_numpy(self._label[graphs]),
        )


def structure_features(shard: GraphShard, steps: int, degrees: int) -> Floats:
    """What can be told of a node's place without looking at any feature, float32 [nodes, steps + degrees].

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


def _ranges(starts: Indices, lengths: Indices) -> Indices:
    """starts[0] .. starts[0] + lengths[0] - 1, then those of the next, and so on."""
    before = np.concatenate([[0], np.cumsum(lengths)])
    places: Indices = np.arange(before[-1]) + np.repeat(starts - before[:-1], lengths)
    return places
