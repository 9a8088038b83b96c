"""Shamir's secret sharing: so many shares rebuild a secret, and fewer say nothing of it."""

from collections.abc import Mapping, Sequence
from typing import Final

from fedgraft.errors import ClientError

PRIME: Final = 2**257 - 93
"""The field's size, above all secrets of 256 bits."""


def shares(secret: int, coefficients: Sequence[int], places: Sequence[int], prime: int = PRIME) -> list[int]:
    """Return a share of a secret for each place: the value there of secret + c1 x + c2 x^2 + ...

    Source: Shamir, "How to Share a Secret", CACM 1979.

    Args:
        secret: in [0, prime).
        coefficients: drawn uniformly from [0, prime), one fewer than the shares that rebuild the secret.
        places: distinct, in [1, prime): whose share it is.
        prime: size of the field.
    """
    polynomial = [secret, *coefficients]
    values = []
    for place in places:
        value = 0
        for coefficient in reversed(polynomial):
            value = (value * place + coefficient) % prime
        values.append(value)
    return values


def rebuilt(known: Mapping[int, int], threshold: int, prime: int = PRIME) -> int:
    """Return the secret from {place: share}, by Lagrange's interpolation at 0 of the first `threshold` of them.

    Raises `ClientError` for fewer.
    """
    if len(known) < threshold:
        raise ClientError(f"{len(known)} shares of a secret are too few: {threshold} rebuild it")
    points = sorted(known.items())[:threshold]
    secret = 0
    for place, value in points:
        above = below = 1
        for other, _ in points:
            if other != place:
                above, below = above * other % prime, below * (other - place) % prime
        secret += value * above * pow(below, -1, prime)
    return secret % prime
