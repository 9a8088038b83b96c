"""Rows of features as they travel: dense ones as they are, sparse ones by column and value."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features
from fedgraft.errors import WireError
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Spec

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
