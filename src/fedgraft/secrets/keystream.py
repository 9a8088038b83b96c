"""Uniform integers that nobody can guess: ChaCha20's keystream."""

import os
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from fedgraft.errors import require
from fedgraft.secrets.sizes import KEY_BYTES

Words = NDArray[np.uint64]


class Source(Protocol):
    """Where private randomness comes from; tests hand in one with a key that they know."""

    def words(self, count: int) -> Words:
        """Return uint64 [count], each uniform and independent of all before."""


class Keystream:
    """ChaCha20's keystream, cut into words.

    Source: RFC 8439. Differs: nothing; nonce and counter start at 0, which gives 2**38 bytes of one key.

    Args:
        key: 32 bytes, used for nothing else; None takes new ones of the operating system. Equal keys give equal words.

    Raises `InputError` for a key of another length.
    """

    def __init__(self, key: bytes | None = None) -> None:
        key = os.urandom(KEY_BYTES) if key is None else key
        require(len(key) == KEY_BYTES, "The length of a key", f"{KEY_BYTES} bytes", len(key))
        self._cipher = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()

    def words(self, count: int) -> Words:
        """Return uint64 [count], the next ones."""
        return np.frombuffer(self._cipher.update(bytes(8 * count)), "<u8").astype(np.uint64)


def uniform_below(bound: int, count: int, source: Source) -> NDArray[np.int64]:
    """Return int64 [count], each uniform on {0, ..., bound - 1}, exactly; bound in [1, 2**62].

    A word's highest bits that are too large are drawn anew, so that no number is more likely than another.
    """
    bits = (bound - 1).bit_length()
    if not bits or not count:
        return np.zeros(count, np.int64)
    drawn = (source.words(count) >> np.uint64(64 - bits)).astype(np.int64)
    missing = np.flatnonzero(drawn >= bound)
    while len(missing):
        drawn[missing] = source.words(len(missing)) >> np.uint64(64 - bits)
        missing = missing[drawn[missing] >= bound]
    return drawn


def drawn(units: int, share: float, source: Source) -> NDArray[np.int64]:
    """Return int64, those that take part, ascending: each with probability `share`, independent of all others.

    Poisson sampling, the only one that `accountant.Released.share` is about. How many take part is random, too, and
    nobody of them is also one. Whoever claims it draws from a source that those who see the sum neither know nor steer.

    Args:
        units: how many there are, >= 0.
        share: probability, in (0, 1]; rounded down to 2**-53.
        source: of uniform words.
    """
    require(units >= 0, "The number of units", ">= 0", units)
    require(0 < share <= 1, "The share of units", "in (0, 1]", share)
    return np.flatnonzero(source.words(units) >> np.uint64(11) < int(share * 2**53))
