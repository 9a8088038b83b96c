"""Find the data that are meant: a data set's name, or a file whose columns tell which data set reads it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fedgraft.contracts.table_files import SUFFIXES, header
from fedgraft.errors import InputError, nearest
from fedgraft.experiment.recipes import discovery


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
    if data in known or (":" in data and not path.exists()):
        return {**options, "name": data}
    if not path.exists():
        if path.suffix.lower() in SUFFIXES:
            beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
            raise InputError(f"No file {data}.{nearest(path.name, beside)}")
        raise InputError(
            f"{data!r} is no file and no data set ('fedgraft list data').{nearest(data, known)} "
            f"A file ends in {' or '.join(SUFFIXES)}."
        )
    return _of_file(path, options)


def _of_file(path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    one = _one_file(path)
    try:
        present = header(one)
    except (ValueError, OSError) as error:  # parsers' errors of pandas and Arrow are ValueErrors
        reason = " ".join(str(error).split())
        raise InputError(f"{one} cannot be read as {one.suffix.lower()[1:]} ({reason}).") from error
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
        f"{one} has the columns {', '.join(present)}. Needed are: {allowed or 'those of another data set'}. "
        f"Columns of other names are told as data.{shapes[0].roles[0] if shapes else 'user'}=NAME."
    )


def _one_file(path: Path) -> Path:
    """Return the file whose columns are looked at: the first one of a folder."""
    if not path.is_dir():
        if path.suffix.lower() not in SUFFIXES:
            raise InputError(f"{path} must end in {' or '.join(SUFFIXES)}.")
        return path
    files = sorted(each for each in path.iterdir() if each.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(f"{path} is a folder without a file that ends in {' or '.join(SUFFIXES)}.")
    return files[0]


def _named(shape: Shape, path: Path, has_client: bool, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data set with the main table; who names no partition has clients as the data name them."""
    dealt = {"partition", "clients"} & options.keys()
    named = shape.named if shape.named and not dealt and (has_client or path.is_dir()) else {}
    return {**options, "name": shape.data, shape.table: str(path.resolve()), **named}


def _beside(shape: Shape, path: Path, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the further tables: as said, or as files of their names next to the main one."""
    tables = {}
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
