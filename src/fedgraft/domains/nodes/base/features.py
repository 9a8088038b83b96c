"""Features of a client's nodes and of its halo, one row a node, to be multiplied by what learns."""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features
from fedgraft.errors import WireError
from fedgraft.nn.propagate import Sparse, Stacked
from fedgraft.nn.sparse import ranges
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Spec


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


NARROW = (1 << 16) - 1
"""Numbers up to it travel as two bytes."""
FAR = 255
"""Columns further apart take more than one byte."""


@dataclass(frozen=True)
class FeatureCoding:
    """The code in which rows of `width` features travel, which are sparse or not; both ends know it."""

    width: int
    is_sparse: bool

    @property
    def specs(self) -> tuple[Spec, ...]:
        """Layout of what `pack` makes."""
        if not self.is_sparse:
            return (Spec("features", "float32", (VARIABLE, self.width), "features"),)
        kind = "uint16" if self.width <= NARROW else "uint32"
        return (
            Spec("values", "float32", (VARIABLE,), "features"),
            Spec("counts", kind, (VARIABLE,), "features"),
            Spec("gaps", "uint8", (VARIABLE,), "features"),
        )

    def empty(self, rows: int) -> Features:
        """So many rows of zeros, float32 [rows, width]."""
        if self.is_sparse:
            return sparse.csr_matrix((rows, self.width), dtype=np.float32)
        return np.zeros((rows, self.width), np.float32)

    def pack(self, features: Features) -> Arrays:
        """Return rows of features as arrays."""
        if isinstance(features, np.ndarray):
            return {"features": np.ascontiguousarray(features)}
        kind = np.uint16 if self.width <= NARROW else np.uint32
        if not features.has_sorted_indices:
            features = features.sorted_indices()
        counts = np.diff(features.indptr).astype(kind)
        return {"counts": counts, "gaps": gaps_of(features), "values": features.data}

    def unpack(self, arrays: Arrays, rows: int) -> Features:
        """The inverse of `pack`, [rows, width]. Raises `WireError` for what it cannot have made of so many rows."""
        values = arrays["values" if self.is_sparse else "features"]
        if not np.isfinite(values).all():
            raise WireError("a feature is not finite")
        if not self.is_sparse:
            if len(values) != rows:
                raise WireError(f"features of {len(values)} nodes where {rows} are meant")
            return values
        counts, columns = arrays["counts"].astype(np.int64), columns_of(arrays["gaps"], arrays["counts"])
        if len(counts) != rows or counts.sum() != len(columns) or len(columns) != len(values):
            raise WireError(f"{len(values)} features, {len(columns)} columns and {len(counts)} counts of {rows} nodes")
        if columns.max(initial=0) >= max(1, self.width):
            raise WireError(f"feature {columns.max()} where there are {self.width}")
        return sparse.csr_matrix((values, columns.astype(np.int32), _starts(counts)), shape=(rows, self.width))


def gaps_of(features: sparse.csr_matrix) -> Array:
    """uint8 [n]: how far each column is behind the one before it in its row, `FAR` and the rest where it is further."""
    columns = features.indices.astype(np.int64)
    gaps = np.diff(columns, prepend=0)
    first = features.indptr[:-1][np.diff(features.indptr) > 0]
    gaps[first] = columns[first]
    steps = gaps // FAR
    coded = np.full(int(steps.sum()) + len(gaps), FAR, np.uint8)
    coded[np.cumsum(steps + 1) - 1] = gaps % FAR
    return coded


def columns_of(gaps: Array, counts: Array) -> Indices:
    """int64 [entries]: the columns that `gaps_of` made these gaps of, for rows of so many entries each."""
    ends = np.flatnonzero(gaps < FAR)
    if len(ends) != counts.sum(dtype=np.int64) or (len(gaps) and gaps[-1] == FAR):
        raise WireError(f"{len(ends)} columns where {counts.sum(dtype=np.int64)} are meant")
    reached = np.cumsum(gaps, dtype=np.int64)[ends]  # as if all rows were one behind the other
    starts = _starts(counts.astype(np.int64))[:-1]
    before = np.concatenate([[0], reached])[starts]
    return np.asarray(reached - np.repeat(before, counts))


def _starts(counts: Indices) -> Indices:
    return np.concatenate([[0], np.cumsum(counts)])
