"""Paired t-tests, and Holm's correction of their p-values for the number of comparisons."""

import math
from collections.abc import Sequence
from statistics import mean, stdev

from scipy.special import stdtr  # scipy.stats has tests too, and takes half a second to import

LEVEL = 0.05
"""Corrected p-values below it are told as differences."""


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
