"""Features averaged over neighbours before training: the model reads [X, R X, R^2 X ...] in place of X.

R is the mean over a node and its neighbours, (D + I)^-1 (A + I). Sources: Wu et al., "Simplifying Graph Convolutional
Networks", ICML 2019 (SGC), for averages in place of layers; Frasca et al., "SIGN", 2020, for all hops side by side.
Differs: both have the symmetric D^-1/2 (A + I) D^-1/2 first; a mean keeps the scale of features at nodes of any degree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.domains.examples import Features, compact
from fedgraft.domains.nodes.base.features import FeatureRows
from fedgraft.domains.nodes.base.shards import NodeShard


@dataclass(frozen=True)
class SmoothedInputs:
    """The inputs of a model that reads features after 0, 1 .. `hops` averages over neighbours, side by side."""

    hops: int

    def width(self, features: int) -> int:
        """Return the number of columns made of so many features."""
        return (self.hops + 1) * features

    def of(self, shard: NodeShard) -> NodeShard:
        """Return the shard with these in place of its features, of the same kind; edges to nodes of others unused."""
        if not self.hops:
            return shard
        return replace(shard, features=side_by_side(averages(shard.features, Within.of(shard), self.hops)))


@dataclass(frozen=True, eq=False)
class Within:
    """The edges inside a client: `edges` [own, own], every edge both ways, and float32 [own], each node's own edges."""

    edges: sparse.csr_matrix
    degree: NDArray[np.float32]

    @classmethod
    def of(cls, shard: NodeShard) -> "Within":
        """Return those of a shard."""
        row, kept = np.repeat(np.arange(shard.own), shard.degree), shard.senders < shard.own
        ones = np.ones(int(kept.sum()), np.float32)
        edges = sparse.csr_matrix((ones, (row[kept], shard.senders[kept])), shape=(shard.own, shard.own))
        return cls(edges, np.diff(edges.indptr).astype(np.float32))

    def mean(self, features: Features) -> Features:
        """Return the mean of each node's row and its neighbours', [own, f]."""
        return divided(features + self.edges @ features, self.degree + 1)


def averages(features: Features, within: Within, hops: int) -> list[Features]:
    """Return the features [own, f] after 0, 1 .. `hops` averages."""
    blocks = [features]
    for _ in range(hops):
        blocks.append(within.mean(blocks[-1]))
    return blocks


def divided(total: Features, by: NDArray[np.float32]) -> Features:
    """Return rows [nodes, f] divided by numbers [nodes], of the same kind, columns of sparse ones ascending."""
    if isinstance(total, np.ndarray):
        return np.asarray(total / by[:, None])
    rows = sparse.csr_matrix(total, dtype=np.float32)
    rows.sort_indices()
    rows.data = rows.data / np.repeat(by, np.diff(rows.indptr))
    return rows


def side_by_side(blocks: Sequence[Features]) -> Features:
    """Return blocks [nodes, f] of one kind as one, [nodes, blocks x f]."""
    if isinstance(blocks[0], np.ndarray):
        return np.concatenate(blocks, axis=1)
    return sparse.csr_matrix(sparse.hstack(blocks, format="csr"))


def rows_of(own: Features, halo: Features) -> FeatureRows:
    """Return rows of own nodes and of the halo; dense where averages have left few zeros in sparse ones."""
    packed = compact(own) if isinstance(own, sparse.csr_matrix) else own
    if isinstance(packed, np.ndarray) and isinstance(halo, sparse.csr_matrix):
        halo = halo.toarray()
    return FeatureRows(packed, halo)
