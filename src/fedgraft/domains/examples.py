"""Examples of clients, which are in a split or in none, and their features, of one width: what all shards hold."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.data import KnownRows
from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.keyed_split import Hashes
from fedgraft.errors import InputError, require, require_one_of

SPARSE = 0.25
"""Share of features other than zero below which they are kept sparse: a CSR then takes at most half the memory."""

Features: TypeAlias = "sparse.csr_matrix | NDArray[np.float32]"
"""float32 [examples, f], dense or CSR."""


class Examples(KnownRows):
    """Part of every shard: a split, index into `SPLITS` of each example; -1 = in none."""

    split: Any

    def rows(self, split: str) -> Indices:
        """Return positions of the examples of "train", "validation" or "test", int64 [n]; there may be none."""
        require_one_of("split", split, SPLITS)
        return np.flatnonzero(self.split == SPLITS.index(split))

    def hashes(self) -> Hashes:
        """Return a hash of what each example is called, uint64 [examples]: the same in every table that has it."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its examples are called.")

    def parted(self) -> tuple[Hashes, NDArray[np.integer]]:
        """Return the hash and the split of each example."""
        return self.hashes(), self.split

    def untested(self, seen: Hashes) -> tuple[Self, int]:
        """Return the shard with examples that are `seen`, by their hashes, for training, and how many were not."""
        moved = (self.split > SPLITS.index("train")) & np.isin(self.hashes(), seen)
        if not moved.any():
            return self, 0
        moving: Any = self
        return replace(moving, split=np.where(moved, self.split.dtype.type(0), self.split)), int(moved.sum())


class Parallel:
    """Base of frozen dataclasses whose arrays have a row for each of the same things, in a dict or apart.

    What is None, or no array, is of all of them, and alike in parts that are put together.
    """

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> Self:
        """Return some of the rows, by their places or by a mask."""
        every: Any = self
        some: Self = replace(every, **{each.name: _taken(getattr(self, each.name), rows) for each in fields(every)})
        return some

    @classmethod
    def stacked(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of at least one part, one part after another."""
        first: Any = parts[0]
        columns = {each.name: [getattr(part, each.name) for part in parts] for each in fields(first)}
        whole: Self = replace(first, **{name: _stacked(values) for name, values in columns.items()})
        return whole


def _taken(value: Any, rows: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: each[rows] for name, each in value.items()}
    if isinstance(value, Parallel):
        return value.take(rows)
    return value[rows] if isinstance(value, np.ndarray | sparse.csr_matrix) else value


def _stacked(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, Mapping):
        return {name: np.concatenate([each[name] for each in values]) for name in first}
    if isinstance(first, Parallel):
        return type(first).stacked(values)
    return stacked(values) if isinstance(first, np.ndarray | sparse.csr_matrix) else first


def compact(values: Features) -> Features:
    """Return features [examples, f] sparse where few are other than zero, else as an array."""
    if isinstance(values, np.ndarray):
        return sparse.csr_matrix(values) if np.count_nonzero(values) < SPARSE * values.size else values
    return values if values.nnz < SPARSE * values.shape[0] * values.shape[1] else values.toarray()


def in_form(values: Features, is_sparse: bool) -> Features:
    """Return features [examples, f] as a CSR, or as an array."""
    if is_sparse:
        return sparse.csr_matrix(values)
    return values if isinstance(values, np.ndarray) else values.toarray()


def stacked(parts: Sequence[Features]) -> Features:
    """Return the features of several parts [examples, f] one after the other: dense where all are, else CSR."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return sparse.csr_matrix(sparse.vstack(parts, format="csr"))


def scaled(features: Features, length: float) -> Features:
    """Return features [examples, f] with every row brought to a length; rows of zeros stay."""
    if isinstance(features, np.ndarray):
        return np.asarray(features * factors_to(length, np.square(features).sum(1))[:, None])
    factors = factors_to(length, np.asarray(features.multiply(features).sum(1)).ravel())
    values = features.data * np.repeat(factors, np.diff(features.indptr))
    return sparse.csr_matrix((values, features.indices, features.indptr), shape=features.shape)


def factors_to(length: float, squares: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what rows with these squared lengths, float32 [rows], are to be multiplied by; 0 for rows of zeros."""
    return np.divide(length, np.sqrt(squares), out=np.zeros(len(squares), np.float32), where=squares > 0)


def check_features(features: Features, what: str) -> None:
    """Raise `InputError` unless features are float32, an array or a CSR matrix; `what` is what errors call them."""
    sound = isinstance(features, np.ndarray | sparse.csr_matrix) and features.dtype == np.float32
    got = f"{type(features).__name__} of {features.dtype}"
    require(sound, what, "an array or a csr_matrix of float32", got)


def check_below(counts: Mapping[str, int], arrays: Mapping[str, NDArray[Any]], what: str) -> None:
    """Raise `InputError` where a node's number is not in -1 .. count - 1, of {field: count} and {field: [nodes]}."""
    for key, count in counts.items():
        if len(outside := np.flatnonzero((arrays[key] < -1) | (arrays[key] >= count))):
            require(False, what.format(key), f"-1..{count - 1}", f"{arrays[key][outside[0]]} at node {outside[0]}")


def check_alike(parts: Sequence[Any]) -> None:
    """Raise `InputError` unless the nodes of all parts have the same width of features and the same classes."""
    first = parts[0]
    for other in parts[1:]:
        for what, mine, its in (("features", first.width, other.width), ("classes", first.classes, other.classes)):
            if mine != its:
                raise InputError(
                    f"The nodes of {first.name} and {other.name} cannot be put in one place: their {what} differ "
                    f"({mine} against {its})."
                )


def check_ends(ends: NDArray[np.integer], nodes: int, where: str, base: int) -> None:
    """Raise `InputError` for an edge, of [2, edges], with an end that is none of so many nodes.

    `where` and the edge's number, from 1, are what the error calls it; `base` is what it calls the first node.
    """
    if ends.size and not 0 <= ends.min() <= ends.max() < nodes:
        missing = ((ends < 0) | (ends >= nodes)).any(axis=0)
        row = int(missing.argmax())
        node = next(int(end) for end in ends[:, row] if not 0 <= end < nodes)
        raise InputError(
            f"{where} {row + 1}: there is no node {node + base}; nodes are {base}..{nodes - 1 + base} "
            f"({int(missing.sum())} such edges)."
        )


def check_numbers(what: str, counts: Mapping[str, int], data: Any, n: int, of: str) -> None:
    """Raise `InputError` unless the data's arrays {field: count} are n numbers of so many users, items ..., [n].

    Errors call the data `what` and each of the n an `of`.
    """
    for name, count in counts.items():
        numbers = getattr(data, name)
        require(len(numbers) == n, f"{what}.{name}", f"as long as the {n} {of}", len(numbers))
        ends = int(numbers.min()), int(numbers.max())
        require(ends[0] >= 0 and ends[1] < count, f"{what}.{name}", f"within 0..{count - 1}", ends)


NO_TIME: Final = "the last row stands (data.time can name a column of times, by which it would be the latest)"
"""What is said of repeated rows without times."""


def latest(keys: Indices, time: NDArray[np.float64] | None) -> tuple[Indices, int]:
    """Return the row of each key that is the latest, by ascending keys, int64 [keys], and how many are left out.

    Of rows of one time, float64 [n], and of all without times, the last one is.
    """
    order = np.argsort(keys, kind="stable") if time is None else np.lexsort((time, keys))
    last = np.flatnonzero(np.diff(keys[order], append=-1))
    return order[last], len(keys) - len(last)


def last_of(keys: Indices) -> Indices:
    """Return the rows, int64 ascending, at which each of the keys, int64 [n], stands for the last time."""
    return np.sort(len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1])
