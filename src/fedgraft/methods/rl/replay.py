"""A replay memory: the transitions that an agent saw last, as a tree of arrays."""

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import ArrayLike

from fedgraft.wire.layouts import Arrays

PLACE = "place"
"""Name of where a transition has what it has in common with others: int64 [T], places in arrays that are shorter."""


def empty(shapes: Mapping[str, tuple[int, ...]], whole: Collection[str] = ()) -> Arrays:
    """Return a memory of no transitions, {name: [0, ...]}.

    Args:
        shapes: {name: shape of what one transition has of it}; with `PLACE`, (), where transitions share something.
        whole: names of whole numbers, int64, as `PLACE` is; all others are float32.
    """
    integers = {*whole, PLACE}
    return {name: np.zeros((0, *shape), np.int64 if name in integers else np.float32) for name, shape in shapes.items()}


def size(memory: Arrays) -> int:
    """Return how many transitions there are."""
    return len(memory[PLACE] if PLACE in memory else next(iter(memory.values())))


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


def remembered_together(
    memory: Arrays, rows: Mapping[str, ArrayLike], common: Mapping[str, ArrayLike], most: int
) -> Arrays:
    """Return a memory with more transitions, where all of these have something in common, which is kept once.

    Args:
        memory: never changed; it has `PLACE`.
        rows: {name: [transitions, ...]}, of one transition or more, of all other names.
        common: {name: [...]}, what each of these transitions has of it.
        most: transitions that are kept, >= 1.
    """
    place = np.full(len(np.asarray(next(iter(rows.values())))), len(memory[next(iter(common))]))
    after = remembered({name: memory[name] for name in (*rows, PLACE)}, {**rows, PLACE: place}, most)
    first = int(after[PLACE][0])  # what no transition has any more is forgotten, too
    after[PLACE] -= first
    for name, row in common.items():
        after[name] = np.concatenate([memory[name][first:], np.asarray(row, memory[name].dtype)[None]])
    return after


def draw(memory: Arrays, batch: int, g: np.random.Generator, common: Collection[str] = ()) -> Arrays:
    """Return so many transitions, drawn with replacement; there must be one.

    Args:
        memory: never changed.
        batch: transitions, >= 1.
        g: where they are drawn from.
        common: names of what transitions share: each different one comes once, and `PLACE` says where.
    """
    places = g.integers(size(memory), size=batch)
    drawn = {name: kept[places] for name, kept in memory.items() if name not in common}
    if common:
        used, drawn[PLACE] = np.unique(drawn[PLACE], return_inverse=True)
        drawn.update({name: memory[name][used] for name in common})
    return drawn
