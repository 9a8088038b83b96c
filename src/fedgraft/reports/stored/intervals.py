"""Means of paired differences with their 95 % intervals by Student's t."""

import math
from collections.abc import Sequence
from statistics import mean, stdev
from typing import NamedTuple

from scipy.special import stdtrit  # scipy.stats has it too, and takes half a second to import

CONFIDENCE = 0.95


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
