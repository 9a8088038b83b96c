"""Masks: streams of numbers that whoever has the key adds, and another one subtracts."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

Lanes = NDArray[np.unsignedinteger[Any]]
_NONCE: Final = bytes(16)
"""Each key is of one stream."""
_BLOCK: Final = 1 << 16
"""Numbers at a time: they stay in a core's own cache. A multiple of 64, the bytes of a block of the cipher."""


def lane_type(bits: int) -> type[np.unsignedinteger[Any]]:
    """Return the narrowest type that numbers of 1 to 64 bits are added in, modulo a power of two."""
    return next(kind for kind in (np.uint8, np.uint16, np.uint32, np.uint64) if bits <= 8 * np.dtype(kind).itemsize)


def mask(values: Lanes, added: Iterable[bytes], subtracted: Iterable[bytes]) -> None:
    """Add the streams of some keys to values, in place, and subtract those of others, modulo the type's power of two.

    A stream is ChaCha20's (RFC 8439) from counter and nonce 0, read as little-endian numbers of the type. Whoever wants
    fewer bits keeps the lowest ones of the sums.

    Args:
        values: of `lane_type`, contiguous.
        added: keys of 32 bytes, each for one stream.
        subtracted: the same.
    """
    ciphers: list[tuple[CipherContext, np.ufunc]] = [(_stream(key), np.add) for key in added]
    ciphers += [(_stream(key), np.subtract) for key in subtracted]
    zeros = bytes(_BLOCK * values.itemsize)
    drawn = bytearray(len(zeros) + 64)  # it may write as much more
    stream = np.frombuffer(drawn, values.dtype.newbyteorder("<"), _BLOCK)
    for begin in range(0, values.size, _BLOCK):
        here = values[begin : begin + _BLOCK]
        for cipher, combine in ciphers:
            cipher.update_into(zeros, drawn)
            combine(here, stream[: here.size], out=here)


def _stream(key: bytes) -> CipherContext:
    return Cipher(ChaCha20(key, _NONCE), None).encryptor()
