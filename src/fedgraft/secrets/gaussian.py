"""Continuous Gaussian noise: what it costs, of all units and of a random share of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from fedgraft.errors import require
from fedgraft.secrets.privacy_loss import Floats, PrivacyLoss, connected

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


_POINTS = 4_000
"""Of the integral that says how wide a loss is, which sets the grid and no claim."""


@dataclass(frozen=True)
class SampledGaussian:
    """With a unit the output is (1 - q) N(0, s**2) + q N(1, s**2), without it N(0, s**2).

    Source: Abadi et al., "Deep Learning with Differential Privacy", CCS 2016, for one release; Zhu, Dong, Wang,
        "Optimal Accounting of Differential Privacy via Characteristic Function", AISTATS 2022, for that these two also
        bound releases that depend on earlier ones. Neighbours differ in one unit that is there or not; a unit whose
        share in the sum is zeroed (zero-out) is the same pair. To replace a unit is not covered.

    Args:
        noise: s, deviation in units of the sensitivity, > 0.
        share: q, the probability of each unit to take part, in (0, 1].
    """

    noise: float
    share: float

    def variance(self) -> float:
        """Return about how much the loss varies: the less of both directions."""
        x = np.linspace(-10 * self.noise, 1 + 10 * self.noise, _POINTS)
        loss = self._loss(x)
        without = np.exp(-0.5 * (x / self.noise) ** 2)
        with_unit = (1 - self.share) * without + self.share * np.exp(-0.5 * ((x - 1) / self.noise) ** 2)
        return min(_variance(loss, without), _variance(loss, with_unit))

    def width(self) -> float:
        """Return about how far apart the losses are that matter."""
        return float(self._loss(1 + 10 * self.noise) - self._loss(-10 * self.noise))

    def loss(self, step: float, tail: float, removed: bool) -> PrivacyLoss:
        """Return the loss on a grid.

        Args:
            step: of the grid.
            tail: probability whose losses may count as infinite, in (0, 0.5).
            removed: whether P is with the unit and Q without it, or P without and Q with.
        """
        far = -float(ndtri(tail))
        low, high = -far * self.noise, 1 + far * self.noise
        first, last = (int(end) for end in (math.floor(self._loss(low) / step), math.ceil(self._loss(high) / step)))
        edges = np.clip(self._output(step * np.arange(first, last + 1, dtype=np.float64)), low, high)
        without = _between(edges / self.noise)
        with_unit = (1 - self.share) * without + self.share * _between((edges - 1) / self.noise)
        if removed:
            return connected(step, first, tail, with_unit, without, tail)
        return connected(step, -last, tail, without[::-1], with_unit[::-1], tail)

    def _loss(self, output: Floats | float) -> Floats:
        """Return log(density with the unit / density without it), increasing in the output."""
        shifted = (2 * np.asarray(output, np.float64) - 1) / (2 * self.noise**2)
        return shifted if self.share == 1 else np.logaddexp(math.log1p(-self.share), math.log(self.share) + shifted)

    def _output(self, loss: Floats) -> Floats:
        """Return where the loss is so; -infinity below all losses."""
        if self.share == 1:
            return self.noise**2 * loss + 0.5
        small = np.minimum(loss, 1.0)
        with np.errstate(divide="ignore"):
            shifted = np.log1p(np.maximum(-1.0, np.expm1(small) / self.share))
        large = np.maximum(loss, 1.0)
        high = large - math.log(self.share) + np.log1p(-(1 - self.share) * np.exp(-large))
        return self.noise**2 * np.where(loss > 1, high, shifted) + 0.5


def _variance(loss: Floats, weight: Floats) -> float:
    mean = np.average(loss, weights=weight)
    return float(np.average((loss - mean) ** 2, weights=weight))


def _between(ends: Floats) -> Floats:
    """Return the standard normal probability between neighbours, from the side where it is told exactly."""
    low, high = ends[:-1], ends[1:]
    right = low > 0
    between: Floats = ndtr(np.where(right, -low, high)) - ndtr(np.where(right, -high, low))
    return between
