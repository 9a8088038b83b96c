"""Split rows by a keyed hash of what they are called, so that each keeps its split as its table grows.

A user's own rows are split so. Their hash, of their ids alone, is mixed with a key made of a seed to a position in
[0, 1), and the position says the split: neither the order of rows, nor other rows, nor whose a row is has a part in it.

Law     Rows in another order are split alike. More rows leave all others where they were, and none that trained is
        tested later. Rows at their site are split as among those of all clients.
Few     Where a client's split would stay empty, the row nearest to its interval takes it; a row nearer still takes that
        over, and it trains. A client always keeps a row to train on. Only there, of a client with fewer than `FEW` rows
        or a user whose rows are all held out, may a row that trained be held out later.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.wire.layouts import Array

Hashes: TypeAlias = NDArray[np.uint64]
FEW: Final = 5
"""Rows of a client from which on each of its splits has one: one a fold."""
_KEY: Final = "fedgraft of rows"
"""Of the hash of ids, 16 bytes; one for all seeds, so that a later run finds what an earlier one was trained on."""
_STEP, _FIRST, _SECOND = (np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
"""Of SplitMix64."""


def named(ids: Array | Sequence[Any]) -> Hashes:
    """Return the hash of each id, by its text, uint64 [n]."""
    texts = np.array(list(map(str, ids)), dtype=object)
    return np.asarray(pd.util.hash_array(texts, hash_key=_KEY, categorize=False), np.uint64)


def joined(first: Hashes, second: Hashes) -> Hashes:
    """Return one hash of two, uint64 [n]; which is first matters."""
    return _mixed(_mixed(first) + second)


def joined_either_way(ends: NDArray[np.uint64]) -> Hashes:
    """Return one hash of two, [2, n], uint64 [n], whichever is first."""
    return joined(ends.min(axis=0), ends.max(axis=0))


def positions(rows: Hashes, seed: int) -> NDArray[np.float64]:
    """Return where rows with these hashes are by a seed, float64 [n] in [0, 1)."""
    key = np.frombuffer(blake2b(f"split {seed}".encode(), digest_size=8).digest(), "<u8")[0]
    return np.asarray((_mixed(_mixed(rows) ^ key) >> np.uint64(11)) * 2.0**-53, np.float64)


def split_by_hash(
    rows: Hashes,
    seed: int,
    shares: tuple[float, float],
    owner: Indices | None = None,
    fold: float = 0.0,
    few: int = FEW,
    kept: NDArray[np.bool_] | None = None,
) -> NDArray[np.int8]:
    """Return the split of each row, int8 [n], as places in `SPLITS`.

    Args:
        rows: the rows' hashes.
        seed: of the key.
        shares: of validation and of test rows; test rows have positions from `fold` on, and then come the others.
        owner: int64 [n], whose a row is: each owner has a training row and, of `few` rows or more, one in each split;
            None = one owner's.
        fold: in [0, 1).
        few: rows of an owner from which on no split of it is empty, >= 3.
        kept: bool [n], which rows train whatever their hash; None = of each owner the one furthest from all intervals.
    """
    place = (positions(rows, seed) - fold) % 1.0
    owner = np.zeros(len(rows), np.int64) if owner is None else owner
    if kept is not None:
        place[kept] = np.inf
    order = np.lexsort((place, owner))
    count = np.bincount(owner)
    free = count - (1 if kept is None else np.bincount(owner[kept], minlength=len(count)))
    test = np.bincount(owner[place < shares[1]], minlength=len(count))
    held = np.bincount(owner[place < shares[0] + shares[1]], minlength=len(count))
    enough = count >= few
    test = np.where(enough, np.maximum(test, 1), test)
    held = np.minimum(np.where(enough, np.maximum(held, test + 1), held), np.maximum(free, 0))
    test = np.minimum(test, np.where(enough & (held > 1), held - 1, held))
    of = owner[order]
    rank = np.arange(len(rows)) - (np.cumsum(count) - count)[of]
    split = np.zeros(len(rows), np.int8)
    split[order] = np.where(rank < test[of], SPLITS.index("test"), np.where(rank < held[of], 1, 0))
    return split


def split_all(
    rows: Hashes,
    seed: int,
    shares: tuple[float, float],
    owner: Indices | None,
    fold: float = 0.0,
    kept: NDArray[np.bool_] | None = None,
) -> NDArray[np.int8]:
    """Return what `split_by_hash` does of the rows of all clients.

    Where every client has too few rows for each split, but they have enough together, no split of the whole is empty.
    """
    split = split_by_hash(rows, seed, shares, owner, fold, kept=kept)
    if len(np.unique(split)) < len(SPLITS):
        split = split_by_hash(rows, seed, shares, fold=fold, few=len(SPLITS), kept=kept)
    return split


def furthest(rows: Hashes, seed: int, groups: Indices) -> NDArray[np.bool_]:
    """Return which row of each group, int64 [n], has the highest position, bool [n]."""
    order = np.lexsort((positions(rows, seed), groups))
    last = np.flatnonzero(np.diff(groups[order], append=-1))
    kept = np.zeros(len(rows), bool)
    kept[order[last]] = True
    return kept


def _mixed(numbers: Hashes) -> Hashes:
    """Return numbers of which every bit hangs on every bit of those given: the output function of SplitMix64.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    mixed = np.asarray(numbers, np.uint64) + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), np.uint64)
