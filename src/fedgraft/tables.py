"""Reads a user's own tables, CSV or Parquet or DataFrame, with errors that name file, row, column and value."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.errors import InputError
from fedgraft.types import Array

SUFFIXES = (".csv", ".parquet")

Source = list[tuple[str, int]]
"""Where rows come from: (file, number of its rows) in order."""


def frames_of(data: object, more: Mapping[str, Collection[str]] | None = None) -> dict[str, pd.DataFrame]:
    """{option: table} of a data set's options that are DataFrames, with the columns that other options name.

    Args:
        data: the data set.
        more: {option: further columns to keep}.
    """
    named = {value for value in vars(data).values() if isinstance(value, str)}
    frames = {option: value for option, value in vars(data).items() if isinstance(value, pd.DataFrame)}
    kept = {option: named.union((more or {}).get(option, ())) for option in frames}
    return {option: table[[name for name in table if name in kept[option]]] for option, table in frames.items()}


def read_table(
    given: str | Path | pd.DataFrame,
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
        name, table = parameter, given
    else:
        name, table = str(given), read_file(Path(given), parameter)
    present = [str(column) for column in table.columns]
    for option, column in wanted.items():
        if column not in table:
            near = difflib.get_close_matches(column.lower(), [p.lower() for p in present], n=1, cutoff=0.5)
            hint = f" Did you mean {next(p for p in present if p.lower() == near[0])!r}?" if near else ""
            raise InputError(f"{name}: no column {column!r} ({option}).{hint} Columns: {', '.join(present) or 'none'}.")
        if present.count(column) > 1:
            raise InputError(f"{name}: {present.count(column)} columns are named {column!r} ({option}); one is needed.")
    if not may_be_empty and len(table) == 0:
        raise InputError(f"{name}: no rows; at least one is needed.")
    columns = dict.fromkeys([*wanted.values(), *(column for column in optional if column in table)])
    return table[list(columns)].reset_index(drop=True), [(name, len(table))]


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
    codes, names = pd.factorize(values.astype(str).to_numpy(dtype=object), sort=True)
    return codes.astype(np.int64), np.asarray(names).astype(str)


def numbers(table: pd.DataFrame, column: str, source: Source) -> NDArray[np.float64]:
    """A column of finite numbers; the first row that is not one is named."""
    values = table[column]
    if pd.api.types.is_bool_dtype(values.dtype):
        raise InputError(f"{row_of(source, 0)}: {column!r} must be a number; got {bool(values.iloc[0])!r}.")
    parsed = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(parsed))
    if len(bad):
        got = values.iloc[bad[0]]
        shown = "nothing" if pd.isna(got) else repr(str(got))
        raise InputError(
            f"{row_of(source, bad[0])}: {column!r} must be a finite number; got {shown} ({len(bad)} such rows)."
        )
    return parsed


def row_of(source: Source, row: int | np.integer) -> str:
    """'FILE, row 3': rows count from 1 and leave a CSV file's header out."""
    ends = np.cumsum([count for _, count in source])
    place = int(np.searchsorted(ends, row, side="right"))
    name, count = source[place]
    return f"{name}, row {int(row) - int(ends[place]) + count + 1}"


def read_file(path: Path, parameter: str) -> pd.DataFrame:
    """A whole table; `parameter` names it in errors."""
    if not path.is_file():
        near = difflib.get_close_matches(path.name, _names_in(path.parent), n=1, cutoff=0.5)
        hint = f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise InputError(f"{parameter}: no file {path}.{hint}")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{parameter} must end in {' or '.join(SUFFIXES)}; got {str(path)!r}.")
    try:
        if path.suffix.lower() == ".parquet":
            return pd.read_parquet(path)
        return pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""], skipinitialspace=True)
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{path}: the file is empty; a header and at least one row are needed.") from error
    except (ValueError, OSError) as error:  # parsers' errors of pandas and Arrow are ValueErrors
        raise InputError(f"{path} cannot be read as {path.suffix.lower()[1:]} ({str(error).strip()}).") from error


def _names_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
