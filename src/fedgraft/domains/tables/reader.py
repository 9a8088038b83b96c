"""The one reader of tables: a CSV or Parquet file, a folder of them or a DataFrame becomes rows of a schema."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fedgraft.contracts.table_files import SUFFIXES, Given, check_names, is_folder, read_file
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.schema import ALL_OTHERS, Names, Table, with_text_names
from fedgraft.errors import InputError

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
    """Read the columns that a schema names; of a CSV file all is text, and only an empty field is missing.

    `names` are the user's of the columns. Errors call the options that name them by `owner`, "Nodes" for Nodes.label
    ..., and a DataFrame `parameter`; "" = as the option: "Nodes.nodes". Roles `needed` must be there; None = as the
    schema says. `only` these roles are read; None = all.
    """
    parameter = parameter or f"{owner}.{table.name}"
    wanted, optional = table.wanted(owner, names, needed, only)
    features = [column.role for column in table.columns if column.kind == "features"]
    rest = table.rest or any(names[role] is ALL_OTHERS for role in features if only is None or role in only)
    if not table.folder or not is_folder(given):
        frame, where, unread = _frame(given, parameter, wanted, optional, rest, table.may_be_empty)
        every = np.arange(len(frame))
        return Rows(table, names, frame, [(where, len(frame))], every, np.zeros_like(every), (), unread)
    paths = _files(Path(str(given)), parameter, table)
    frames = [_frame(path, parameter, wanted, optional, rest, table.may_be_empty)[0] for path in paths]
    _check_alike(paths, frames, optional, table)
    sizes = [len(frame) for frame in frames]
    source = list(zip(map(str, paths), sizes, strict=True))
    whole = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    file = np.repeat(np.arange(len(paths)), sizes)
    return Rows(table, names, whole, source, np.arange(len(whole)), file, tuple(path.stem for path in paths))


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


def check_there(columns: Sequence[str], wanted: Mapping[str, str], where: str) -> None:
    """Raise `InputError` where there is no column that is wanted, {option: column}; `where` is what errors call all."""
    for option, column in wanted.items():
        if column not in columns:
            near = difflib.get_close_matches(column.lower(), [name.lower() for name in columns], n=1, cutoff=0.5)
            hint = f" Did you mean {next(name for name in columns if name.lower() == near[0])!r}?" if near else ""
            there = ", ".join(columns) or "none"
            raise InputError(f"{where}: no column {column!r} ({option}).{hint} Columns: {there}.")


def _frame(
    given: Given, parameter: str, wanted: Mapping[str, str], optional: Collection[str], rest: bool, may_be_empty: bool
) -> tuple[pd.DataFrame, str, tuple[str, ...]]:
    """(the columns of one table that are read, what errors call it, names of the others)."""
    name = parameter if isinstance(given, pd.DataFrame) else str(given)
    table = with_text_names(given if isinstance(given, pd.DataFrame) else read_file(Path(given), parameter))
    present = list(table.columns)
    check_names(present, name)
    check_there(present, wanted, name)
    if not may_be_empty and len(table) == 0:
        raise InputError(f"{name}: no rows; at least one is needed.")
    others = present if rest else [column for column in optional if column in table]
    kept = list(dict.fromkeys([*wanted.values(), *others]))
    return table[kept].reset_index(drop=True), name, tuple(column for column in present if column not in kept)


def _files(folder: Path, parameter: str, table: Table) -> list[Path]:
    """The tables of a folder in ascending order of names, of which no two are alike but for the suffix."""
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise InputError(f"{parameter}: folder {folder} holds no file that ends in {' or '.join(SUFFIXES)}.")
    stems = [path.stem for path in paths]
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
