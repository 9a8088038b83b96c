"""The one reader of tables: a file, a folder of files, an address in a database or a DataFrame becomes rows."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.schema import ALL_OTHERS, Names, Table, form_of, with_text_names
from fedgraft.errors import InputError
from fedgraft.tables.table_files import (
    ALLOWED,
    Given,
    Read,
    TextForm,
    check_names,
    files_of,
    is_folder,
    read_file,
    shown,
    stem_of,
)

OWNER = "predict"
"""What errors call the tables of questions: "predict.nodes" ..."""


def read(
    given: Given,
    table: Table,
    names: Names,
    owner: str,
    parameter: str = "",
    needed: Collection[str] | None = None,
    only: Collection[str] | None = None,
) -> Rows:
    """Read the columns that a schema names; in a text only an empty field is missing.

    `names` are the user's of the columns. Errors call the options that name them by `owner`, "Nodes" for Nodes.label
    ..., and a DataFrame `parameter`; "" = as the option: "Nodes.nodes". Roles `needed` must be there; None = as the
    schema says. `only` these roles are read; None = all.
    """
    parameter = parameter or f"{owner}.{table.name}"
    wanted, optional = table.wanted(owner, names, needed, only)
    features = [column.role for column in table.columns if column.kind == "features"]
    rest = table.rest or any(names[role] is ALL_OTHERS for role in features if only is None or role in only)
    columns = _Columns(wanted, optional, rest, table.may_be_empty, form_of(names, table.name))
    if not table.folder or not is_folder(given):
        part = _part(given, parameter, columns)
        every = np.arange(len(part.frame))
        source = [(part.where, len(every))]
        return Rows(table, names, part.frame, source, every, np.zeros_like(every), (), part.unread, part.notes)
    paths = _files(Path(str(given)), parameter, table)
    parts = [_part(path, parameter, columns) for path in paths]
    frames = [part.frame for part in parts]
    _check_alike(paths, frames, optional, table)
    sizes = [len(frame) for frame in frames]
    source = list(zip(map(str, paths), sizes, strict=True))
    whole = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    file = np.repeat(np.arange(len(paths)), sizes)
    unread = tuple(dict.fromkeys(name for part in parts for name in part.unread))
    # What was found out about several files is said once, of the first.
    notes = {note.removeprefix(part.where): note for part in reversed(parts) for note in part.notes}
    every = np.arange(len(whole))
    return Rows(table, names, whole, source, every, file, tuple(map(stem_of, paths)), unread, tuple(notes.values()))


def read_asked(tables: Mapping[str, pd.DataFrame], table: Table) -> Rows:
    """Read one of the tables of questions, whose columns have their usual names.

    One that may be empty has no rows where it is not there.
    """
    where, names = f"{OWNER}.{table.name}", table.names()
    if table.name not in tables:
        if not table.may_be_empty:
            what = f"a table of {table.name} is needed, one row each; give --{table.name}."
            raise InputError(f"{OWNER}: {what}")
        nothing = pd.DataFrame(columns=[column.usual_name for column in table.columns])
        return read(nothing, table, names, OWNER)
    return read(named_once(tables[table.name], where), table, names, OWNER)


def named_once(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the table with text for names of columns, each once."""
    table = with_text_names(table)
    if len(again := table.columns[table.columns.duplicated()]):
        raise InputError(f"{where}: two columns are named {again[0]!r}; one is needed.")
    return table


def check_there(columns: Sequence[str], wanted: Mapping[str, str], where: str, hint: str = "") -> None:
    """Raise `InputError` where there is no column that is wanted, {option: column}; `where` is what errors call all.

    `hint` ends the error where there is none of them.
    """
    for option, column in wanted.items():
        if column not in columns:
            near = difflib.get_close_matches(column.lower(), [name.lower() for name in columns], n=1, cutoff=0.5)
            like = f" Did you mean {next(name for name in columns if name.lower() == near[0])!r}?" if near else ""
            there, end = ", ".join(columns) or "none", "" if {*wanted.values()} & {*columns} or near else hint
            raise InputError(f"{where}: no column {column!r} ({option}).{like} Columns: {there}.{end}")


@dataclass(frozen=True)
class _Columns:
    """What is read of a table: {option: column} that must be there, columns that may be, whether all others, too."""

    wanted: Mapping[str, str]
    optional: Collection[str]
    rest: bool
    may_be_empty: bool
    form: TextForm


@dataclass(frozen=True, eq=False)
class _Part:
    """The columns of one table that are read, what errors call it, names of the others, and notes on its file."""

    frame: pd.DataFrame
    where: str
    unread: tuple[str, ...]
    notes: tuple[str, ...]


def _part(given: Given, parameter: str, columns: _Columns) -> _Part:
    name = parameter if isinstance(given, pd.DataFrame) else shown(given)
    read = Read(given) if isinstance(given, pd.DataFrame) else _of_file(given, parameter, columns)
    table = with_text_names(read.table)
    present = list(table.columns)
    check_names(present, name)
    is_text = bool(present) and not isinstance(given, pd.DataFrame)
    check_there(present, columns.wanted, name, _NO_HEADER if is_text else "")
    if not columns.may_be_empty and len(table) == 0:
        raise InputError(f"{name}: no rows; at least one is needed.")
    others = present if columns.rest else [column for column in columns.optional if column in table]
    kept = list(dict.fromkeys([*columns.wanted.values(), *others]))
    unread = tuple(column for column in present if column not in kept)
    return _Part(table[kept].reset_index(drop=True), name, unread, read.notes)


_NO_HEADER = " Where the first row holds values, data.columns names the columns; data.separator sets fields apart."


def _of_file(given: str | Path, parameter: str, columns: _Columns) -> Read:
    known = {*columns.wanted.values(), *columns.optional}
    return read_file(given, parameter, columns.form, known, exact=False)


def _files(folder: Path, parameter: str, table: Table) -> list[Path]:
    """The tables of a folder in ascending order of names, of which no two are alike but for the suffix."""
    paths = files_of(folder)
    if not paths:
        raise InputError(f"{parameter}: folder {folder} holds no file that ends in {ALLOWED}.")
    stems = [stem_of(path) for path in paths]
    if again := [stem for stem in stems if stems.count(stem) > 1]:
        one = "one client" if table.folder == "clients" else "one"
        raise InputError(f"{parameter}: folder {folder} holds two files named {again[0]!r}; each must be {one}.")
    return paths


def _check_alike(paths: list[Path], frames: list[pd.DataFrame], optional: Collection[str], table: Table) -> None:
    """Raise `InputError` where a column is in some files of a folder alone."""
    if table.folder == "clients":
        partly = [column for column in optional if 0 < sum(column in frame for frame in frames) < len(frames)]
        if partly:
            lacking = next(path for path, frame in zip(paths, frames, strict=True) if partly[0] not in frame)
            raise InputError(f"{lacking}: no column {partly[0]!r}, which other files of the folder have.")
        return
    for path, frame in zip(paths, frames, strict=True):
        if differ := {*frame.columns} ^ {*frames[0].columns}:
            column = min(differ, key=str)
            raise InputError(f"{path}: column {column!r} is here or in {paths[0]}, but not in both files.")
