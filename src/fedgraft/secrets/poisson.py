"""Who takes part in a round: each unit by a coin of its own."""

import numpy as np
from numpy.typing import NDArray

from fedgraft.errors import require
from fedgraft.secrets.keystream import Source


def drawn(units: int, share: float, source: Source) -> NDArray[np.int64]:
    """Return int64, those that take part, ascending: each with probability `share`, independent of all others.

    Poisson sampling, the only one that `accountant.Released.share` is about. How many take part is random, too, and
    nobody of them is also one. Whoever claims it draws from a source that those who see the sum neither know nor steer.

    Args:
        units: how many there are, >= 0.
        share: probability, in (0, 1]; rounded down to 2**-53.
        source: of uniform words.
    """
    require(units >= 0, "The number of units", ">= 0", units)
    require(0 < share <= 1, "The share of units", "in (0, 1]", share)
    return np.flatnonzero(source.words(units) >> np.uint64(11) < int(share * 2**53))
