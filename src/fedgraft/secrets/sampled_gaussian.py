"""A Gaussian release to which every unit comes by a coin of its own: Poisson sampling."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from fedgraft.secrets.privacy_loss import Floats, PrivacyLoss, connected

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
