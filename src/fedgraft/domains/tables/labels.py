"""Labels and splits of examples to learn from, of which some are empty: classes, numbers, and who is in which split."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.labels.known import classes_hint, is_known
from fedgraft.domains.tables.rows import Cells, Rows
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array

_WHOLE = re.compile(r"-?[0-9]{1,18}")
"""A class that is a whole number; of at most as many digits as an int64 holds."""


def read_classes(cells: Cells, hint: str = "") -> tuple[Indices, tuple[str, ...]]:
    """(class of each row, int64 [rows], -1 where it is empty; names: whole numbers in their order, else as text).

    `hint` ends the error where classes are fractions.
    """
    _check_some(cells, "class")
    cells.check_classes(hint)
    code, distinct = cells.take(cells.filled).codes()
    names = distinct.tolist()
    if all(map(_WHOLE.fullmatch, names)):
        ascending = sorted(range(len(names)), key=lambda place: int(names[place]))
        code, names = np.argsort(ascending)[code], [names[place] for place in ascending]
    label = np.full(len(cells), -1, np.int64)
    label[cells.filled] = code
    return label, tuple(names)


def read_numbers(cells: Cells) -> NDArray[np.float64]:
    """float64 [rows], nan where a cell is empty. Raises `InputError` for anything else, and where all are empty."""
    _check_some(cells, "number")
    label = np.full(len(cells), np.nan)
    label[cells.filled] = cells.take(cells.filled).numbers(classes_hint("node"))
    return label


def read_classes_among(cells: Cells, classes: Sequence[str]) -> Indices:
    """Return which of the recipe's classes each row has, int64 [rows], -1 where it is unknown."""
    label = np.full(len(cells), -1, np.int64)
    cells.check_classes()
    if not len(cells.filled):
        return label
    known = cells.take(cells.filled)
    code, names = known.codes()
    places = {name: place for place, name in enumerate(classes)}
    for number, name in enumerate(names.tolist()):
        if name not in places:
            listed = ", ".join(map(repr, classes))
            raise known.error(code == number, f"one of task.class_names, {listed}", repr(name), counted=False)
    label[cells.filled] = np.array([places[name] for name in names.tolist()])[code]
    return label


def read_split(rows: Rows, label: Array) -> NDArray[np.int8]:
    """Return to which of `SPLITS` each row belongs, int8 [rows]; -1 for none, also where there is no such column.

    The rows have the roles "split" and "label". Who may be in a split is known by `label`, [rows], classes or numbers.
    """
    split = np.full(len(rows), -1, np.int8)
    if "split" not in rows:
        return split
    cells = rows["split"]
    if len(cells.filled):
        split[cells.filled] = cells.take(cells.filled).splits()
    if len(lost := np.flatnonzero((split >= 0) & ~is_known(label))):
        raise cells.error(lost, f"empty where {rows.names['label']!r} is", repr(SPLITS[split[lost[0]]]))
    return split


def _check_some(cells: Cells, what: str) -> None:
    if not len(cells.filled):
        raise InputError(f"{cells.where}: {cells.name!r} is empty in every row; nodes to learn from need a {what}.")
