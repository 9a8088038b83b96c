"""Private updates of tables, a row per user or item: rows that were touched, clipping, noise, and how they merge."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts import Update
from fedgraft.methods.one_model import moved
from fedgraft.wire.layouts import Array, Arrays

USERS, ITEMS = TABLES = ("embeddings.users", "embeddings.items")
"""Parameters of the part "embeddings", a row each."""


def client_noise() -> np.random.Generator:
    """Return a generator seeded by torch's own, which a client seeds anew in every request of a stochastic task.

    Whoever knows the run's seed, as the server does, can repeat the noise and take it away: it shows what noise costs,
    and hides nothing. One that hides comes from `fedgraft.contracts.randomness.private_generator`.
    """
    return np.random.default_rng(torch.randint(0, 2**31, (4,)).tolist())


def touched(name: str, update: Array) -> NDArray[np.bool_]:
    """Return which rows of an update are not zero, bool [rows]; every row of what is no table."""
    if name not in TABLES:
        return np.ones(len(update), np.bool_)
    return np.asarray(update.any(axis=1), np.bool_)


def clipped(arrays: Arrays, limit: float) -> Arrays:
    """Return all numbers cut to [-limit, limit]."""
    return {name: np.clip(array, -limit, limit) for name, array in arrays.items()}


def noised(array: Array, rows: NDArray[np.bool_], scale: float, g: np.random.Generator) -> Array:
    """Return the array [rows, ...] with draws of Laplace(0, scale) added to each number of these rows; `scale` >= 0."""
    after = array.copy()
    if scale > 0:
        after[rows] += g.laplace(0.0, scale, array[rows].shape).astype(array.dtype)
    return after


def moved_by_rows(model: Arrays, updates: Sequence[Update]) -> Arrays:
    """Return the model moved by the weighted mean of updates; each row of a table by those clients that touched it."""
    rest = moved({name: value for name, value in model.items() if name not in TABLES}, updates)
    tables = {name: _moved_rows(model[name], ((u.weight, u.arrays[name]) for u in updates)) for name in _tables(model)}
    return {name: tables[name] if name in tables else rest[name] for name in model}


def _tables(model: Arrays) -> list[str]:
    return [name for name in TABLES if name in model]


def _moved_rows(table: Array, parts: Iterable[tuple[float, Array]]) -> Array:
    total, weights = np.zeros(table.shape, np.float64), np.zeros(len(table))
    for weight, part in parts:
        rows = np.flatnonzero(part.any(axis=1))
        total[rows] += weight * part[rows]
        weights[rows] += weight
    having = np.flatnonzero(weights)
    after = table.copy()
    after[having] = table[having] + total[having] / weights[having, None]
    return after
