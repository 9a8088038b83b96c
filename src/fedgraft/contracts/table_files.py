"""Files of tables, CSV or Parquet: reads them whole, with errors that name the file, and writes CSV.

What is written as CSV is text to a spreadsheet, never a formula.
"""

import csv
import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow.parquet

from fedgraft.errors import InputError

Given: TypeAlias = str | Path | pd.DataFrame
"""A table as a user gives it: the path of a file or a DataFrame."""

SUFFIXES = (".csv", ".parquet")
"""Of files of tables."""

_MARKS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_TOO_WIDE = re.compile(r"Expected \d+ fields in line (\d+), saw (\d+)")
"""How pandas says that a row, but the first, has more fields than the header."""
_FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""What a formula begins with, in half and in full width."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def table_of(source: Given, parameter: str) -> pd.DataFrame:
    """Return a whole table, read where it is a file; `parameter` names it in errors."""
    return source if isinstance(source, pd.DataFrame) else read_file(Path(source), parameter)


def read_file(path: Path, parameter: str, rows: int | None = None) -> pd.DataFrame:
    """Read a table, or so many of its first rows; `parameter` names it in errors."""
    if path.is_dir():
        raise InputError(f"{parameter}: {path} is a folder; give a file.")
    if path.exists() and not path.is_file():
        raise InputError(f"{parameter}: {path} is no plain file, and can be read once only; give a file.")
    if not path.is_file():
        there = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, there, n=1, cutoff=0.5)
        hint = f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise InputError(f"{parameter}: no file {path}.{hint}")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{parameter} must end in {' or '.join(SUFFIXES)}; got {str(path)!r}.")
    try:
        if path.suffix.lower() == ".parquet":
            return pd.read_parquet(path) if rows is None else pd.DataFrame(columns=header(path))
        return _read_csv(path, rows)
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{path}: the file is empty; a header and at least one row are needed.") from error
    except (ValueError, OSError) as error:  # parsers' errors of pandas and Arrow are ValueErrors
        raise InputError(
            f"{path} cannot be read as {path.suffix.lower()[1:]} ({' '.join(str(error).split())})."
        ) from error


def _read_csv(path: Path, rows: int | None) -> pd.DataFrame:
    """Read all values as text without blanks around it, empty ones missing; every field has a name in the header."""
    # By itself, for pandas makes "label.1" of a second "label".
    header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, skipinitialspace=True)
    check_names([name for name in header.iloc[0] if name], str(path))
    if header.shape[1] == 1 and (separators := [_MARKS[mark] for mark in _MARKS if mark in str(header.iloc[0, 0])]):
        raise InputError(f"{path}: fields seem to be separated by {separators[0]}; they must be separated by commas.")
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""], skipinitialspace=True, nrows=rows)
    except pd.errors.ParserError as error:
        if not (widths := _TOO_WIDE.search(str(error))):
            raise
        line, fields = widths.groups()
        raise InputError(f"{path}, line {line}: {fields} fields where the header names {header.shape[1]}.") from error
    # Of what the first row has too much pandas makes an index.
    if len(table) and not isinstance(table.index, pd.RangeIndex):
        fields = header.shape[1] + table.index.nlevels
        raise InputError(f"{path}, row 1: {fields} fields where the header names {header.shape[1]}.")
    return table.apply(_stripped)


def _stripped(values: pd.Series) -> pd.Series:
    text = values.str.strip()
    empty = text == ""
    return text.mask(empty) if empty.any() else text  # as a rule none is, and a mask takes longer than all else here


def read_pipe(path: Path) -> pd.DataFrame:
    """Read CSV from what is no plain file and can be read once, such as /dev/stdin."""
    with TemporaryDirectory(prefix="fedgraft-") as folder:
        copy = Path(folder) / f"{path.name}.csv"
        copy.write_bytes(path.read_bytes())
        return read_file(copy, str(path))


def is_folder(source: Given) -> bool:
    """Return whether a table is given as a folder of files."""
    return not isinstance(source, pd.DataFrame) and Path(source).is_dir()


def columns_of(source: Given, parameter: str) -> list[str]:
    """Read the names of a table's columns, without what else is in it; none of a folder's tables."""
    if isinstance(source, pd.DataFrame):
        return list(map(str, source.columns))
    return [] if is_folder(source) else list(read_file(Path(source), parameter, rows=0).columns)


def header(path: Path) -> list[str]:
    """Read the names of a file's columns, without what else is in it."""
    if path.suffix.lower() == ".parquet":
        return list(map(str, pyarrow.parquet.read_schema(path).empty_table().to_pandas().columns))
    return list(map(str, pd.read_csv(path, nrows=0, skipinitialspace=True).columns))


def check_names(names: Sequence[str], where: str) -> None:
    """Raise `InputError` where two columns have one name."""
    if len(again := np.flatnonzero(pd.Index(names).duplicated())):
        name = names[again[0]]
        raise InputError(f"{where}: {names.count(name)} columns are named {name!r}; one is needed.")


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV, which may be opened in a spreadsheet whoever chose its names.

    A name or a text that begins like a formula, and is no number, gets an apostrophe before it. Texts are quoted, so
    that no separator of another country's spreadsheets makes two cells of one.

    Source: OWASP, "CSV Injection".
    """
    columns = {place: table.iloc[:, place] for place in range(table.shape[1])}
    guarded = {
        place: values if pd.api.types.is_numeric_dtype(values.dtype) else values.map(_guarded)
        for place, values in columns.items()
    }
    header = [_guarded(name) for name in table.columns]
    pd.DataFrame(guarded).to_csv(path, index=False, header=header, quoting=csv.QUOTE_NONNUMERIC)


def _guarded(value: Any) -> Any:
    is_formula = isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value
