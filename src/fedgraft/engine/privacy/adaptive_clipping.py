"""A clipped length that follows updates: how many of them are shorter is counted with noise, and moves it.

Source: Andrew, Thakkar, McMahan, Ramaswamy, "Differentially Private Learning with Adaptive Clipping", NeurIPS 2021.
"""

import math
from typing import Final

from fedgraft.errors import InputError

RATE: Final = 0.2
"""How far the logarithm of the length goes for each share of updates that is too short or too long."""
COUNTED: Final = 20.0
"""The count's noise is a cohort divided by this."""


def count_noise(cohort: float) -> float:
    """Return the deviation of the noise on a count, sigma_b = cohort / 20, of which one client can change a half."""
    return cohort / COUNTED


def update_noise(noise: float, counting: float) -> float:
    """Return the noise of the sum with which it and the count together tell as much as one sum with `noise`.

    (z**-2 - (2 sigma_b)**-2)**(-1/2), Theorem 1: each client adds 1/2 to the count, or takes it away.

    Args:
        noise: z, deviation in units of the sensitivity, > 0.
        counting: sigma_b, > 0.

    Raises `InputError` where the count tells more than both may.
    """
    left = noise**-2 - (2 * counting) ** -2
    if not left > 0:
        least = math.ceil(COUNTED * noise / 2) + 1
        raise InputError(
            f"privacy.target_quantile must be 0, for a fixed privacy.clip, or the cohort at least {least} clients on "
            f"average: with {counting * COUNTED:g} the count of short updates would tell more than privacy.epsilon."
        )
    return 1 / math.sqrt(left)


def following(length: float, shorter: float, quantile: float) -> float:
    """Return the next clipped length: C exp(-0.2 (b - gamma)).

    Args:
        length: C, of the round before, > 0.
        shorter: b, the share of updates that were no longer, with noise: any number.
        quantile: gamma, the share that is to be, in (0, 1).
    """
    return length * math.exp(-RATE * (shorter - quantile))
