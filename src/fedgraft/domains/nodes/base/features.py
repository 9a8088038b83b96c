"""Features of a client's nodes and of its halo, one row a node, to be multiplied by what learns."""

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features
from fedgraft.nn.propagate import Sparse, Stacked
from fedgraft.nn.sparse import ranges
from fedgraft.wire.layouts import Array


class FeatureRows:
    """Rows of features: own nodes, then the halo's. Dense ones are never copied, neither here nor to be multiplied.

    `own` are float32 [own, f], dense or CSR, `halo` float32 [halo, f], of the same kind; `dense` has all rows by
    number, where they are dense.
    """

    def __init__(self, own: Features, halo: Features) -> None:
        self.dense: Stacked | None = None
        if isinstance(own, np.ndarray):
            self.dense = Stacked(_tensor(own), _tensor(np.asarray(halo)))
        else:
            matrix = own if not halo.shape[0] else sparse.csr_matrix(sparse.vstack([own, halo], format="csr"))
            self._pointers, self._columns = matrix.indptr.astype(np.int64), matrix.indices
            self._values = matrix.data
            self._width = int(matrix.shape[1])

    def rows(self, nodes: Indices) -> Sparse | Tensor:
        """Return the features of some nodes, in their order, float32 [nodes, f]."""
        if self.dense is not None:
            return self.dense.take(torch.from_numpy(nodes))
        first, counts = self._pointers[nodes], self._pointers[nodes + 1] - self._pointers[nodes]
        at = ranges(first, counts)
        rows = np.repeat(np.arange(len(nodes)), counts)
        # Never with its zeros: that is a little faster for a few rows, and ten or a hundred times the operations.
        return Sparse(rows, self._columns[at], self._values[at], (len(nodes), self._width), small=0)

    def first(self, count: int) -> Features:
        """Return the features of the first nodes, no more than there are own ones; not copied."""
        if self.dense is not None:
            return np.asarray(self.dense.upper[:count].numpy())
        end = self._pointers[count]
        parts = self._values[:end], self._columns[:end], self._pointers[: count + 1]
        return sparse.csr_matrix(parts, shape=(count, self._width))

    def filled(self, nodes: Indices) -> NDArray[np.float32]:
        """Return the features of some nodes, their zeros written out, float32 [nodes, f]."""
        if self.dense is not None:
            return self.dense.take(torch.from_numpy(nodes)).numpy()
        first, counts = self._pointers[nodes], self._pointers[nodes + 1] - self._pointers[nodes]
        at, filled = ranges(first, counts), np.zeros((len(nodes), self._width), np.float32)
        places = np.repeat(np.arange(len(nodes)) * self._width, counts) + self._columns[at]
        np.add.at(filled.reshape(-1), places, self._values[at])  # one index takes a third of the time of two
        return filled


def _tensor(rows: Array) -> Tensor:
    """Return a tensor of the same memory, which nobody writes to; torch cannot mark that and warns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(rows)


def inner_products(features: Features, pairs: NDArray[np.integer]) -> NDArray[np.float32]:
    """Inner products of the features of two nodes each, float32 [n], of pairs [2, n]."""
    one, other = features[pairs[0]], features[pairs[1]]
    products = one * other if isinstance(one, np.ndarray) else one.multiply(other)
    return np.asarray(products.sum(axis=1)).ravel()
