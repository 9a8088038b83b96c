"""Questions and answers as JSON: tables of one request, read within limits, and rows of answers."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedgraft.errors import FedgraftError, InputError, require, unknown

MEMBERS = ("tables", "client", "count", "threshold")
"""Of a request."""
MAX_REQUEST, MAX_ROWS = "10MB", 100_000
"""Limits by default: size of a request, rows of a table and answers to a request."""
MOST_CELLS = 10_000_000
"""Most cells of all tables: rows that each name another column would fill any memory."""


class RefusedError(FedgraftError):
    """A request that is not answered, with a status of HTTP, such as 413, and why."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


@dataclass(frozen=True, eq=False)
class Request:
    """Questions of one request: tables by name, who answers all, how many answers to each, a threshold.

    None leaves it to the task, or to the run.
    """

    tables: Mapping[str, pd.DataFrame]
    client: str | None
    count: int | None
    threshold: float | None = None


def read_request(body: bytes, most_rows: int) -> Request:
    """Read a request.

    Args:
        body: JSON, an object with `MEMBERS`. A table is a list of rows, an object each, or an object of columns, a
            list each, which can say the columns of a table without rows.
        most_rows: of a table.

    Raises `RefusedError` for what is no JSON or too large, `InputError` for JSON that is no request.
    """
    request = _parsed(body)
    _check(isinstance(request, dict), "The body", 'an object such as {"tables": {NAME: [ROW, ...]}}', request)
    for name in request:
        if name not in MEMBERS:
            raise unknown("member of a request", name, MEMBERS)
    rows_of, client, count, threshold = (request.get(name) for name in MEMBERS)
    _check(isinstance(rows_of, dict), "tables", "an object {NAME: [ROW, ...]}", rows_of)
    _check(client is None or isinstance(client, str), "client", "a text, the name of a client", client)
    _check(count is None or type(count) is int, "count", "a whole number", count)
    require(count is None or count >= 1, "count", ">= 1", count)
    number = threshold is None or (isinstance(threshold, int | float) and not isinstance(threshold, bool))
    _check(number, "threshold", "a number, a probability", threshold)
    tables: dict[str, pd.DataFrame] = {}
    for name, table in rows_of.items():
        taken = sum(other.size for other in tables.values())
        tables[name] = _table(name, table, most_rows, MOST_CELLS - taken)
    return Request(tables, client, count, threshold)


def rendered(answers: pd.DataFrame, notes: Sequence[str] = ()) -> bytes:
    """Return {"answers": rows} as JSON, and "notes" if there are any; what is missing or no finite number is null."""
    columns = {str(name): _values(answers.iloc[:, place]) for place, name in enumerate(answers.columns)}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return to_json({"answers": rows, **({"notes": [*notes]} if notes else {})})


def to_json(value: object) -> bytes:
    """Return JSON as every parser takes it: UTF-8, without NaN."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _parsed(body: bytes) -> Any:
    try:
        content = json.loads(body.decode(), object_pairs_hook=_once, parse_constant=_no_number)
        if b"\\ud" in body.lower():
            json.dumps(content, ensure_ascii=False).encode()  # half a character is no text
    except RecursionError as error:
        raise RefusedError(400, "The body is nested too deeply.") from error
    except ValueError as error:
        raise RefusedError(400, f"The body is no JSON: {error}.") from error
    return content


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(members)
    if len(unique) < len(members):
        (name, _), *_ = Counter(name for name, _ in members).most_common(1)
        raise ValueError(f"{name!r} is more than once in an object")
    return unique


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON; null stands for what is missing")


def _table(name: str, table: Any, most_rows: int, most_cells: int) -> pd.DataFrame:
    columns: dict[str, Any]
    if isinstance(table, dict):
        columns, lengths = table, {len(values) if isinstance(values, list) else -1 for values in table.values()}
        rows, sound = max(lengths, default=0), len(lengths) < 2 and -1 not in lengths
    else:
        sound = isinstance(table, list) and all(isinstance(row, dict) for row in table)
        rows = len(table) if sound else 0
        columns = dict.fromkeys(column for row in table for column in row) if sound else {}
    _check(sound, f"--{name}", "a list of rows, an object each, or an object of columns, lists of one length", table)
    if rows > most_rows:
        raise RefusedError(413, f"--{name} has {rows:,} rows; at most {most_rows:,} are answered at a time.")
    if rows * len(columns) > most_cells:
        raise RefusedError(
            413, f"--{name} has {len(columns):,} columns of {rows:,} rows; all tables may have {MOST_CELLS:,} cells."
        )
    if isinstance(table, list):
        columns = {column: [row.get(column) for row in table] for column in columns}
    return pd.DataFrame({column: _column(name, column, values) for column, values in columns.items()})


def _column(table: str, column: str, values: list[Any]) -> pd.Series:
    """A column as pandas would make it, but that whole numbers stay whole where some are missing."""
    kinds = {*map(type, values)}
    if kinds & {list, dict}:
        row = next(row for row, value in enumerate(values) if isinstance(value, list | dict))
        where = f"--{table}, row {row + 1}: {column!r}"
        _check(False, where, "a text, a number, true, false or null", values[row])
    return pd.Series(values, dtype=object if {int, type(None)} <= kinds or not values else None)


def _values(column: pd.Series) -> Sequence[Any]:
    if column.dtype == np.float32:  # as few digits as tell it from others, as in a CSV file
        return [_plain(float(str(value))) for value in column.to_numpy()]
    return [_plain(value) for value in column.tolist()]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return None if pd.isna(value) else value


def _check(sound: bool, what: str, allowed: str, got: Any) -> None:
    if not sound:
        kinds = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "nothing"}
        raise InputError(f"{what} must be {allowed}; got {kinds.get(type(got), 'a number')}.")
