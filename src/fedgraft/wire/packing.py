"""Whole numbers as bytes: of few bits each, end to end, or of as many bytes as each needs (varints).

A varint has 7 bits a byte, lowest first, the highest bit set where more follow.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.errors import WireError
from fedgraft.wire.layouts import Array

_HALVINGS: Final = {1: (1, 2, 4), 2: (2, 4), 4: (4,), 8: ()}
"""For codes that divide a byte: bits in use of each byte, whenever two bytes become one."""

Bytes = NDArray[np.uint8]
Codes = NDArray[np.unsignedinteger[Any]]


def packed_bytes(values: int, bits: int) -> int:
    """Return how many bytes `pack` makes."""
    return -(-values * bits // 8)


def code_type(bits: int) -> type[np.unsignedinteger[Any]]:
    """The narrowest type of codes of 0 to 32 bits."""
    return np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32


def pack(codes: Codes, values: int, bits: int) -> Bytes:
    """The lowest `bits` bits of each code, end to end; beyond eight, all low bytes come before the rest.

    Works on words of eight codes, a byte each: halves of ever wider lanes are pushed together. Where the bits of a code
    divide a byte, neighbouring bytes are.

    Args:
        codes: of `code_type(bits)`, below 2**bits; a multiple of eight, those beyond `values` zero.
        values: how many of them count.
        bits: per code, in [0, 32].
    """
    if bits > 8:
        high = pack((codes >> 8).astype(code_type(bits - 8)), values, bits - 8)
        return np.concatenate([codes[:values].astype(np.uint8), high])
    if bits in _HALVINGS:
        for width in _HALVINGS[bits]:
            pairs = codes.view("<u2")
            codes = (pairs | pairs >> np.uint16(8 - width)).astype(np.uint8)
        return codes[: packed_bytes(values, bits)]
    words = codes.view("<u8")
    for width in (8, 16, 32):
        lane = _lanes(width, width)
        words = (words & lane) | ((words >> np.uint64(width)) & lane) << np.uint64(width * bits // 8)
    return words.view(np.uint8).reshape(-1, 8)[:, :bits].reshape(-1)[: packed_bytes(values, bits)]


def unpack(packed: Bytes, values: int, bits: int) -> Codes:
    """The codes that `pack` was given, [values].

    Raises:
        WireError: for bytes of another length, and for bits set behind the last code.
    """
    if packed.size != packed_bytes(values, bits):
        raise WireError(f"{values} codes of {bits} bits take {packed_bytes(values, bits)} bytes; got {packed.size}.")
    if packed.size and bits * values % 8 and packed[-1] >> np.uint8(bits * values % 8):
        raise WireError("Bits are set behind the last packed value.")
    return _unpack(packed, values, bits)


def _unpack(packed: Bytes, values: int, bits: int) -> Codes:
    if bits > 8:
        wide = code_type(bits)
        high = _unpack(packed[values:], values, bits - 8)
        codes: Codes = packed[:values] | high.astype(wide) << wide(8)
        return codes
    if bits in _HALVINGS:
        apart: Array = packed
        for width in reversed(_HALVINGS[bits]):
            pairs = apart.astype("<u2")
            pairs |= pairs << np.uint16(8 - width)
            pairs &= np.uint16(((1 << width) - 1) * 0x0101)
            apart = pairs.view(np.uint8)
        return apart[:values]
    groups = -(-values // 8)
    padded = np.zeros(groups * bits, np.uint8)
    padded[: packed.size] = packed
    spread = np.zeros((groups, 8), np.uint8)
    spread[:, :bits] = padded.reshape(groups, bits)
    words = spread.reshape(-1).view("<u8")
    for width in (32, 16, 8):
        used = width * bits // 8
        lane = _lanes(width, used)
        words = (words & lane) | ((words >> np.uint64(used)) & lane) << np.uint64(width)
    return words.view(np.uint8)[:values]


def _lanes(width: int, used: int) -> np.uint64:
    """A mask of the lowest `used` bits of every other lane of `width` bits."""
    return np.uint64(sum(((1 << used) - 1) << start for start in range(0, 64, 2 * width)))


_PIECE = 1 << 17
"""Bytes that are looked at together: a byte for each of their bits is made."""


def count_bits(bits: Array) -> int:
    """Return how many bits of uint8 [bytes] are set."""
    return int(np.bitwise_count(bits).sum(dtype=np.int64))


def set_bits(bits: Array) -> NDArray[np.int64]:
    """Return the places of the bits that are set in uint8 [bytes], int64 [set], ascending."""
    pieces = range(0, max(1, len(bits)), _PIECE)
    return np.concatenate([np.flatnonzero(np.unpackbits(bits[at : at + _PIECE])) + 8 * at for at in pieces])


LONGEST = 5
"""Most bytes of a number, which lies below 2**35."""


def encode_varints(numbers: NDArray[np.int64]) -> Array:
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


def decode_varints(coded: Array) -> NDArray[np.int64]:
    """Return int64 [numbers] of uint8 [bytes]. Raises `WireError` for bytes that `encode_varints` cannot have made."""
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
