"""From clipped vectors to integers whose sum can be masked: what rounding costs, and how many bits the sum needs.

Source: Kairouz, Liu, Steinke, "The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure
    Aggregation", ICML 2021.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedgraft.errors import require
from fedgraft.secrets.keystream import Source

_FRACTION = 2**53
"""Of a step, that rounding tells apart."""
_MOST_STEPS = 2**30
"""Of a clipped vector's length, such that 63 bits hold its square."""


def sensitivity(clip: float, step: float, dimension: int, failure: float) -> float:
    """Return the most that a vector of length `clip` measures when every coordinate was rounded at random to a step.

    Source: Theorem 1: sqrt(min(c**2 + g**2 d / 4 + sqrt(2 log(1 / beta)) g (c + g sqrt(d) / 2), (c + g sqrt(d))**2)).

    Two uses. Whoever rounds one unit's vector draws again until it is as short as this (`rounded`): then it holds
    always, and `failure` biases. Whoever rounds a sum of many units' vectors cannot; but two such sums that differ in
    one unit, rounded by the same draws, differ by that unit's vector, rounded at random: so it holds but for
    `failure`, which counts as `accountant.Released.failure`.

    Args:
        clip: c, most Euclidean length of a unit's vector, > 0.
        step: g, in the same measure, > 0.
        dimension: d, coordinates, >= 1.
        failure: beta, most probability that rounding makes it longer, in [0, 1); of 0 the second bound remains.

    Returns:
        In the measure of `clip`; divided by `step` in steps.
    """
    require(0 < clip < math.inf, "The clipped length", "> 0 and finite", clip)
    require(0 < step < math.inf, "The step of rounding", "> 0 and finite", step)
    require(dimension >= 1, "The number of coordinates", ">= 1", dimension)
    require(0 <= failure < 1, "The probability of a failure", "in [0, 1)", failure)
    always = clip + step * math.sqrt(dimension)
    if failure == 0:
        return always
    rest = math.sqrt(-2 * math.log(failure)) * step * (clip + step * math.sqrt(dimension) / 2)
    return min(always, math.sqrt(clip**2 + step**2 * dimension / 4 + rest))


def rounded(
    values: NDArray[np.floating], clip: float, step: float, failure: float, source: Source
) -> NDArray[np.int64]:
    """Return values in steps, each rounded up or down such that its mean stays, no longer than `sensitivity`.

    Source: the conditional randomized rounding of Algorithm 1: drawn again until it is short enough, as it is the first
        time with a probability of at least 1 - failure (Proposition 22).

    Args:
        values: float [d], no longer than `clip`, but for round-off.
        clip: as of `sensitivity`, at most 2**30 steps.
        step: as of `sensitivity`.
        failure: beta; the bias it brings is at most that of leaving out the failures.
        source: of uniform words.

    Returns:
        int64 [d].

    Raises `InputError` for values that are longer, or not finite.
    """
    most = sensitivity(clip, step, len(values), failure) / step
    require(clip / step <= _MOST_STEPS, "The step of rounding", f"at least the clipped length / {_MOST_STEPS}", step)
    exact = np.asarray(values, np.float64) / step
    length = float(np.linalg.norm(exact)) * step
    require(
        length <= clip * (1 + 1e-6),
        "The length of a vector to be rounded",
        f"at most {clip:g}, the clipped one",
        length,
    )
    while True:
        drawn = at_random(exact, source)
        if int(drawn @ drawn) <= most * most:
            return drawn


def at_random(values: NDArray[np.floating], source: Source) -> NDArray[np.int64]:
    """Return each value rounded up or down, such that its mean stays; below 2**53 in size, int64 [d]."""
    exact = np.asarray(values, np.float64)
    low = np.floor(exact)
    part = ((exact - low) * _FRACTION).astype(np.uint64)
    return low.astype(np.int64) + (source.words(len(exact)) >> np.uint64(11) < part)


def bits_for(largest: float, step: float, clients: int, variance: float, dimension: int, failure: float) -> int:
    """Return the bits of each integer for which a sum modulo 2**bits is the sum itself, but with probability `failure`.

    The clear sum, a step for the rounding of each client, and the noise, whose tails are at most those of a Gaussian of
    the same parameter (Canonne et al. 2020): 2 d exp(-k**2 / 2) beyond k deviations in d coordinates.

    Args:
        largest: most absolute value of a coordinate of the clear sum: clients times clip where each sends one clipped
            vector, > 0.
        step: in the same measure, > 0.
        clients: whose vectors are in the sum, >= 1.
        variance: of the noise of all clients together, in squared steps, >= 0.
        dimension: d, >= 1.
        failure: in (0, 1): that any coordinate wraps around. It spoils the sum and tells nothing more.
    """
    require(0 < largest < math.inf, "The largest value of a sum", "> 0 and finite", largest)
    require(0 < step < math.inf, "The step of rounding", "> 0 and finite", step)
    require(clients >= 1, "The number of clients", ">= 1", clients)
    require(0 <= variance < math.inf, "The variance of noise", ">= 0 and finite", variance)
    require(dimension >= 1, "The number of coordinates", ">= 1", dimension)
    require(0 < failure < 1, "The probability of a failure", "in (0, 1)", failure)
    noise = math.sqrt(2 * math.log(2 * dimension / failure) * variance)
    reach = math.ceil(largest / step) + clients + math.ceil(noise)
    return (2 * reach).bit_length()
