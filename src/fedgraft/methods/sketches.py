"""Short sketches of updates, for methods that compare clients by what they learnt."""

import numpy as np
from numpy.typing import NDArray

from fedgraft.wire.layouts import Arrays

SKETCH = 256
"""Numbers that are kept of an update."""


def sketch(update: Arrays) -> NDArray[np.float32]:
    """Return a count sketch, float32 [256]: each entry of an update is added to one of its numbers with a random sign.

    Distances and inner products of updates are kept in expectation (Charikar, Chen, Farach-Colton, 2002).
    """
    found = np.zeros(SKETCH)
    for number, name in enumerate(sorted(update)):
        values = np.asarray(update[name], np.float64).ravel()
        g = np.random.default_rng([0, number])  # the same for every update
        place, sign = g.integers(0, SKETCH, values.size), g.integers(0, 2, values.size) * 2 - 1
        found += np.bincount(place, values * sign, SKETCH)
    return found.astype(np.float32)
