"""Features averaged along metapaths before training: a model reads X and R_p X, R_p^2 X ... of every metapath p.

R_p is the mean over a target node and those that the metapath joins to it. Source: Yang et al., "Simple and Efficient
Heterogeneous Graph Neural Network" (SeHGNN), AAAI 2023, means made once before training. Differs: it has means of all
types along metapaths of any end; here the target type alone has features.
"""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from fedgraft.domains.examples import Features, compact


def blocks(metapaths: int, hops: int) -> int:
    """Return how many times as wide as features the inputs of so many metapaths and hops are."""
    return 1 + metapaths * hops


def smoothed(features: Features, joins: Sequence[sparse.csr_matrix], hops: int) -> Features:
    """Return inputs [targets, `blocks` x f] of features [targets, f], dense where averages have left few zeros.

    `joins` are the metapaths' matrices [targets, targets]: 1 where two nodes are joined, and on the diagonal.
    """
    parts = [features]
    for matrix in joins:
        joined = np.diff(matrix.indptr).astype(np.float32)
        rows = features
        for _ in range(hops):
            rows = _divided(matrix @ rows, joined)
            parts.append(rows)
    if isinstance(features, np.ndarray):
        return np.concatenate(parts, axis=1)
    return compact(sparse.csr_matrix(sparse.hstack(parts, format="csr")))


def _divided(total: Features, by: np.ndarray) -> Features:
    if isinstance(total, np.ndarray):
        return np.asarray(total / by[:, None], np.float32)
    rows = sparse.csr_matrix(total, dtype=np.float32)
    rows.data = rows.data / np.repeat(by, np.diff(rows.indptr))
    return rows
