"""Robust aggregation rules' common part: one vote a client, and looks at all updates at once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Update
from fedgraft.wire.layouts import Array, Arrays

Floats = NDArray[np.float64]
AT_ONCE = 1 << 18
"""Numbers of all clients together that are looked at at a time."""


def voting(updates: Sequence[Update]) -> list[Update]:
    """Return updates that weigh the same, but for stale ones, which weigh 1 / (1 + staleness) of a fresh one.

    A number of examples is what a client says; a vote is what it has.
    """
    votes = [1.0 / (1 + update.staleness) for update in updates]
    return [replace(update, weight=vote / sum(votes)) for update, vote in zip(updates, votes, strict=True)]


def expected_liars(share: float, count: int) -> int:
    """Return how many of so many updates are expected to lie: floor(share count), or one where that is 0.

    None where `share` is 0, and of one or two updates, which nothing tells apart.
    """
    return max(int(share * count), 1) if share and count > 2 else 0


def by_coordinate(updates: Sequence[Update], rule: Callable[[Floats], Floats]) -> list[Update]:
    """Return updates that all hold what a rule makes of each number.

    Args:
        updates: one or more.
        rule: float64 [updates, numbers] to float64 [numbers]; its argument is its own to change.
    """
    if len(updates) == 1:
        return voting(updates)
    after: Arrays = {}
    for name, first in updates[0].arrays.items():
        parts = [update.arrays[name].reshape(-1) for update in updates]
        result = np.empty_like(parts[0])
        for begin, columns in _columns(parts):
            result[begin : begin + columns.shape[1]] = rule(columns)
        after[name] = result.reshape(first.shape)
    return [replace(update, arrays=after) for update in voting(updates)]


def squared_distances(updates: Sequence[Update]) -> Floats:
    """Return the squared Euclidean distances of all pairs of updates, float64 [updates, updates]."""
    total = np.zeros((len(updates), len(updates)))
    for name in updates[0].arrays:
        for _, columns in _columns([update.arrays[name].reshape(-1) for update in updates]):
            for row, mine in enumerate(columns[:-1]):
                apart = np.square(columns[row + 1 :] - mine).sum(axis=1)
                total[row, row + 1 :] += apart
                total[row + 1 :, row] += apart
    return total


def _columns(parts: Sequence[Array]) -> Iterator[tuple[int, Floats]]:
    """Yield (where it begins, float64 [parts, numbers]) of flat arrays of one size, some numbers at a time."""
    width = max(1, AT_ONCE // len(parts))
    for begin in range(0, parts[0].size, width):
        yield begin, np.stack([part[begin : begin + width] for part in parts]).astype(np.float64)
