"""Labels and splits of examples to learn from, of which some are empty: classes, numbers, and who is in which split."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.labels.class_notes import NUMBER
from fedgraft.domains.labels.known import classes_hint, is_known
from fedgraft.domains.tables.rows import Cells, Coded, Rows, as_numbers
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array

_WHOLE = re.compile(r"-?[0-9]{1,18}")
"""A class that is a whole number; of at most as many digits as an int64 holds."""
_CLASS: Final = re.compile(r"\+?(?:-(?=0\.))?(-?(?:0|[1-9][0-9]*))(?:\.0+)?")
"""A whole number as a class may be written: "1", "+1", "1.0"."""


def numbers_of(labels: Sequence[str]) -> list[float]:
    """Return those of labels that are numbers."""
    return [float(each) for each in labels if NUMBER.fullmatch(each)]


def without(cells: Cells, na_labels: Sequence[str]) -> Cells:
    """Return the cells, empty where a label stands for an unknown one: the same text, or the same number."""
    if not na_labels:
        return cells
    texts = cells.values.astype(str).str.strip()
    stands = texts.isin([*na_labels]).to_numpy() | np.isin(as_numbers(cells.values), numbers_of(na_labels))
    return replace(cells, values=cells.values.mask(stands))


def in_order(names: Sequence[str]) -> list[str]:
    """Return names of classes in their order: whole numbers as such, else as text."""
    return sorted(names, key=int) if all(map(_WHOLE.fullmatch, names)) else sorted(names)


def read_classes(
    cells: Cells, hint: str = "", na_labels: Sequence[str] = (), needed: bool = True
) -> tuple[Indices, tuple[str, ...]]:
    """(class of each row, int64 [rows], -1 where it is empty; names: whole numbers in their order, else as text).

    A class that is a whole number is written as one: "1" for "1.0" and "+1". `hint` ends the error where classes are
    fractions; labels `na_labels` are as empty, which all may be unless one is `needed`.
    """
    cells = without(cells, na_labels)
    label = np.full(len(cells), -1, np.int64)
    if not needed and not len(cells.filled):
        return label, ()
    _check_some(cells, "class")
    cells.check_classes(hint)
    code, distinct = cells.take(cells.filled).codes(_CLASS)
    found = distinct.tolist()
    names = in_order(found)
    place = {name: number for number, name in enumerate(names)}
    label[cells.filled] = np.array([place[name] for name in found])[code]
    return label, tuple(names)


def read_labels(
    cells: Cells,
    classes: tuple[str, ...] | None,
    na_labels: Sequence[str],
    are_numbers: bool = False,
    hint: str = "",
) -> tuple[Array, tuple[str, ...]]:
    """Return the class of each row, or the number, and the names of classes; labels `na_labels` are as empty.

    `classes` are the recipe's; () = those that occur, if any; None = likewise, but there must be one. `hint` ends the
    error where classes are fractions.
    """
    if are_numbers:
        return read_numbers(cells, na_labels), ()
    if classes:
        return read_classes_among(cells, classes, na_labels), classes
    return read_classes(cells, hint, na_labels, needed=classes is None)


def class_codes(cells: Cells) -> Coded:
    """Return codes and names of classes, none of them empty, as `read_classes` writes them but all in text's order."""
    return cells.codes(_CLASS)


def names_of_classes(cells: Cells, na_labels: Sequence[str] = ()) -> list[str]:
    """Return the names of the classes that occur, as `read_classes` writes them, in ascending order."""
    known = without(cells, na_labels)
    names: list[str] = class_codes(known.take(known.filled))[1].tolist() if len(known.filled) else []
    return names


def read_numbers(cells: Cells, na_labels: Sequence[str] = ()) -> NDArray[np.float64]:
    """float64 [rows], nan where a cell is empty. Raises `InputError` for anything else, and where all are empty."""
    cells = without(cells, na_labels)
    _check_some(cells, "number")
    label = np.full(len(cells), np.nan)
    label[cells.filled] = cells.take(cells.filled).numbers(classes_hint("node"))
    return label


def read_classes_among(cells: Cells, classes: Sequence[str], na_labels: Sequence[str] = ()) -> Indices:
    """Return which of the recipe's classes each row has, int64 [rows], -1 where it is unknown."""
    cells = without(cells, na_labels)
    label = np.full(len(cells), -1, np.int64)
    cells.check_classes()
    if not len(cells.filled):
        return label
    known = cells.take(cells.filled)
    code, names = known.codes(_CLASS)
    whole = {found[1]: place for place, name in enumerate(classes) if (found := _CLASS.fullmatch(name))}
    places = whole | {name: place for place, name in enumerate(classes)}
    check_among(known, code, names.tolist(), places, classes)
    label[cells.filled] = np.array([places[name] for name in names.tolist()])[code]
    return label


def check_among(
    cells: Cells, code: Indices, names: Sequence[str], known: Collection[str], classes: Sequence[str]
) -> None:
    """Raise `InputError` for the first cell whose class, by its code one of `names`, is none of those `known`.

    `classes` are those of the recipe, which the error lists.
    """
    for number, name in enumerate(names):
        if name not in known:
            listed = ", ".join(map(repr, classes))
            raise cells.error(code == number, f"one of task.class_names, {listed}", repr(name), counted=False)


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
