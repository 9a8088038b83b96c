"""Features averaged over neighbours before training: the model reads X, R X, R^2 X ... in place of X.

R is the mean over a node and its neighbours, (D + I)^-1 (A + I).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from fedgraft.contracts.inputs import Inputs
from fedgraft.domains.examples import Features, compact
from fedgraft.domains.nodes.base.features import FeatureRows
from fedgraft.domains.nodes.base.shards import NodeShard, each_once
from fedgraft.nn import flops
from fedgraft.nn.propagate import Sparse, Stacked, States


def prepared(inputs: Inputs, shard: NodeShard) -> NodeShard:
    """Return the shard with what a model reads in place of its features, of the same kind.

    Edges to nodes of others have no part in it.
    """
    read = inputs.read(shard.features, [Within.of(shard).mean] if inputs.hops else [])
    return shard if read is shard.features else replace(shard, features=read)


def rows_of(inputs: Inputs, own: Features, halo: Features) -> FeatureRows:
    """Return prepared rows of own nodes and of the halo, to be multiplied.

    Sparse ones are made dense where averages have left few zeros, and where hops are weighed.
    """
    if inputs.hops and isinstance(own, sparse.csr_matrix):
        own = own.toarray() if inputs.attends else compact(own)
        if isinstance(own, np.ndarray) and isinstance(halo, sparse.csr_matrix):
            halo = halo.toarray()
    return FeatureRows(own, halo)


@dataclass(frozen=True, eq=False)
class Within:
    """The edges inside a client: `edges` [own, own], each both ways, by weight, and float32 [own], the sums of rows."""

    edges: sparse.csr_matrix
    degree: NDArray[np.float32]

    @classmethod
    def of(cls, shard: NodeShard) -> "Within":
        """Return those of a shard, each neighbour once."""
        shard = each_once(shard)
        row, kept = np.repeat(np.arange(shard.own), shard.degree), shard.senders < shard.own
        weight, row = shard.edge_weight[kept], row[kept]
        edges = sparse.csr_matrix((weight, (row, shard.senders[kept])), shape=(shard.own, shard.own))
        return cls(edges, np.bincount(row, weight, minlength=shard.own).astype(np.float32))

    def mean(self, features: Features) -> Features:
        """Return the mean of each node's row and its neighbours', [own, f]."""
        return divided(features + self.edges @ features, self.degree + 1)


def divided(total: Features, by: NDArray[np.float32]) -> Features:
    """Return rows [nodes, f] divided by numbers [nodes], of the same kind, columns of sparse ones ascending."""
    if isinstance(total, np.ndarray):
        return np.asarray(total / by[:, None])
    rows = sparse.csr_matrix(total, dtype=np.float32)
    rows.sort_indices()
    rows.data = rows.data / np.repeat(by, np.diff(rows.indptr))
    return rows


def mean_of(blocks: Sequence[Features]) -> Features:
    """Return the mean of blocks [nodes, f] of one kind."""
    total = blocks[0]
    for block in blocks[1:]:
        total = total + block
    return divided(total, np.full(total.shape[0], len(blocks), np.float32))


def side_by_side(blocks: Sequence[Features]) -> Features:
    """Return blocks [nodes, f] of one kind as one, [nodes, blocks x f]."""
    if isinstance(blocks[0], np.ndarray):
        return np.concatenate(blocks, axis=1)
    return sparse.csr_matrix(sparse.hstack(blocks, format="csr"))


class HopAttention(nn.Module):
    """From rows of so many hops and the features themselves, side by side, to one row of so many features."""

    def __init__(self, features: int, hops: int) -> None:
        super().__init__()
        self._blocks = hops + 1
        self.score = nn.Parameter(torch.zeros(features))

    def forward(self, inputs: States) -> Tensor:
        """Return the weighted rows, float32 [nodes, features], of [nodes, (hops + 1) x features], which are dense."""
        assert not isinstance(inputs, Sparse), "these were made dense"
        rows = inputs.dense if isinstance(inputs, Stacked) else inputs
        blocks = rows.view(len(rows), self._blocks, -1)
        flops.count(2 * (1 + torch.is_grad_enabled()) * rows.numel())
        weights = torch.softmax(blocks @ self.score, dim=1)
        return torch.bmm(weights[:, None], blocks)[:, 0]


def attention_of(inputs: Inputs, features: int) -> HopAttention | None:
    """Return the attention of a model with these inputs, of so many features; None for one that has none."""
    return HopAttention(features or 1, inputs.hops) if inputs.attends else None
