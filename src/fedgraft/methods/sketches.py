"""Short sketches of updates, for methods that compare clients by what they learnt."""

from collections.abc import Mapping
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

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
    for client, vector in sketched(updates).items():
        sketches[client], known[client] = vector, True
    return {"sketches": sketches, "known": known}


def sketch(update: Arrays) -> NDArray[np.float32]:
    """Return a count sketch, float32 [256]: each entry of an update is added to one of its numbers with a random sign.

    Distances and inner products of updates are kept in expectation (Charikar, Chen, Farach-Colton, 2002).
    """
    return sketched({0: update})[0]


def sketched(updates: Mapping[int, Arrays]) -> dict[int, NDArray[np.float32]]:
    """Return the `sketch`, float32 [256], of each update; places and signs are drawn once for all, to save time."""
    sums = {client: np.zeros(SKETCH) for client in updates}
    names = {client: sorted(update) for client, update in updates.items()}
    for number in range(max(map(len, names.values()), default=0)):
        drawn: dict[int, csr_array] = {}
        for client, update in updates.items():
            if number < len(names[client]):
                values = np.asarray(update[names[client][number]], np.float64).ravel()
                if values.size not in drawn:
                    drawn[values.size] = _sums(values.size, number)
                sums[client] += drawn[values.size] @ values
    return {client: each.astype(np.float32) for client, each in sums.items()}


def _sums(size: int, number: int) -> csr_array:
    """Return which entries of an array are added to which number of a sketch, sparse float64 [256, size] of signs.

    Args:
        size: of the array.
        number: of the array among those of an update; they are the same for every update.
    """
    g = np.random.default_rng([0, number])
    places, signs = g.integers(0, SKETCH, size), g.integers(0, 2, size) * 2 - 1
    order = np.argsort(places.astype(np.uint8), kind="stable")
    ends = np.cumsum(np.bincount(places, minlength=SKETCH))
    return csr_array((signs[order].astype(np.float64), order, np.append(0, ends)), shape=(SKETCH, size))
