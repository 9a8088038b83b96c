"""Paired differences: means with 95 % intervals by Student's t, tests, and Holm's correction for their number."""

import math
from collections.abc import Sequence
from statistics import mean, stdev
from typing import NamedTuple

from scipy.special import stdtr, stdtrit  # scipy.stats has tests too, and takes half a second to import

CONFIDENCE = 0.95
LEVEL = 0.05
"""Corrected p-values below it are told as differences."""


class Interval(NamedTuple):
    """A mean of paired differences and half the width of its interval; nan where there are fewer than two."""

    middle: float
    half: float

    @property
    def above(self) -> bool:
        """True where the whole interval lies above 0."""
        return self.middle - self.half > 0

    @property
    def below(self) -> bool:
        """True where the whole interval lies below 0."""
        return self.middle + self.half < 0

    def __format__(self, digits: str) -> str:
        if math.isnan(self.middle):
            return ""
        middle = f"{self.middle:+{digits}f}"
        return middle if math.isnan(self.half) else f"{middle} ± {self.half:{digits}f}"

    def __str__(self) -> str:
        return f"{self:.2}"


def interval(differences: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of paired differences and half the width of its interval, by default of 95 %.

    >>> str(interval([1.0, 2.0, 3.0]))
    '+2.00 ± 2.48'
    """
    if not differences:
        return Interval(math.nan, math.nan)
    return Interval(mean(differences), half_width(differences, confidence))


def half_width(values: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """Return half the width of a mean's interval by Student's t, by default of 95 %; nan of fewer than two values."""
    if len(values) < 2:
        return math.nan
    return float(stdtrit(len(values) - 1, (1 + confidence) / 2)) * stdev(values) / math.sqrt(len(values))


def p_value(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of Student's paired t-test; nan of fewer than two differences.

    Without any variance it is 0, but 1 where all differences are 0.

    >>> round(p_value([1.0, 2.0, 3.0]), 4)
    0.0742
    """
    count = len(differences)
    if count < 2:
        return math.nan
    middle, error = mean(differences), stdev(differences) / math.sqrt(count)
    if error == 0:
        return 0.0 if middle else 1.0
    return float(2 * stdtr(count - 1, -abs(middle / error)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for all of them by Holm (1979), in their order; a nan is no comparison and stays.

    >>> [round(p, 2) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if not math.isnan(p))
    corrected, least = [math.nan] * len(p_values), 0.0
    for rank, (p, place) in enumerate(known):
        least = max(least, min(1.0, (len(known) - rank) * p))
        corrected[place] = least
    return corrected
