"""Features averaged along metapaths before training: a model reads X and R_p X, R_p^2 X ... of every metapath p.

R_p is the mean over a target node and those that the metapath joins to it. Source: Yang et al., "Simple and Efficient
Heterogeneous Graph Neural Network" (SeHGNN), AAAI 2023, means made once before training. Differs: it has means of all
types along metapaths of any end; here the target type alone has features.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy import sparse

from fedgraft.contracts.inputs import Inputs
from fedgraft.domains.examples import Features, compact


def smoothed(inputs: Inputs, features: Features, joins: Sequence[sparse.csr_matrix]) -> Features:
    """Return what a model reads of features [targets, f], dense where averages have left few zeros.

    `joins` are the metapaths' matrices [targets, targets]: 1 where two nodes are joined, and on the diagonal.
    """
    made = inputs.read(features, [partial(_mean, matrix) for matrix in joins])
    return made if isinstance(made, np.ndarray) or not inputs.hops else compact(sparse.csr_matrix(made))


def _mean(matrix: sparse.csr_matrix, features: Features) -> Features:
    total, by = matrix @ features, np.diff(matrix.indptr).astype(np.float32)
    if isinstance(total, np.ndarray):
        return np.asarray(total / by[:, None], np.float32)
    rows = sparse.csr_matrix(total, dtype=np.float32)
    rows.data = rows.data / np.repeat(by, np.diff(rows.indptr))
    return rows
