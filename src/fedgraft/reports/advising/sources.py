"""Find the data that are meant: a data set's name, or a file whose columns tell which data set reads it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fedgraft.errors import InputError, nearest
from fedgraft.experiment.recipes import discovery
from fedgraft.tables.table_files import (
    ALLOWED,
    SUFFIXES,
    TextForm,
    absolute,
    files_of,
    header,
    is_address,
    is_table,
    shown,
)


@dataclass(frozen=True)
class Shape:
    """A data set that reads a user's own tables.

    Args:
        data: its name.
        table: the option that takes the main table.
        roles: options that name columns which that table must have.
        beside: options that take further tables.
        named: overrides where a column names each row's client, for data sets that do not look for it.
    """

    data: str
    table: str
    roles: tuple[str, ...]
    beside: tuple[str, ...] = ()
    named: Mapping[str, Any] | None = None

    def columns(self, options: Mapping[str, Any]) -> dict[str, str]:
        """Return {role: column}, as options say or by default; the client's too; none for a role that is not read."""
        usual = {each.name: each.default for each in fields(discovery.find("data", self.data))}
        columns = {role: str(options.get(role, usual[role])) for role in (*self.roles, "client")}
        return {role: column for role, column in columns.items() if column}


SHAPES = (
    Shape("table", "ratings", ("user", "item", "rating"), named={"partition": "given"}),
    Shape("graphs", "graphs", ("graph", "label"), ("nodes", "edges")),
    Shape("nodes", "nodes", ("node", "label"), ("edges",)),
    Shape("interactions", "interactions", ("user", "item"), named={"partition": "given"}),
)
"""The first that fits a file's columns is taken."""


def section_of(data: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section [data] for what the user named.

    Args:
        data: the name of a data set, or the path of a CSV or Parquet file, or of a folder with a file for each client.
        options: what else the user said of the data; a "name" says which data set reads a file.

    Raises `InputError` for what is neither, and for a file whose columns no data set reads.
    """
    path, known = Path(data), discovery.names("data")
    if is_address(data):
        return _of_file(data, options)
    if data in known or (":" in data and not path.exists()):
        return {**options, "name": data}
    if not path.exists():
        if is_table(path):
            beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
            raise InputError(f"No file {data}.{nearest(path.name, beside)}")
        raise InputError(
            f"{data!r} is no file and no data set ('fedgraft list data').{nearest(data, known)} "
            f"A file ends in {ALLOWED}."
        )
    return _of_file(path, options)


def _of_file(path: str | Path, options: Mapping[str, Any]) -> dict[str, Any]:
    one = _one_file(path)
    known = {column for shape in SHAPES for column in shape.columns(options).values()}
    present = header(one, "data", _form(options), known)
    shapes = [shape for shape in SHAPES if options.get("name", shape.data) == shape.data]
    for shape in shapes:
        columns = shape.columns(options)
        if all(columns[role] in present for role in shape.roles if role in columns):
            return {**_named(shape, path, columns.get("client") in present, options), **_beside(shape, path, options)}
    allowed = "; ".join(
        f"{', '.join(columns[role] for role in shape.roles if role in columns)} ({shape.data})"
        for shape in shapes
        for columns in [shape.columns(options)]
    )
    raise InputError(
        f"{shown(one)} has the columns {', '.join(present)}. Needed are: {allowed or 'those of another data set'}. "
        f"Columns of other names are told as data.{shapes[0].roles[0] if shapes else 'user'}=NAME."
    )


def _form(options: Mapping[str, Any]) -> TextForm:
    """Return what options say of how the main table is written."""
    said = {each.name: options[each.name] for each in fields(TextForm) if each.name in options}
    columns = said.get("columns", ())
    return TextForm(**{**said, "columns": () if isinstance(columns, Mapping) else tuple(columns)})


def _one_file(path: str | Path) -> str | Path:
    """Return the file whose columns are looked at: the first one of a folder."""
    if isinstance(path, str):
        return path
    if not path.is_dir():
        if not is_table(path):
            raise InputError(f"{path} must end in {ALLOWED}.")
        return path
    files = files_of(path)
    if not files:
        raise InputError(f"{path} is a folder without a file that ends in {ALLOWED}.")
    return files[0]


def _named(shape: Shape, path: str | Path, has_client: bool, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data set with the main table; who names no partition has clients as the data name them."""
    dealt = {"partition", "clients"} & options.keys()
    named = shape.named if shape.named and not dealt and (has_client or Path(path).is_dir()) else {}
    given = absolute(path) if isinstance(path, str) else str(path.resolve())
    return {**options, "name": shape.data, shape.table: given, **named}


def _beside(shape: Shape, given: str | Path, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the further tables: as said, or as files of their names next to the main one."""
    tables, path = {}, Path(given)
    for table in shape.beside:
        places = [path.parent / f"{table}{suffix}" for suffix in (path.suffix.lower(), *SUFFIXES)]
        near = next((place for place in places if place.is_file()), None)
        if table in options:
            tables[table] = str(Path(str(options[table])).resolve())
        elif near is not None:
            tables[table] = str(near.resolve())
        else:
            raise InputError(
                f"{path} has the columns of the data set {shape.data!r}, which needs a table of {table} too: give "
                f"data.{table}=FILE, or put {table}{path.suffix or SUFFIXES[0]} next to it."
            )
    return tables
