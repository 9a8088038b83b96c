"""Rows of arrays as bytes, each by itself: what is encrypted, and what the server then hands on."""

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from fedgraft.contracts.codec import RowCodec
from fedgraft.wire.buffers import bytes_of_rows, rows_of_bytes
from fedgraft.wire.encrypted_rows import TAG_BYTES
from fedgraft.wire.layouts import VARIABLE, Array, Layout, Spec


@dataclass(frozen=True)
class RowCoding:
    """Code matrices of float32 by a codec, if there is one, and all others as they are."""

    codec: RowCodec[object] | None

    def encrypted(self, layout: Layout, names: Collection[str]) -> Layout:
        """Return a layout with encrypted rows in place of some arrays."""
        return Layout(
            tuple(
                Spec(spec.name, "uint8", (VARIABLE, TAG_BYTES + self._bytes(spec))) if spec.name in names else spec
                for spec in layout
            )
        )

    def encode(self, spec: Spec, rows: Array, g: np.random.Generator) -> Array:
        """Return uint8 [rows, bytes] of an array of this form."""
        return self.codec.encode_rows(rows, g) if self.codec and _is_matrix(spec) else bytes_of_rows(rows)

    def decode(self, spec: Spec, coded: Array) -> Array:
        """Return the array of uint8 [rows, bytes]. Raises `WireError` for what `encode` cannot have made."""
        if self.codec and _is_matrix(spec):
            return self.codec.decode_rows(coded, spec.shape[1])
        return rows_of_bytes(coded, spec.dtype, *spec.shape[1:])

    def _bytes(self, spec: Spec) -> int:
        if self.codec and _is_matrix(spec):
            return self.codec.row_bytes(spec.shape[1])
        return math.prod(spec.shape[1:]) * np.dtype(spec.dtype).itemsize


EXACT = RowCoding(None)
"""All rows as they are."""


def _is_matrix(spec: Spec) -> bool:
    return spec.dtype == "float32" and len(spec.shape) == 2
