"""Marks as bits, most significant first as `numpy.packbits` makes them, read without a byte for each."""

import numpy as np
from numpy.typing import NDArray

from fedgraft.wire.layouts import Array

_PIECE = 1 << 17
"""Bytes that are looked at together: a byte for each of their bits is made."""


def count_bits(bits: Array) -> int:
    """Return how many bits of uint8 [bytes] are set."""
    return int(np.bitwise_count(bits).sum(dtype=np.int64))


def set_bits(bits: Array) -> NDArray[np.int64]:
    """Return the places of the bits that are set in uint8 [bytes], int64 [set], ascending."""
    pieces = range(0, max(1, len(bits)), _PIECE)
    return np.concatenate([np.flatnonzero(np.unpackbits(bits[at : at + _PIECE])) + 8 * at for at in pieces])
