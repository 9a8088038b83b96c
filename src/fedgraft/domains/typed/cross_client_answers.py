"""A client's target nodes and those that metapaths join to them, over which answers are smoothed."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import sparse

from fedgraft.contracts.abilities.smoothing import Means
from fedgraft.contracts.answers import Singles
from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features
from fedgraft.domains.labels.smoothing import Apart
from fedgraft.domains.typed.shards import TypedGraph


class CrossClientTargets(Apart):
    """Target nodes of a client; those of a node are joined to it by metapaths, and only inside the client.

    Args:
        shard: the client's part of the typed graph.
        rows: {split: int64 [nodes], target nodes}.
        joins: the metapaths' matrices [targets, targets]: 1 where two nodes are joined, and on the diagonal.
        inputs: what the model reads of target nodes.
    """

    def __init__(
        self,
        shard: TypedGraph,
        rows: Mapping[str, Indices],
        joins: Sequence[sparse.csr_matrix],
        inputs: "Features | None" = None,
    ) -> None:
        super().__init__(shard.label, rows)
        self._inputs = inputs
        self._joins = [_without_itself(matrix) for matrix in joins]

    @property
    def inputs(self) -> "Features | None":
        """As given."""
        return self._inputs

    def mean(self, rows: Singles, means: Means | None, width: int) -> Singles:
        """Return the mean over metapaths of the mean over the nodes joined; a node without any keeps its own row."""
        total, paths = np.zeros_like(rows), np.zeros(len(rows), np.float32)
        for matrix in self._joins:
            count = np.diff(matrix.indptr).astype(np.float32)
            total += np.asarray(matrix @ rows, np.float32) / np.maximum(count, 1)[:, None]
            paths += count > 0
        alone = paths == 0
        total[alone], paths[alone] = rows[alone], 1
        return total / paths[:, None]


def _without_itself(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    others = sparse.csr_matrix(matrix - sparse.diags(matrix.diagonal()), dtype=np.float32)
    others.eliminate_zeros()
    return others
