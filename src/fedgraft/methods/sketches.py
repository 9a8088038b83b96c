"""Short sketches of updates, for methods that compare clients by what they learnt."""

from collections.abc import Mapping
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft.wire.layouts import Arrays

SKETCH = 256
"""Numbers that are kept of an update."""


class Sketches(TypedDict):
    """Sketches of the update that was seen last of each client, and whether there was one."""

    sketches: NDArray[np.float32]
    known: NDArray[np.bool_]


def unknown(clients: int) -> Sketches:
    """Return those of clients of whom no update was seen."""
    return {"sketches": np.zeros((clients, SKETCH), np.float32), "known": np.zeros(clients, np.bool_)}


def seen(state: Sketches, updates: Mapping[int, Arrays]) -> Sketches:
    """Return sketches with those of updates that came."""
    sketches, known = state["sketches"].copy(), state["known"].copy()
    for client, update in updates.items():
        sketches[client], known[client] = sketch(update), True
    return {"sketches": sketches, "known": known}


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
