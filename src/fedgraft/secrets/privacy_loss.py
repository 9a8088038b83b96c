"""Distributions of a privacy loss on a grid, never smaller than they are, and their sums by FFT.

The privacy loss of an output is log(P[output] / Q[output]) for two neighbouring data sets, the output drawn under P.
Losses of parts add. What is (epsilon, delta)-private follows from the loss L of all: delta is the mean of
(1 - exp(epsilon - L))+.

Source: Sommer, Meiser, Mohammadi, PETS 2019; Koskela, Jaelkoe, Honkela, AISTATS 2020 (sums by FFT). The grid is that of
    Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, "Connect the Dots", PETS 2022: each cell's probabilities under P and
    under Q go to its two ends such that both are kept. The curve of delta over exp(epsilon) is convex and becomes its
    own chords, which lie above it: nothing is ever claimed too small.
Differs: losses are tilted by exp(lambda L) before the FFT, with the lambda of the Chernoff bound at delta, so that
    round-off is relative to delta and not to 1.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

Floats = NDArray[np.float64]
_OUTSIDE = math.log(1e-17)
"""Tilted probability of a sum on either side of the window of the FFT, where it wraps around: below round-off."""
_SPARE = 1e-8
"""Share of delta that pays for what wraps around and for round-off."""
_DOUBT = 1e-6
"""Share of delta that round-off may make, before a smaller tilt is tried."""
_SMALLER = np.array([1.0, 0.25, 1 / 16, 0.0])
"""Tilts, relative to Chernoff's, one after another until round-off no longer matters."""
_EXPONENTS = (-700.0, 300.0)
"""Of exp, such that products of two are doubles. Below, probabilities are larger than they are; above, where delta is
passed by far, smaller."""


@dataclass(frozen=True, eq=False)
class PrivacyLoss:
    """One part's loss: `step * (first + i)` with probability `mass[i]`, or infinite.

    Args:
        step: of the grid, > 0.
        first: number of the lowest loss.
        mass: float64 [losses], >= 0.
        infinite: probability of an infinite loss, in [0, 1]; with `mass` it sums to 1, or a hair more.
    """

    step: float
    first: int
    mass: Floats
    infinite: float

    @cached_property
    def losses(self) -> Floats:
        """Return float64 [losses], ascending."""
        return self.step * np.arange(self.first, self.first + len(self.mass), dtype=np.float64)

    def log_moment(self, order: float) -> float:
        """Return log of the mean of exp(order * loss), infinite ones left out."""
        exponents = order * self.losses + self._log_mass
        largest = exponents.max()
        return float(largest + np.log(np.exp(exponents - largest).sum()))

    def tilted(self, order: float) -> Floats:
        """Return float64 [losses], probabilities times exp(order * loss), made to sum to 1."""
        return np.exp(order * self.losses + self._log_mass - self.log_moment(order))

    @cached_property
    def _log_mass(self) -> Floats:
        return np.log(self.mass, where=self.mass > 0, out=np.full(len(self.mass), -np.inf))


def connected(step: float, first: int, below: float, p: Floats, q: Floats, above: float) -> PrivacyLoss:
    """Return the loss of which is known how probable each cell of a grid is.

    Args:
        step: of the grid.
        first: number of its lowest line, a.
        below: probability under P of losses below all cells: they count as `step * a`.
        p: float64 [cells], probability under P of losses from a + i to a + i + 1, in steps.
        q: float64 [cells], the same under Q.
        above: probability under P of losses above all cells: they count as infinite.
    """
    low = step * np.arange(first, first + len(p))
    log_ratio = np.full(len(p), -np.inf)  # of Q to P in a cell, and its lower end: in [-step, 0], but for round-off
    known = (p > 0) & (q > 0)
    log_ratio[known] = np.minimum(0.0, low[known] + np.log(q[known]) - np.log(p[known]))
    up = p * np.minimum(1.0, np.expm1(log_ratio) / np.expm1(-step))
    mass = np.append(0.0, up)
    mass[:-1] += p - up
    mass[0] += below
    return PrivacyLoss(step, first, mass, above)


def two_losses(size: float, infinite: float, step: float) -> PrivacyLoss:
    """Return the loss of randomised response, which that of no mechanism of this epsilon and delta exceeds.

    Source: Kairouz, Oh, Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015.

    Args:
        size: epsilon, > 0.
        infinite: delta, in [0, 1).
        step: of the grid.
    """
    ends = max(1, math.ceil(size / step * (1 - 1e-12)))
    p, q = np.zeros(2 * ends), np.zeros(2 * ends)
    p[-1] = q[0] = (1 - infinite) / (1 + math.exp(-size))
    p[0] = q[-1] = p[-1] * math.exp(-size)
    return connected(step, -ends, 0.0, p, q, infinite)


def least_epsilon(parts: Sequence[tuple[PrivacyLoss, int]], delta: float) -> float:
    """Return the least epsilon at delta of losses on one grid that add: each so many times; never below the truth.

    Infinite where delta does not pay for infinite losses; 0 where none is needed.
    """
    infinite = -math.expm1(sum(times * math.log1p(-loss.infinite) for loss, times in parts))
    left = delta * (1 - _SPARE) - infinite
    if left <= 0:
        return math.inf

    def log_moment(order: float) -> float:
        return sum(times * loss.log_moment(order) for loss, times in parts)

    orders = _orders(parts)
    tilt, center = _least_quotient(lambda order: log_moment(order) - math.log(delta), orders)
    _, highest = _least_quotient(lambda order: log_moment(order) - math.log(delta) - _OUTSIDE, orders)
    least = math.inf
    for order in tilt * _SMALLER:
        here = log_moment(order)
        _, low = _least_quotient(partial(_outside, log_moment, order, here, -1), orders)
        _, high = _least_quotient(partial(_outside, log_moment, order, here, 1), orders)
        window = (-low, center, max(high, highest))
        found, doubt = _crossing(parts, order, here, window, left)
        least = min(least, found)
        if doubt <= _DOUBT:
            break
    return max(0.0, least)


def _outside(log_moment: Callable[[float], float], tilt: float, here: float, side: int, order: float) -> float:
    """Return, times order, how far on a side of 0 the tilted probability is negligible: Chernoff's bound."""
    return log_moment(tilt + side * order) - here - _OUTSIDE


def _orders(parts: Sequence[tuple[PrivacyLoss, int]]) -> tuple[float, float]:
    """Return bounds for orders of moments, by the deviation of the sum."""
    square = 0.0
    for loss, times in parts:
        mean = np.average(loss.losses, weights=loss.mass)
        square += times * np.average((loss.losses - mean) ** 2, weights=loss.mass)
    return 1e-3 / math.sqrt(square), 1e4 / math.sqrt(square)


def _least_quotient(bound: Callable[[float], float], orders: tuple[float, float]) -> tuple[float, float]:
    """Return the order > 0 with the least `bound(order) / order`, and that: any order gives a bound that holds."""
    from scipy.optimize import minimize_scalar  # not above: it takes a fifth of a second, and most runs do not need it

    low, high = map(math.log, orders)
    found = minimize_scalar(
        lambda x: bound(math.exp(x)) / math.exp(x), bounds=(low, high), method="bounded", options={"xatol": 0.03}
    )
    return math.exp(found.x), float(found.fun)


def _crossing(
    parts: Sequence[tuple[PrivacyLoss, int]],
    tilt: float,
    here: float,
    window: tuple[float, float, float],
    delta: float,
) -> tuple[float, float]:
    """Return where the mean of (1 - exp(epsilon - loss))+ is delta, and which share of delta may be round-off there.

    Args:
        parts: losses, and how often.
        tilt: lambda.
        here: log of the mean of exp(lambda * sum).
        window: sums: the lowest that matters, one near which epsilon is expected, the highest.
        delta: without what infinite losses take.
    """
    step = parts[0][0].step
    first = math.floor(window[0] / step)
    count = next_fast_len(math.ceil(window[2] / step) - first + 2, real=True)
    losses = step * np.arange(first, first + count)
    tilted, error = _tilted_sum(parts, tilt, first, count)
    untilted = _exp(here - tilt * losses)
    mass, center = (tilted + error) * untilted, window[1]
    above = _sum_above(mass)
    scaled = _sum_above(mass * _exp(center - losses))
    too_low = np.flatnonzero(above - _exp(losses - center) * scaled > delta)
    if not len(too_low):
        return float(losses[0]), 0.0
    at = too_low[-1]
    return center + math.log((above[at] - delta) / scaled[at]), error * _sum_above(untilted)[at] / delta


def _tilted_sum(parts: Sequence[tuple[PrivacyLoss, int]], tilt: float, first: int, count: int) -> tuple[Floats, float]:
    """Return float64 [count], tilted probabilities that the sum is first + i steps, modulo count; and their error."""
    product = np.ones(count // 2 + 1, np.complex128)
    for loss, times in parts:
        tilted = loss.tilted(tilt)
        whole = np.zeros(-(-len(tilted) // count) * count)
        whole[: len(tilted)] = tilted
        product *= rfft(np.roll(whole.reshape(-1, count).sum(axis=0), loss.first % count)) ** times
    summed = np.roll(irfft(product, count), -(first % count))
    rounded = np.finfo(float).eps * (math.log2(count) + sum(times for _, times in parts))
    return np.maximum(0.0, summed), rounded * 2 * float(np.abs(product).sum()) / count


def _sum_above(mass: Floats) -> Floats:
    """Return, for each entry, the sum of those after it."""
    return np.append(np.cumsum(mass[:0:-1])[::-1], 0.0)


def _exp(x: Floats) -> Floats:
    """Return exp, cut where doubles end: far from where the answer lies."""
    return np.exp(np.clip(x, *_EXPONENTS))
