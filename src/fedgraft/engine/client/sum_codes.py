"""Codes of a client's part in a sum: modulo a power of two, masked where there is a mask, and packed."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedgraft.engine.privacy.secure_sum import CODES, whole
from fedgraft.wire import packing
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.packing import Codes

Mask: TypeAlias = Callable[[Codes], Codes]
"""Puts masks on codes."""


def numbers_added(numbers: Array, mask: Mask | None) -> Arrays:
    """Return numbers in a message as they are added to those of others, `SCORE_BITS` each."""
    codes = whole(numbers)
    codes = mask(codes) if mask else codes
    return {CODES: codes.astype("<u8").view(np.uint8)}


def wrapped(made: NDArray[np.integer[Any]], bits: int, mask: Mask | None) -> Codes:
    """Return codes modulo 2**bits, masked where there is a mask."""
    codes: Codes = (made.astype(np.int64) & (2**bits - 1)).astype(packing.code_type(bits))
    return mask(codes) if mask else codes


def packed(codes: Codes, bits: int) -> Arrays:
    """Return codes of so many bits as a message holds them."""
    padded = np.zeros(-(-codes.size // 8) * 8, packing.code_type(bits))
    padded[: codes.size] = codes
    return {CODES: packing.pack(padded, codes.size, bits)}
