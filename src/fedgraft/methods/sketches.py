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
    for client, found in sketched(updates).items():
        sketches[client], known[client] = found, True
    return {"sketches": sketches, "known": known}


def sketch(update: Arrays) -> NDArray[np.float32]:
    """Return a count sketch, float32 [256]: each entry of an update is added to one of its numbers with a random sign.

    Distances and inner products of updates are kept in expectation (Charikar, Chen, Farach-Colton, 2002).
    """
    return sketched({0: update})[0]


def sketched(updates: Mapping[int, Arrays]) -> dict[int, NDArray[np.float32]]:
    """Return the `sketch` of each update; together they take less time, as places and signs are drawn once."""
    found = {client: np.zeros(SKETCH) for client in updates}
    names = {client: sorted(update) for client, update in updates.items()}
    for number in range(max(map(len, names.values()), default=0)):
        drawn: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        for client, update in updates.items():
            if number < len(names[client]):
                values = np.asarray(update[names[client][number]], np.float64).ravel()
                if values.size not in drawn:
                    g = np.random.default_rng([0, number])  # the same for every update
                    places = g.integers(0, SKETCH, values.size)
                    drawn[values.size] = places, (g.integers(0, 2, values.size) * 2 - 1).astype(np.float64)
                place, sign = drawn[values.size]
                found[client] += np.bincount(place, values * sign, SKETCH)
    return {client: each.astype(np.float32) for client, each in found.items()}
