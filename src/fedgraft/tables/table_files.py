"""Files of tables: reads them whole, with errors that name the file, and writes CSV.

What is written as CSV is text to a spreadsheet, never a formula.
"""

import csv
import difflib
import json
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from fedgraft.errors import InputError
from fedgraft.tables.databases import absolute as absolute
from fedgraft.tables.databases import is_address as is_address
from fedgraft.tables.databases import read_database, without_password
from fedgraft.tables.packed_files import ALLOWED as ALLOWED
from fedgraft.tables.packed_files import COLUMNS, LOOSE, RECORDS, content
from fedgraft.tables.packed_files import SUFFIXES as SUFFIXES
from fedgraft.tables.packed_files import stem_of as stem_of
from fedgraft.tables.packed_files import suffix_of as suffix_of
from fedgraft.tables.text_form import FOUND_OUT as FOUND_OUT
from fedgraft.tables.text_form import TextForm as TextForm
from fedgraft.tables.text_form import check_names as check_names
from fedgraft.tables.text_form import decoded
from fedgraft.tables.text_tables import read_text

LOG = logging.getLogger("fedgraft.data")

Given: TypeAlias = str | Path | pd.DataFrame
"""A table as a user gives it: the path of a file, the address of a table in a database, or a DataFrame."""

_FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""What a formula begins with, in half and in full width."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, eq=False)
class Read:
    """A table as a file has it, and notes on what was found out about the file."""

    table: pd.DataFrame
    notes: tuple[str, ...] = ()


def table_of(source: Given, parameter: str, form: TextForm = FOUND_OUT) -> pd.DataFrame:
    """Return a whole table, read where it is a file; `parameter` names it in errors. Notes go to the log."""
    if isinstance(source, pd.DataFrame):
        return source
    read = read_file(source, parameter, form)
    for note in read.notes:
        LOG.warning(note)
    return read.table


def read_file(
    source: str | Path,
    parameter: str,
    form: TextForm = FOUND_OUT,
    known: Collection[str] = (),
    rows: int | None = None,
    exact: bool = True,
) -> Read:
    """Read a table, or its columns alone where `rows` is 0; `parameter` names it in errors.

    `form` says how a text is written. `known` are columns that it may have, by which a header is found. Values of a
    text are text; unless it must be `exact`ly so, a table of whole numbers may be one of numbers that say the same.
    """
    if is_address(source):
        return Read(read_database(str(source), parameter))
    path = Path(source)
    _check_file(path, parameter)
    suffix = suffix_of(path)
    if not suffix:
        raise InputError(f"{parameter} must end in {ALLOWED}; got {str(path)!r}.")
    try:
        if suffix in COLUMNS:
            return Read(_columns(path, suffix) if rows is None else pd.DataFrame(columns=_header(path, suffix)))
        if suffix in RECORDS:
            return Read(_records(path))
        table, notes = read_text(path, form, known, rows, exact)
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{path}: the file is empty; a header and at least one row are needed.") from error
    except (ValueError, OSError, ImportError, pa.ArrowException) as error:  # parsers' errors are ValueErrors
        raise InputError(f"{path} cannot be read as {suffix[1:]} ({' '.join(str(error).split())}).") from error
    said = f"{path}: {'; '.join(notes)}. data.separator, encoding, decimal, header and columns say otherwise."
    return Read(table, (said,) if notes else ())


def _check_file(path: Path, parameter: str) -> None:
    """Raise `InputError` for what is no plain file."""
    if path.is_dir():
        raise InputError(f"{parameter}: {path} is a folder; give a file.")
    if path.exists() and not path.is_file():
        raise InputError(f"{parameter}: {path} is no plain file, and can be read once only; give a file.")
    if not path.is_file():
        there = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, there, n=1, cutoff=0.5)
        hint = f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise InputError(f"{parameter}: no file {path}.{hint}")


def _columns(path: Path, suffix: str) -> pd.DataFrame:
    """Read a file that holds columns with types."""
    if suffix == ".parquet":
        return pd.read_parquet(path)
    if suffix == ".orc":
        return pd.read_orc(path)
    table: pd.DataFrame = _arrow(path).to_pandas()
    return table


def _arrow(path: Path) -> pa.Table:
    """Read Arrow's format, as a file or as a stream."""
    try:
        return pyarrow.feather.read_table(path)
    except pa.ArrowInvalid:
        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_stream(file).read_all()


def _records(path: Path) -> pd.DataFrame:
    """Read JSON, an object a line, or a list of objects."""
    text, _ = decoded(content(path), "", str(path))
    if not text.strip():
        raise pd.errors.EmptyDataError
    if text.lstrip()[:1] == b"[":
        records = json.loads(text)
    else:
        records = [json.loads(line) for line in text.splitlines() if line.strip()]
    for row, record in enumerate(records):
        if not isinstance(record, dict):
            raise InputError(f"{path}, row {row + 1} must be an object of values by column; got {record!r:.40}.")
        for name, value in record.items():
            if isinstance(value, dict):
                where = f"{path}, row {row + 1}: {name!r}"
                raise InputError(f"{where} holds an object; a table needs one value in each field.")
    return pd.DataFrame(records)


def read_pipe(path: Path) -> pd.DataFrame:
    """Read text from what is no plain file and can be read once, such as /dev/stdin."""
    with TemporaryDirectory(prefix="fedgraft-") as folder:
        copy = Path(folder) / f"{path.name}.csv"
        copy.write_bytes(path.read_bytes())
        try:
            return table_of(copy, str(path))
        except InputError as error:
            raise InputError(str(error).replace(str(copy), str(path))) from error


def shown(source: str | Path) -> str:
    """Return how errors name a file, or an address in a database."""
    return without_password(source) if isinstance(source, str) and is_address(source) else str(source)


def is_folder(source: Given) -> bool:
    """Return whether a table is given as a folder of files."""
    return not isinstance(source, pd.DataFrame) and not is_address(source) and Path(source).is_dir()


def is_table(source: object) -> bool:
    """Return whether a text or a path names a table: by its suffix, or as the address of one in a database."""
    return isinstance(source, str | Path) and (is_address(source) or bool(suffix_of(Path(source))))


def files_of(folder: Path) -> list[Path]:
    """Return the tables of a folder in ascending order of names; texts that need not be tables only if all are such."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and suffix_of(path))
    return [path for path in paths if path.suffix.lower() not in LOOSE] or paths


def columns_of(source: Given, parameter: str, form: TextForm = FOUND_OUT, known: Collection[str] = ()) -> list[str]:
    """Read the names of a table's columns, without what else is in it; none of a folder's tables."""
    if isinstance(source, pd.DataFrame):
        return list(map(str, source.columns))
    return [] if is_folder(source) else header(source, parameter, form, known)


def header(
    source: str | Path, parameter: str = "", form: TextForm = FOUND_OUT, known: Collection[str] = ()
) -> list[str]:
    """Read the names of a file's columns, without what else is in it; arguments as of `read_file`."""
    return list(map(str, read_file(source, parameter or str(source), form, known, rows=0).table.columns))


def _header(path: Path, suffix: str) -> list[str]:
    if suffix == ".parquet":
        return list(map(str, pyarrow.parquet.read_schema(path).empty_table().to_pandas().columns))
    return list(map(str, _columns(path, suffix).columns))


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
