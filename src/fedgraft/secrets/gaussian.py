"""The Gaussian mechanism in closed form."""

import math
from collections.abc import Callable

from scipy.special import log_ndtr

from fedgraft.errors import require

_HALVINGS = 60
"""Of an interval, after which its ends differ by less than a double tells."""


def gaussian_delta(noise: float, epsilon: float) -> float:
    """Return the least delta for which one Gaussian release is (epsilon, delta)-private.

    Source: Balle, Wang, "Improving the Gaussian Mechanism for Differential Privacy", ICML 2018, Theorem 8:
        Phi(1/(2s) - s epsilon) - exp(epsilon) Phi(-1/(2s) - s epsilon), s = `noise`.

    Args:
        noise: deviation in units of the sensitivity, > 0.
        epsilon: >= 0.
    """
    more = log_ndtr(0.5 / noise - noise * epsilon)
    less = epsilon + log_ndtr(-0.5 / noise - noise * epsilon)
    return float(-math.exp(more) * math.expm1(min(0.0, less - more)))


def gaussian_epsilon(noise: float, delta: float) -> float:
    """Return the least epsilon for which one Gaussian release is (epsilon, delta)-private; 0 where none is needed.

    T releases of noise s, which may depend on each other, are one of noise s / sqrt(T): their privacy losses are
    Gaussian, and add.

    Args:
        noise: deviation in units of the sensitivity, > 0 and finite.
        delta: in (0, 1).
    """
    require(0 < noise < math.inf, "The noise of a release", "> 0 and finite", noise)
    require(0 < delta < 1, "delta", "in (0, 1)", delta)
    if gaussian_delta(noise, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(noise, high) > delta:
        high *= 2
    return _least(lambda epsilon: gaussian_delta(noise, epsilon) <= delta, 0.0, high)


def gaussian_noise(epsilon: float, delta: float) -> float:
    """Return the least noise of one Gaussian release that is (epsilon, delta)-private, in units of the sensitivity.

    Args:
        epsilon: > 0 and finite.
        delta: in (0, 1).
    """
    require(0 < epsilon < math.inf, "epsilon", "> 0 and finite", epsilon)
    require(0 < delta < 1, "delta", "in (0, 1)", delta)
    high = 1.0
    while gaussian_delta(high, epsilon) > delta:
        high *= 2
    return _least(lambda noise: gaussian_delta(noise, epsilon) <= delta, 0.0, high)


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least number for which `enough` holds, or one just above; it holds at `high` and all above it."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
