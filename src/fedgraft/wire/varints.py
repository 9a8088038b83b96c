"""Whole numbers in as many bytes as they need: 7 bits a byte, lowest first, the highest bit set where more follow."""

import numpy as np
from numpy.typing import NDArray

from fedgraft.errors import WireError
from fedgraft.wire.layouts import Array

LONGEST = 5
"""Most bytes of a number, which lies below 2**35."""


def encode(numbers: NDArray[np.int64]) -> Array:
    """Return uint8 [bytes] of numbers in [0, 2**35)."""
    sizes = np.ones(len(numbers), np.int64)
    for size in range(1, LONGEST):
        sizes += numbers >= 1 << 7 * size
    ends = np.cumsum(sizes)
    encoded = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    for place in range(LONGEST):
        longer = np.flatnonzero(sizes > place)
        more = (sizes[longer] > place + 1).astype(np.int64) << 7
        encoded[ends[longer] - sizes[longer] + place] = (numbers[longer] >> 7 * place & 127) | more
    return encoded


def decode(coded: Array) -> NDArray[np.int64]:
    """Return int64 [numbers] of uint8 [bytes]. Raises `WireError` for bytes that `encode` cannot have made."""
    ends = np.flatnonzero(coded < 128)
    if (len(coded) and coded[-1] >= 128) or (len(ends) == 0 and len(coded)):
        raise WireError("the last of many numbers is cut")
    sizes = np.diff(ends, prepend=-1)
    if (sizes > LONGEST).any() or (coded[ends[sizes > 1]] == 0).any():
        raise WireError("a number is longer than it need be")
    decoded = np.zeros(len(ends), np.int64)
    for place in range(LONGEST):
        longer = np.flatnonzero(sizes > place)
        at = ends[longer] - sizes[longer] + 1 + place
        decoded[longer] |= (coded[at].astype(np.int64) & 127) << 7 * place
    return decoded
