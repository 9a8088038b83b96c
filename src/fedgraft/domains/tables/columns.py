"""Reads columns of a user's own tables, in files or memory, with errors that name file, row, column and value."""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.table_files import SUFFIXES, Given, check_names, columns_of, read_file
from fedgraft.contracts.values import SPLITS
from fedgraft.errors import InputError, nearest
from fedgraft.wire.layouts import Array

Source = list[tuple[str, int]]
"""Where rows come from: (file, number of its rows) in order."""


def check_roles(owner: str, roles: Iterable[tuple[str, str]]) -> None:
    """Raise `InputError` where a column of one table is named twice.

    Args:
        owner: what errors call the options: "Nodes" for Nodes.label ...
        roles: (option, column); an option that names several is here once for each.
    """
    taken: dict[str, str] = {}
    for option, column in roles:
        if taken.get(column) == option:
            raise InputError(f"{owner}.{option} must name each column once; got {column!r} twice.")
        if column in taken:
            raise InputError(f"{owner}.{option} must be another column than {owner}.{taken[column]}; got {column!r}.")
        taken[column] = option


def frames_of(data: object, more: Mapping[str, Collection[str]] | None = None) -> dict[str, pd.DataFrame]:
    """{option: table} of a data set's options that are DataFrames, with the columns that other options name.

    Args:
        data: the data set.
        more: {option: further columns to keep}.
    """
    named = {value for value in vars(data).values() if isinstance(value, str)}
    frames = {
        option: _with_text_names(value) for option, value in vars(data).items() if isinstance(value, pd.DataFrame)
    }
    kept = {option: named.union(map(str, (more or {}).get(option, ()))) for option in frames}
    return {option: table[[name for name in table if name in kept[option]]] for option, table in frames.items()}


def check_said(features: Sequence[str] | None, class_names: Sequence[str] | None) -> None:
    """Raise `InputError` unless the recipe of a site's own tables names the columns of features and the classes.

    Args:
        features: columns.
        class_names: those of the task; None where labels are numbers.
    """
    if features is None or (class_names is not None and not class_names):
        lacking = "data.features, the columns of features," if features is None else "task.class_names"
        raise InputError(f"The recipe must say {lacking} in order: no site knows the tables of the others.")


def check_one_client(names: Sequence[str], where: str, name: str) -> None:
    """Raise `InputError` where a site's own table names other clients than its own, `name`."""
    if others := [each for each in names if each != name]:
        raise InputError(f"{where} names client {others[0]!r}; a site's own table is of client {name!r} alone.")


def read_table(
    given: Given,
    parameter: str,
    wanted: Mapping[str, str],
    optional: Sequence[str] = (),
    may_be_empty: bool = False,
) -> tuple[pd.DataFrame, Source]:
    """The wanted columns, and the optional ones that are there, of a file or DataFrame.

    A CSV file's values are all text, so that ids stay as they are written; only an empty field is missing.

    Args:
        given: a path or a DataFrame.
        parameter: its name, such as "Table.ratings", for errors.
        wanted: {parameter: column} that must be there.
        optional: columns that may be.
        may_be_empty: whether no row at all is fine.
    """
    if isinstance(given, pd.DataFrame):
        name, table = parameter, _with_text_names(given)
    else:
        name, table = str(given), _with_text_names(read_file(Path(given), parameter))
    present = list(table.columns)
    check_names(present, name)
    for option, column in wanted.items():
        if column not in table:
            near = difflib.get_close_matches(column.lower(), [p.lower() for p in present], n=1, cutoff=0.5)
            hint = f" Did you mean {next(p for p in present if p.lower() == near[0])!r}?" if near else ""
            raise InputError(f"{name}: no column {column!r} ({option}).{hint} Columns: {', '.join(present) or 'none'}.")
    if not may_be_empty and len(table) == 0:
        raise InputError(f"{name}: no rows; at least one is needed.")
    columns = dict.fromkeys([*wanted.values(), *(column for column in optional if column in table)])
    return table[list(columns)].reset_index(drop=True), [(name, len(table))]


def unread(given: Given, parameter: str, read: Collection[str]) -> tuple[str, ...]:
    """Return a note on columns of a table of edges that are not `read`; none where all are."""
    others = [name for name in columns_of(given, parameter) if name not in read]
    return (f"Columns of edges that are not read: {', '.join(others)}.",) if others else ()


def renamed(tables: Mapping[str, pd.DataFrame], names: Mapping[str, Mapping[str, str]]) -> dict[str, pd.DataFrame]:
    """Return tables of questions with their columns named as tasks know them.

    Args:
        tables: by name.
        names: {table: {column of the user's: what tasks call it}}.

    Raises `InputError` where two columns are the same to a task.
    """
    found = {}
    for name, table in tables.items():
        for own, column in (usual := names.get(name, {})).items():
            if own != column and {own, column} <= {*table.columns}:
                raise InputError(f"--{name}: columns {own!r} and {column!r} both say the {column}; one is needed.")
        found[name] = table.rename(columns=usual)
    return found


def folder_of_tables(
    folder: Path, parameter: str, wanted: Mapping[str, str], optional: Sequence[str] = ()
) -> tuple[dict[str, pd.DataFrame], Source]:
    """Every table of a folder by the file's name without its suffix, in ascending order of names."""
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise InputError(f"{parameter}: folder {folder} holds no file that ends in {' or '.join(SUFFIXES)}.")
    tables: dict[str, pd.DataFrame] = {}
    source: Source = []
    for path in paths:
        if path.stem in tables:
            raise InputError(
                f"{parameter}: folder {folder} holds two files named {path.stem!r}; each must be one client."
            )
        table, rows = read_table(path, parameter, wanted, optional)
        tables[path.stem] = table
        source += rows
    partly = [column for column in optional if 0 < sum(column in table for table in tables.values()) < len(tables)]
    if partly:
        lacking = next(path for path, table in zip(paths, tables.values(), strict=True) if partly[0] not in table)
        raise InputError(f"{lacking}: no column {partly[0]!r}, which other files of the folder have.")
    return tables, source


def encode(table: pd.DataFrame, column: str, source: Source) -> tuple[NDArray[np.int64], Array]:
    """Codes 0.. of a column of ids or names, and the distinct ones as text in ascending order."""
    values = table[column]
    missing = np.flatnonzero(values.isna().to_numpy())
    if len(missing):
        raise InputError(
            f"{row_of(source, missing[0])}: {column!r} is empty ({len(missing)} such rows); a name is needed."
        )
    if pd.api.types.is_float_dtype(values.dtype):
        broken = np.flatnonzero((values % 1 != 0).to_numpy())
        if len(broken):
            raise InputError(
                f"{row_of(source, broken[0])}: {column!r} must be text or whole numbers; "
                f"got {float(values.iloc[broken[0]])!r}."
            )
        values = values.astype("int64")
    if pd.api.types.is_complex_dtype(values.dtype):
        raise InputError(
            f"{row_of(source, 0)}: {column!r} must be text or whole numbers; got {complex(values.iloc[0])!r}."
        )
    codes, names = pd.factorize(values.astype(str).to_numpy(dtype=object), sort=True)
    return codes.astype(np.int64), np.asarray(names).astype(str)


def check_classes(table: pd.DataFrame, column: str, source: Source, hint: str = "") -> None:
    """Raise `InputError` where a column of classes holds fractions, as numbers or as the text that a CSV file holds.

    Args:
        table: one row an example.
        column: its name.
        source: where the rows come from.
        hint: what the error ends with.
    """
    known = np.flatnonzero(table[column].notna().to_numpy())
    values = table[column].iloc[known]
    parsed = as_numbers(values)
    if not (np.isfinite(parsed).all() or pd.api.types.is_float_dtype(values.dtype)):
        return
    if len(broken := known[~np.isfinite(parsed) | (np.floor(parsed) != parsed)]):
        got = float(parsed[known.searchsorted(broken[0])])
        raise InputError(
            f"{row_of(source, broken[0])}: {column!r} must be text or whole numbers; got {got!r} "
            f"({len(broken)} such rows).{hint}"
        )


def numbers(table: pd.DataFrame, column: str, source: Source, hint: str = "") -> NDArray[np.float64]:
    """A column of finite numbers; the first row that is not one is named.

    Args:
        table: one row an example.
        column: its name.
        source: where the rows come from.
        hint: what the error ends with where a field is not empty.
    """
    values = table[column]
    if pd.api.types.is_bool_dtype(values.dtype):
        raise InputError(f"{row_of(source, 0)}: {column!r} must be a number; got {bool(values.iloc[0])!r}.")
    parsed = as_numbers(values)
    bad = np.flatnonzero(~np.isfinite(parsed))
    if len(bad):
        got = values.iloc[bad[0]]
        shown = "nothing" if pd.isna(got) else repr(str(got))
        raise InputError(
            f"{row_of(source, bad[0])}: {column!r} must be a finite number; got {shown} ({len(bad)} such rows)."
            f"{'' if pd.isna(got) else hint}"
        )
    return parsed


def as_numbers(values: pd.Series) -> NDArray[np.float64]:
    """A column's numbers, nan where it holds none: of truths, dates, durations and complex numbers nothing is one."""
    kinds, dtype = pd.api.types, values.dtype
    numeric = kinds.is_numeric_dtype(dtype) and not kinds.is_bool_dtype(dtype)
    textual = kinds.is_object_dtype(dtype) or kinds.is_string_dtype(dtype) or isinstance(dtype, pd.CategoricalDtype)
    # Of dates and durations pandas would make numbers, of nanoseconds or the like.
    parsed = pd.to_numeric(values, errors="coerce") if numeric or textual else None
    if parsed is None or kinds.is_complex_dtype(parsed.dtype):
        return np.full(len(values), np.nan)
    return parsed.to_numpy(dtype=np.float64, na_value=np.nan)


def splits_of(table: pd.DataFrame, column: str, source: Source) -> NDArray[np.int8]:
    """Return a column that says the split of each row, as places in `SPLITS`."""
    code, names = encode(table, column, source)
    for number, name in enumerate(names):
        if name not in SPLITS:
            row = int((code == number).argmax())
            listed = ", ".join(map(repr, SPLITS))
            raise InputError(
                f"{row_of(source, row)}: {column!r} must be one of {listed}; got {str(name)!r}.{nearest(name, SPLITS)}"
            )
    return np.array([SPLITS.index(name) for name in names], np.int8)[code]


def times_of(table: pd.DataFrame, column: str, source: Source) -> NDArray[np.float64]:
    """Times as numbers: seconds or whatever the column counts, or dates."""
    values = table[column]
    parsed = as_numbers(values)
    if not np.isfinite(parsed).all():
        dates = pd.to_datetime(values, errors="coerce", utc=True, format="mixed")
        parsed = np.where(dates.isna(), np.nan, dates.astype("int64").to_numpy().astype(np.float64))
    if len(bad := np.flatnonzero(~np.isfinite(parsed))):
        got = "nothing" if pd.isna(values.iloc[bad[0]]) else repr(str(values.iloc[bad[0]]))
        raise InputError(
            f"{row_of(source, bad[0])}: {column!r} must be a number or a date; got {got} ({len(bad)} such rows)."
        )
    return parsed


def row_of(source: Source, row: int | np.integer) -> str:
    """'FILE, row 3': rows count from 1 and leave a CSV file's header out."""
    ends = np.cumsum([count for _, count in source])
    place = int(np.searchsorted(ends, row, side="right"))
    name, count = source[place]
    return f"{name}, row {int(row) - int(ends[place]) + count + 1}"


def _with_text_names(table: pd.DataFrame) -> pd.DataFrame:
    return table.set_axis([str(column) for column in table.columns], axis=1)
