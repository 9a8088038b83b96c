"""Attention of several heads over a graph in CSR, with its own gradient.

    attend(values, receiver, sender)    out[i] = sum over edges (i, j) of a[ij] * values[j],  per head
        a[ij] = softmax over i's edges of leaky_relu(receiver[i] + sender[j])

No edge's exponential is taken, and no array of [edges, width] is made. With r and s for receiver and sender, the
exponential of a score is exp(r) exp(s) if it is above zero, exp(slope r) exp(slope s) if not. Divided by what all edges
of node i have in common, that is B[j] on the edges P with a score above zero, and A[i] C[j] on all others:

    B[j] = exp(s[j] - m),    C[j] = exp(slope (s[j] - m)),    A[i] = exp((slope - 1) max(0, r[i] + m)),    m = max of s

So sums over edges are products with the ones of P, of which each head has its own, and with those of all edges.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor

from fedgraft.nn import flops
from fedgraft.nn.propagate import Graph
from fedgraft.nn.sparse import Sparse

MOST_ENTRIES = 1 << 20
"""Entries of the matrix with all heads up to which these share one product (measured: beyond it, it saves nothing)."""
LOWEST = -80.0
"""Least exponent of a weight: its exponential is still above zero in float32."""


class HeadedGraph:
    """The structure of a directed graph on n nodes, or of several on the same nodes, for attention of several heads.

    Args:
        matrices: adjacencies [n, n]; entry (i, j) means that i attends to j. Every node attends to itself at least.
        heads: number of heads of each, >= 1; those of the first matrix come first.

    Attributes:
        nodes: n; edges: number of edges of all heads.
    """

    def __init__(self, matrices: Sequence[scipy.sparse.csr_matrix], heads: int) -> None:
        self.nodes, self.edges = int(matrices[0].shape[0]), heads * sum(int(matrix.nnz) for matrix in matrices)
        self._matrices, self._heads = matrices, heads
        self._together = self.edges <= MOST_ENTRIES
        ...
