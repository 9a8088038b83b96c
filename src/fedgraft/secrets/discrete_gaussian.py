"""The discrete Gaussian, drawn exactly: integers alone, from the first bit to the last.

Floats would tell: which doubles a sum can take depends on what was summed (Mironov, CCS 2012).
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedgraft.errors import require
from fedgraft.secrets.keystream import Source, uniform_below

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Ratio = tuple[Integers, int]
"""Numerators and their denominator: numbers in [0, 1]."""
_MOST = 2**56
"""Of the square of the proposal's scale times the variance's denominator: what is left of 63 bits is passed by one draw
in e**127."""
_SPARE = 32
"""Trials that cost next to nothing."""
_FINE = 2**16
"""Denominator of variances that `variance_of` gives."""


def variance_of(deviation: float) -> Fraction:
    """Return a variance for `discrete_gaussian`: the least multiple of 2**-16 that is at least `deviation` squared."""
    require(0 < deviation < math.inf, "The deviation of noise", "> 0 and finite", deviation)
    return Fraction(math.ceil(Fraction(deviation) ** 2 * _FINE), _FINE)


def discrete_gaussian(variance: Fraction, count: int, source: Source) -> Integers:
    """Return integers z, each with probability exp(-z**2 / (2 variance)) over the sum of that over all integers.

    Source: Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020: a discrete
        Laplace draw y of scale t = floor(sigma) + 1 is kept with probability
        exp(-(|y| - sigma**2 / t)**2 / (2 sigma**2)).
    Differs: all draws at once; that exponent is a product of two small fractions, so that 64 bits hold every number.

    Args:
        variance: sigma**2 of the law, in squared steps, > 0; the variance of what is drawn is never above it, and equal
            to it within 1e-6 from sigma = 1 on. With t as above, t**2 times its denominator is at most 2**56.
        count: of draws, >= 0.
        source: of uniform words.

    Returns:
        int64 [count]. Its time depends on what is drawn: nobody may be able to watch the clock of one draw.
    """
    require(variance > 0, "The variance of noise", "> 0", variance)
    scale = math.isqrt(math.floor(variance)) + 1
    per_scale = variance.denominator * scale * scale
    require(
        per_scale <= _MOST,
        "The variance of noise",
        f"such that (sigma + 1)**2 times its denominator <= {_MOST}",
        variance,
    )

    def kept(trials: int) -> Integers:
        drawn = _discrete_laplace(scale, trials, source)
        distance = np.abs(np.abs(drawn) * (variance.denominator * scale) - variance.numerator)
        return drawn[_exp_of_product(distance, per_scale, 2 * variance.numerator, source)]

    return _gathered(kept, count)


def _discrete_laplace(scale: int, count: int, source: Source) -> Integers:
    """Return int64 [count], each with probability proportional to exp(-|z| / scale)."""

    def kept(trials: int) -> Integers:
        low = uniform_below(scale, trials, source)
        low = low[_exp(len(low), [(low, scale)], source)]
        size = low + scale * _geometric(len(low), source)
        negative = source.words(len(size)) >> np.uint64(63) == 1
        once: Booleans = ~(negative & (size == 0))  # there is one 0, not two
        size[negative] *= -1
        return size[once]

    return _gathered(kept, count)


def _gathered(kept: Callable[[int], Integers], count: int) -> Integers:
    """Return so many draws of `kept`, which returns those of a number of trials that are.

    More trials than are needed, for a few long rounds take less time than many short ones.
    """
    drawn: list[Integers] = []
    while (missing := count - sum(map(len, drawn))) > 0:
        drawn.append(kept(2 * missing + _SPARE))
    return np.concatenate([np.zeros(0, np.int64), *drawn])[:count]


def _geometric(count: int, source: Source) -> Integers:
    """Return how often something of probability exp(-1) happened before it did not."""
    times = np.zeros(count, np.int64)
    going = np.arange(count)
    while len(going := going[_exp(len(going), [], source)]):
        times[going] += 1
    return times


def _exp(count: int, factors: list[Ratio], source: Source) -> Booleans:
    """Return bool [count], each True with probability exp(-product of its factors); of no factors exp(-1).

    For an exponent in [0, 1]: heads of probability (exponent / k) for k = 1, 2, ... until the first tails;
    True where that came at an odd k. Heads of a product are heads of every factor.
    """
    odd = np.zeros(count, bool)
    going, k = np.arange(count), 1
    while len(going):
        heads = uniform_below(k, len(going), source) == 0
        for numerator, denominator in factors:
            heads &= uniform_below(denominator, len(going), source) < numerator[going]
        odd[going[~heads]] = k % 2
        going, k = going[heads], k + 1
    return odd


def _exp_of_product(distance: Integers, first: int, second: int, source: Source) -> Booleans:
    """Return bool like distance, True with probability exp(-(distance / first) * (distance / second)).

    (w + r)(v + s) with whole w, v is wv ones, w times s, v times r, and r s: all of these must happen.
    """
    (w, r), (v, s) = np.divmod(distance, first), np.divmod(distance, second)
    kept = _exp(len(distance), [(r, first), (s, second)], source)
    for times, factors in ((w * v, []), (w, [(s, second)]), (v, [(r, first)])):
        _keep_all(kept, times, factors, source)
    return kept


def _keep_all(kept: Booleans, times: Integers, factors: list[Ratio], source: Source) -> None:
    """Make `kept` False where one of so many draws of `_exp` is."""
    done = 0
    while len(asked := np.flatnonzero(kept & (times > done))):
        kept[asked] = _exp(len(asked), [(numerator[asked], denominator) for numerator, denominator in factors], source)
        done += 1
