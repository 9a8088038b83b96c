"""Tables in databases, by an address: sqlite:///file.db#table, or with ?query=SELECT ... in place of a table."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pandas as pd

from fedgraft.errors import InputError, missing_extra, nearest

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9]+(?:\+\w+)?://.*", re.DOTALL)
_PASSWORD: Final = re.compile(r"(://[^:/@]*:)[^@/]*@")
_QUERY: Final = re.compile(r"[?&]query=")
_FILES: Final = ("sqlite", "duckdb")
"""Databases that are a file."""
_FORM: Final = "#TABLE, or ?query=SELECT ..., behind the address says what is read"


def is_address(source: object) -> bool:
    """Return whether a text is the address of a table in a database."""
    return isinstance(source, str) and bool(_ADDRESS.fullmatch(source))


def absolute(address: str) -> str:
    """Return an address with the whole path of the file in it, if there is one."""
    kind, _, rest = address.partition(":///")
    if kind not in _FILES or not rest:
        return address
    path, mark, what = _parted(rest)
    return f"{kind}:///{Path(path).resolve()}{mark}{what}"


def without_password(address: str) -> str:
    """Return an address as errors show it."""
    return _PASSWORD.sub(r"\1***@", address)


def read_database(address: str, parameter: str) -> pd.DataFrame:
    """Read a table, or what a query selects, whole; `parameter` names it in errors."""
    kind, _, rest = address.partition("://")
    base, mark, what = _parted(rest)
    shown = without_password(address)
    if not base.strip("/") or not what:
        raise InputError(f"{parameter}: {shown} names no table; {_FORM}.{_tables_there(kind, base)}")
    query = "" if mark == "#" else what
    try:
        if kind == "sqlite":
            return _sqlite(base.removeprefix("/"), what, query, parameter)
        if kind == "duckdb":
            return _duckdb(base.removeprefix("/"), what, query, parameter)
        return _sqlalchemy(f"{kind}://{base}", what, query, parameter)
    except InputError:
        raise
    except Exception as error:  # each driver has its own types
        reason = " ".join(without_password(str(error)).split())[:300]
        raise InputError(f"{parameter}: {shown} cannot be read ({reason}).") from error


def _parted(rest: str) -> tuple[str, str, str]:
    """(what is before, "#" or "?query=" or "", the table or the query)."""
    if match := _QUERY.search(rest):
        return rest[: match.start()], match[0], unquote(rest[match.end() :])
    base, mark, table = rest.partition("#")
    return base, mark, table


def _check_there(path: str, parameter: str) -> None:
    if Path(path).is_file():
        return
    folder = Path(path).parent
    there = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    raise InputError(f"{parameter}: no file {path}.{nearest(Path(path).name, there)}")


def _quoted(table: str) -> str:
    """The name of a table, or of one in a schema, as SQL has it."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))


def _sqlite(path: str, table: str, query: str, parameter: str) -> pd.DataFrame:
    _check_there(path, parameter)
    with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as connection:
        if not query:
            _check_table(table, _sqlite_tables(connection), path, parameter)
        return pd.read_sql_query(query or f"SELECT * FROM {_quoted(table)}", connection)


def _sqlite_tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
    return [name for (name,) in rows]


def _check_table(table: str, there: list[str], where: str, parameter: str) -> None:
    if table not in there:
        hint, tables = nearest(table, there), ", ".join(there) or "none"
        raise InputError(f"{parameter}: no table {table!r} in {where}.{hint} Tables: {tables}.")


def _tables_there(kind: str, base: str) -> str:
    """Name the tables of a file of SQLite."""
    path = Path(base.removeprefix("/"))
    if kind != "sqlite" or not path.is_file():
        return ""
    with closing(sqlite3.connect(path)) as connection:
        return f" Tables: {', '.join(_sqlite_tables(connection)) or 'none'}."


def _duckdb(path: str, table: str, query: str, parameter: str) -> pd.DataFrame:
    with missing_extra("sql", by=f"{parameter}, in a database of DuckDB,"):
        import duckdb
    database: Any = duckdb
    in_memory = path in ("", ":memory:")
    if not in_memory:
        _check_there(path, parameter)
    with closing(database.connect(path or ":memory:", read_only=not in_memory)) as connection:
        if not query:
            there = [
                name for (name,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
            ]
            _check_table(table, there, path, parameter)
        frame: pd.DataFrame = connection.execute(query or f"SELECT * FROM {_quoted(table)}").df()
        return frame


def _sqlalchemy(url: str, table: str, query: str, parameter: str) -> pd.DataFrame:
    if url.startswith(("http://", "https://", "s3://", "gs://", "ftp://", "file://")):
        raise InputError(f"{parameter}: {url} is no database; download the file, and give its path.")
    with missing_extra("sql", by=f"{parameter}, in a database,"):
        import sqlalchemy
    try:
        engine = sqlalchemy.create_engine(url)
    except ModuleNotFoundError as error:
        shown = without_password(url)
        raise InputError(f"{parameter}: {shown} needs the driver {error.name}: pip install {error.name}.") from error
    with engine.connect() as connection:
        if not query:
            schema, _, name = table.rpartition(".")
            there = sqlalchemy.inspect(engine).get_table_names(schema=schema or None)
            _check_table(name, there, without_password(url), parameter)
            quote = engine.dialect.identifier_preparer.quote
            query = f"SELECT * FROM {'.'.join(quote(part) for part in table.split('.'))}"
        return pd.read_sql_query(sqlalchemy.text(query), connection)
