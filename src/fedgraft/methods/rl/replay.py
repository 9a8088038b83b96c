"""A replay memory: the transitions that an agent saw last, as a tree of arrays."""

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import ArrayLike

from fedgraft.wire.layouts import Arrays


def empty(shapes: Mapping[str, tuple[int, ...]], whole: Collection[str] = ()) -> Arrays:
    """Return a memory of no transitions, {name: [0, ...]}.

    Args:
        shapes: {name: shape of what one transition has of it}.
        whole: names of whole numbers, int64; all others are float32.
    """
    return {name: np.zeros((0, *shape), np.int64 if name in whole else np.float32) for name, shape in shapes.items()}


def size(memory: Arrays) -> int:
    """Return how many transitions there are."""
    return len(next(iter(memory.values())))


def remembered(memory: Arrays, rows: Mapping[str, ArrayLike], most: int) -> Arrays:
    """Return a memory with more transitions, the newest last; the oldest are forgotten where there are too many.

    Args:
        memory: never changed.
        rows: {name: [transitions, ...]}, of every name of the memory.
        most: transitions that are kept, >= 1.
    """
    after: Arrays = {}
    for name, kept in memory.items():
        new = np.asarray(rows[name], kept.dtype)[-most:]
        after[name] = np.concatenate([kept[max(0, len(kept) + len(new) - most) :], new])
    return after


def draw(memory: Arrays, batch: int, g: np.random.Generator) -> Arrays:
    """Return so many transitions, drawn with replacement; there must be one."""
    places = g.integers(size(memory), size=batch)
    return {name: kept[places] for name, kept in memory.items()}
