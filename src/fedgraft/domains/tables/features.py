"""Features of nodes: columns of numbers that float32 holds."""

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.domains.examples import Features
from fedgraft.domains.notes import LOG
from fedgraft.domains.tables.rows import Cells, Rows, as_numbers
from fedgraft.errors import InputError, nearest

SHOWN = 5
"""Names in a message before it breaks off."""


def some(names: Sequence[str]) -> str:
    """Return the first names, in quotes, with "..." where there are more."""
    return ", ".join([*map(repr, names[:SHOWN]), *(["..."] if len(names) > SHOWN else [])])


def feature(cells: Cells, empty_is_zero: bool = False, hint: str = "") -> NDArray[np.float64]:
    """Return a column of features as numbers, float64 [cells]; an empty one may stand for zero.

    Raises `InputError`, which names the first row and ends with the hint, where one is no finite number.
    """
    parsed = as_numbers(cells.values)
    if empty_is_zero:
        parsed = np.where(cells.values.isna(), 0.0, parsed)
    # What float32 cannot hold is infinite in it.
    wrong = ~(np.abs(parsed) <= np.finfo(np.float32).max)
    if wrong.any():
        raise cells.error(wrong, "a finite number, as a feature", hint=hint)
    return parsed


def known_features(rows: Rows, columns: Sequence[str], is_sparse: bool, what: str, others: Collection[str]) -> Features:
    """Return the features that a model knows, float32 [rows, columns], dense or CSR, in the order of `columns`.

    Where they are sparse, what is missing is 0, and other columns are noted, but for those of `others`, which have
    another role and could not be meant to be features. `what` is what errors call a feature.
    """
    place = {name: number for number, name in enumerate(columns)}
    if not is_sparse:
        check_present(rows, columns, what, others)
    there = dict.fromkeys(name for name in rows if name not in others)
    present, missing = [name for name in columns if name in there], [name for name in columns if name not in there]
    unknown = [name for name in there if name not in place]
    if not present:
        check_present(rows, columns, what, others)
    if missing and unknown:
        LOG.warning(f"{rows.where}: column {unknown[0]!r} is no feature ({len(unknown)} such columns).")
    values = np.zeros((len(rows), len(columns)), np.float32)
    for name in present:
        values[:, place[name]] = feature(rows.column(name), empty_is_zero=is_sparse)
    return sparse.csr_matrix(values) if is_sparse else values


def check_present(rows: Rows, columns: Sequence[str], what: str, others: Collection[str]) -> None:
    """Raise `InputError` where a column is not there; arguments as of `known_features`."""
    if missing := [name for name in columns if name not in rows.frame]:
        hint = nearest(missing[0], [name for name in rows if name not in others and name not in columns])
        raise InputError(f"{rows.where}: no column {missing[0]!r}, {what} ({len(missing)} such columns).{hint}")


def new_features(
    rows: Rows, columns: Sequence[str], like: Features, ids: NDArray[np.object_], near: Callable[[int], Iterable[str]]
) -> Features:
    """Return the features of new nodes that questions bring, float32 [rows, columns], dense or sparse as `like`.

    `like` has no rows of the features that clients have. There may be no rows of questions. The nodes' ids are object
    [rows]; `near` returns those that a new node can be meant to have. Raises `InputError` for a new node without any
    feature: its id is taken for wrong, not for new.
    """
    check_given(rows, columns, ids, near)
    if not len(rows):
        return like
    what = f"a feature of new node {ids[0]!r}"
    return known_features(rows, columns, not isinstance(like, np.ndarray), what, ("node", "client"))


def check_given(
    rows: Rows, columns: Sequence[str], ids: NDArray[np.object_], near: Callable[[int], Iterable[str]]
) -> None:
    """Raise `InputError` for a new node without any feature; arguments as `new_features`."""
    without = rows.frame[[name for name in columns if name in rows.frame]].isna().all(axis=1).to_numpy()
    if without.any():
        first = int(without.argmax())
        end = f".{nearest(ids[first], near(first))} A new node needs its features, in columns {some(columns)}."
        raise rows.error(without, f"no client has a node {ids[first]!r}", end=end)
