"""Reads what tables say of the nodes of a graph: classes, splits, features, and questions about them."""

import logging
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.labels.classes import likeliest
from fedgraft.domains.labels.known import classes_hint, is_known
from fedgraft.domains.tables import Source, as_numbers, check_classes, encode, numbers, row_of
from fedgraft.errors import InputError, nearest, require_one_of, unknown
from fedgraft.wire.layouts import Array

LOG = logging.getLogger("fedgraft.data")

SHOWN = 5
"""Names of columns in a message before it breaks off."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")
"""A class that is a whole number; of at most as many digits as an int64 holds."""


def named_once(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the table with text for names of columns, each once."""
    table = table.rename(columns=str)
    if len(again := table.columns[table.columns.duplicated()]):
        raise InputError(f"{where}: two columns are named {again[0]!r}; one is needed.")
    return table


def texts_of(table: pd.DataFrame, column: str, source: Source) -> NDArray[np.str_]:
    """Return ids as text, none for no row."""
    if not len(table):
        return np.zeros(0, np.str_)
    code, names = encode(table, column, source)
    found: NDArray[np.str_] = names[code]
    return found


def read_labels(table: pd.DataFrame, column: str, source: Source, hint: str = "") -> tuple[Indices, tuple[str, ...]]:
    """(class of each row, -1 where it is empty; names of the classes: whole numbers in their order, else as text).

    Args:
        table: one row per node.
        column: name of that of classes.
        source: where the rows come from.
        hint: how an error ends where classes are fractions.
    """
    known = table[column].notna().to_numpy()
    if not known.any():
        raise InputError(f"{source[0][0]}: {column!r} is empty in every row; nodes to learn from need a class.")
    check_classes(table, column, source, hint)
    code, found = encode(_filled(table, column, table[column].to_numpy()[known][0]), column, source)
    names = found.tolist()
    if all(map(_WHOLE.fullmatch, names)):
        ascending = sorted(range(len(names)), key=lambda place: int(names[place]))
        code, names = np.argsort(ascending)[code], [names[place] for place in ascending]
    code[~known] = -1
    return code, tuple(names)


def read_numbers(table: pd.DataFrame, column: str, source: Source) -> NDArray[np.float64]:
    """Number of each row, nan where it is empty. Raises `InputError` for anything else, and where all are empty."""
    if column not in table:
        raise InputError(f"{source[0][0]}: no column {column!r} (data.label).{nearest(column, map(str, table))}")
    known = table[column].notna().to_numpy()
    if not known.any():
        raise InputError(f"{source[0][0]}: {column!r} is empty in every row; nodes to learn from need a number.")
    filled = _filled(table, column, table[column].to_numpy()[known][0])
    return np.where(known, numbers(filled, column, source, classes_hint("node")), np.nan)


def labels_among(table: pd.DataFrame, column: str, source: Source, classes: tuple[str, ...]) -> Indices:
    """Return which of the recipe's classes each node has, int64 [nodes], -1 where it is unknown."""
    label = np.full(len(table), -1, np.int64)
    if column not in table:
        raise InputError(f"{source[0][0]}: no column {column!r} (data.label).{nearest(column, map(str, table))}")
    check_classes(table, column, source)
    known = np.flatnonzero(table[column].notna().to_numpy())
    if not len(known):
        return label
    code, names = encode(table.iloc[known], column, [(source[0][0], len(known))])
    places = {name: place for place, name in enumerate(classes)}
    for number, name in enumerate(names.tolist()):
        if name not in places:
            row = row_of(source, known[code == number][0])
            listed = ", ".join(map(repr, classes))
            raise InputError(f"{row}: {column!r} must be one of task.class_names, {listed}; got {name!r}.")
    label[known] = np.array([places[name] for name in names.tolist()])[code]
    return label


def read_split(table: pd.DataFrame, column: str, label_column: str, source: Source, label: Array) -> NDArray[np.int8]:
    """Return to which of `SPLITS` each row belongs, int8 [rows]; -1 for none, also where there is no such column.

    Args:
        table: one row per node.
        column: name of that of splits.
        label_column: name of that of classes.
        source: where the rows come from.
        label: [rows], classes or numbers.
    """
    split = np.full(len(table), -1, np.int8)
    if column not in table:
        return split
    known = table[column].notna().to_numpy()
    code, names = encode(_filled(table, column, SPLITS[0]), column, source)
    for place, name in enumerate(names):
        if name not in SPLITS:
            row = int((code == place).argmax())
            require_one_of(f"{row_of(source, row)}: {column!r}", str(name), SPLITS)
    split[known] = np.array([SPLITS.index(name) for name in names], np.int8)[code[known]]
    if len(lost := np.flatnonzero(known & ~is_known(label))):
        raise InputError(
            f"{row_of(source, lost[0])}: {column!r} must be empty where {label_column!r} is; got "
            f"{SPLITS[split[lost[0]]]!r} ({len(lost)} such rows)."
        )
    return split


def feature(
    column: pd.Series, source: Source, rows: Indices, empty_is_zero: bool = False, hint: str = ""
) -> NDArray[np.float64]:
    """Return a column of features as numbers.

    Args:
        column: of some rows.
        source: where they come from.
        rows: int64 [rows], which they are there.
        empty_is_zero: whether an empty field stands for zero.
        hint: what an error ends with.

    Raises `InputError`, naming the first row, where one is no finite number.
    """
    parsed = as_numbers(column)
    if empty_is_zero:
        parsed = np.where(column.isna(), 0.0, parsed)
    # What float32 cannot hold is infinite in it.
    wrong = ~(np.abs(parsed) <= np.finfo(np.float32).max)
    if wrong.any():
        row = int(wrong.argmax())
        got = "nothing" if pd.isna(column.iloc[row]) else repr(str(column.iloc[row]))
        raise InputError(
            f"{row_of(source, rows[row])}: {column.name!r} must be a finite number, as a feature; got {got} "
            f"({int(wrong.sum())} such rows).{hint}"
        )
    return parsed


def feature_rows(
    table: pd.DataFrame, rows: Indices, columns: Sequence[str], is_sparse: bool, source: Source, what: str
) -> "sparse.csr_matrix | NDArray[np.float32]":
    """Return features of some rows; where they are sparse, what is missing is 0, and columns that are none are noted.

    Args:
        table: columns of features and others that could be meant to be.
        rows: int64 [rows], which.
        columns: names of the features, in order.
        is_sparse: whether they are.
        source: where the rows come from.
        what: what errors call a feature.

    Returns:
        float32 [rows, columns], dense or CSR.
    """
    place = {name: number for number, name in enumerate(columns)}
    given = [name for name in columns if name in table]
    missing = [name for name in columns if name not in table]
    others = [name for name in map(str, table.columns) if name not in place]
    if missing and not (is_sparse and given):
        hint = nearest(missing[0], others)
        raise InputError(f"{source[0][0]}: no column {missing[0]!r}, {what} ({len(missing)} such columns).{hint}")
    if missing and others:
        LOG.warning(f"{source[0][0]}: column {others[0]!r} is no feature ({len(others)} such columns).")
    values = np.zeros((len(rows), len(columns)), np.float32)
    for name in given:
        values[:, place[name]] = feature(table[name].iloc[rows], source, rows, empty_is_zero=is_sparse)
    return sparse.csr_matrix(values) if is_sparse else values


# --- questions about nodes --------------------------------------------------------------------------------------------


def clients_said(table: pd.DataFrame, names: Sequence[str], source: Source) -> Indices:
    """Return the number of the client that each row names in a column "client"; -1 for none.

    Args:
        table: of questions.
        names: of all clients, in order.
        source: where the rows come from.
    """
    said = np.full(len(table), -1)
    if "client" not in table:
        return said
    number = {name: each for each, name in enumerate(names)}
    for row, value in enumerate(table["client"].tolist()):
        if pd.isna(value):
            continue
        # Whole numbers become floats where a table lacks some of them.
        name = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        if name not in number:
            raise InputError(f"{row_of(source, row)}: {unknown('client', name, number)}")
        said[row] = number[name]
    return said


def check_given(
    table: pd.DataFrame,
    ids: NDArray[np.object_],
    new: Indices,
    columns: Sequence[str],
    source: Source,
    known: Callable[[int], Iterable[str]],
) -> None:
    """Raise `InputError` for a new node without any feature: its id is taken for wrong, not for new.

    Args:
        table: of questions, one row per node.
        ids: object [rows], the nodes' ids.
        new: int64 [new], the rows of ids that no client has.
        columns: names of features.
        source: where the rows come from.
        known: returns the ids that the node of a row can be meant to have.
    """
    given = [name for name in columns if name in table]
    without = table[given].iloc[new].isna().all(axis=1).to_numpy()
    if not without.any():
        return
    row = int(new[without.argmax()])
    hint = nearest(ids[row], known(row))
    needed = ", ".join([*map(repr, columns[:SHOWN]), *(["..."] if len(columns) > SHOWN else [])])
    raise InputError(
        f"{row_of(source, row)}: no client has a node {ids[row]!r} ({int(without.sum())} such rows).{hint} A new node "
        f"needs its features, in columns {needed}."
    )


def answers(ids: NDArray[np.object_], classes: Sequence[str], shares: Array) -> dict[str, Array]:
    """Return the likeliest class of each node that was asked for, and how likely the model takes it to be.

    Args:
        ids: object [asked], the nodes'.
        classes: names.
        shares: float32 [asked, classes], predicted probabilities.
    """
    return {"node": ids, **likeliest(classes, shares)}


def _filled(table: pd.DataFrame, column: str, value: object) -> pd.DataFrame:
    """The column alone, with `value` in its empty fields, so that rows keep their numbers."""
    return pd.DataFrame({column: table[column].where(table[column].notna(), value)})
