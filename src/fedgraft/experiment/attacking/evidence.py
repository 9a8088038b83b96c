"""The best linear guess of who was left out of sums with noise, by one who knows all else.

The attacker takes what it expects of all units from what the server decoded. What is lacking, over the numbers of all
sums, is the parts of those that were left out, and noise:

    lacking = parts.T @ out + noise, where out is 1 for who was left out, else 0.

A coin says who is, so that `out` has mean 1/2 and variance 1/4. The guess is the linear one with the least mean square
error (ridge regression): each canary's part is a filter, whitened against the parts of all others.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

Floats = NDArray[np.float64]

_VARIANCE: Final = 0.25
"""Of a fair coin."""
_FLAT: Final = 1e-11
"""Share of the largest eigenvalue below which the parts do not span a direction."""
_LEAST_NOISE: Final = 1e-10
"""Variance of noise, as a share of the mean square of what is to be explained, below which it is rounding."""


@dataclass
class Evidence:
    """What all sums say of the canaries, added up sum by sum: parts themselves are not kept.

    Args:
        canaries: how many there are, n.
        gram: float64 [n, n], inner products of their parts.
        along: float64 [n], of each part and what is lacking.
        square: of what is lacking, summed over all numbers.
        numbers: how many those are.
    """

    canaries: int
    gram: Floats = field(init=False)
    along: Floats = field(init=False)
    square: float = 0.0
    numbers: int = 0

    def __post_init__(self) -> None:
        self.gram, self.along = np.zeros((self.canaries, self.canaries)), np.zeros(self.canaries)

    def add(self, parts: Floats, lacking: Floats) -> None:
        """Add a sum.

        Args:
            parts: float64 [n, numbers], each canary's; zero for one whose client had no part in the sum.
            lacking: float64 [numbers], what is expected of all units less what was decoded.
        """
        self.gram += parts @ parts.T
        self.along += parts @ lacking
        self.square += float(lacking @ lacking)
        self.numbers += len(lacking)

    def weighed(self) -> "Weighed":
        """Return what it comes to; the noise is estimated, so that the attacker need not believe what is claimed.

        The variance is the most likely one, with coins that are thought of as normal.
        """
        values, vectors = np.linalg.eigh(self.gram)
        values = np.maximum(values, 0.0)
        # What is lacking beyond half of all canaries' parts, along the parts, and its square.
        along = self.along - 0.5 * self.gram.sum(1)
        square = self.square - float(self.along.sum()) + 0.25 * float(self.gram.sum())
        spanned = values > _FLAT * max(values[-1], 1e-300)
        own = np.square(vectors.T @ along)[spanned] / values[spanned]
        rest, others = max(0.0, square - float(own.sum())), max(0, self.numbers - int(spanned.sum()))
        spread = _VARIANCE * values[spanned]
        scale = max(square / max(1, self.numbers), 1e-300)

        def unlikely(log_noise: float) -> float:
            noise = np.exp(log_noise)
            inside = np.log(noise + spread) + own / (noise + spread)
            return float(others * log_noise + rest / noise + inside.sum())

        bounds = np.log(scale * _LEAST_NOISE), np.log(4 * scale)
        found = minimize_scalar(unlikely, bounds=bounds, method="bounded", options={"xatol": 1e-3})
        noise = float(np.exp(found.x))
        shrunk = 1 / (values + noise / _VARIANCE)
        guess = vectors @ (shrunk * (vectors.T @ along))  # of out - 1/2
        doubt = np.square(vectors) @ (noise * shrunk)
        return Weighed(-guess / doubt, noise, -float(found.fun) / 2)


@dataclass(frozen=True)
class Weighed:
    """Guesses.

    Args:
        scores: float64 [canaries], about the log of how much likelier it is that one was in than that it was left out.
        noise: variance of the noise of each number, as estimated.
        likelihood: log of how likely all that is, but for a constant: between two explanations the larger one counts.
    """

    scores: Floats
    noise: float
    likelihood: float
