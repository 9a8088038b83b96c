"""Tables written as text become DataFrames: ids as they are written, fast where whole numbers are all there is."""

import re
import warnings
from collections.abc import Collection
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from fedgraft.errors import InputError
from fedgraft.tables.packed_files import content, packing, suffix_of
from fedgraft.tables.text_form import DECIMAL_COMMA, NUMBER, Dialect, TextForm, check_names, decoded, found

SAMPLE, LEAST = 1 << 16, 5
"""Bytes, and least lines, at the head of a text by which it is found out how it is written."""
SAMPLED = 200
"""Most lines of these."""

_BLOCK = 1 << 14
_TOO_WIDE = re.compile(r"Expected \d+ fields in line (\d+), saw (\d+)")
"""How pandas says that a row, but the first, has more fields than the header."""
_THOUSANDS = r"^[+-]?[1-9]\d{0,2}(,\d{3})+$"
_APART = "\x1f"
"""A character that stands for a separator of two, which parsers do not take."""


def read_text(
    path: Path, form: TextForm, known: Collection[str] = (), rows: int | None = None, exact: bool = True
) -> tuple[pd.DataFrame, list[str]]:
    """Return a text's table, or its columns where `rows` is 0, and notes on what was found out about it.

    Values are text without blanks around it, empty ones missing. Unless it must be `exact`ly so, a table of nothing
    but whole numbers is of numbers, if these say all that the text does ("007" is text). `known`: see `found`.
    """
    where, suffix = str(path), suffix_of(path)
    if not exact and rows is None and not packing(path) and not form.encoding:
        whole = _whole_numbers(path, form, known, suffix)
        if whole is not None:
            return whole
    raw = content(path, SAMPLE, LEAST) if rows == 0 else content(path)
    data, encoding = decoded(raw, form.encoding, where, is_whole=rows != 0)
    if not data.strip():
        raise pd.errors.EmptyDataError
    dialect = found(_sample(data), form, known, where, suffix)
    check_names([name for name in dialect.names if name], where)
    names = [name or f"Unnamed: {place}" for place, name in enumerate(dialect.names)]
    notes = [*([encoding] if encoding else []), *dialect.notes]
    if rows == 0:
        return pd.DataFrame(columns=names), notes
    table = _parsed(data, dialect, names)
    if table is None:
        table = _by_pandas(data, dialect, names, where)
    commas = "," in (form.decimal or ",") and (dialect.separator != "," or b'"' in data) and b"," in data
    has_blanks = b" " in data or b"\t" in data or not data.isascii()
    columns, changed = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        tidy = _stripped(column) if has_blanks else column
        if commas and (point := _with_points(tidy, form)) is not None:
            tidy = point
            changed.append(name)
        columns.append(tidy)
    if changed and not form.decimal:
        notes.append(f"commas are decimal points in {', '.join(changed)}")
    return pa.table(dict(zip(names, columns, strict=True))).to_pandas(), notes


def _sample(data: bytes) -> list[str]:
    """The first lines of a text, whole ones where it goes on."""
    end = count = 0
    while count < SAMPLED and (end < SAMPLE or count < LEAST) and (at := data.find(b"\n", end)) >= 0:
        end, count = at + 1, count + 1
    if not count or (count < SAMPLED and end < min(len(data), SAMPLE)):
        end = len(data)  # the last line has no end
    head = data[:end].decode(errors="ignore")
    return head.splitlines(keepends=True) if not count else [f"{line}\n" for line in head.rstrip("\n").split("\n")]


# --- whole numbers alone ----------------------------------------------------------------------------------------------


def _whole_numbers(
    path: Path, form: TextForm, known: Collection[str], suffix: str
) -> tuple[pd.DataFrame, list[str]] | None:
    """A table of whole numbers that are written as Python writes them, and notes; None for any other.

    What was read, written again, is as long as the file: each number has the fewest characters that it can have, so
    that "007", "+7", blanks, quotes or an empty field would make the file longer.
    """
    head = content(path, SAMPLE, LEAST)
    if not head.isascii() or b"\0" in head:
        return None
    dialect = found(_sample(head), form, known, str(path), suffix)
    lines = dialect.rows[dialect.has_header :]
    whole = all(field.isdigit() and str(int(field)) == field for row in lines for field in row if len(field) < 19)
    if len(dialect.separator) > 1 or dialect.separator == " " or dialect.comments or not lines or not whole:
        return None
    first = head[: head.find(b"\n") + 1] if dialect.has_header else b""
    if (dialect.has_header and not first) or b'"' in first or not all(dialect.names):
        return None
    check_names(dialect.names, str(path))
    options: Any = {"header": 0 if dialect.has_header else None, "names": list(dialect.names)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            table = pd.read_csv(path, sep=dialect.separator, keep_default_na=False, na_values=[""], **options)
        except (ValueError, OSError):  # what is wrong is said by who reads text
            return None
    if not isinstance(table.index, pd.RangeIndex) or not (table.dtypes == np.int64).all():
        return None
    ends = 2 if b"\r\n" in head else 1
    written = sum(_characters(table[name].to_numpy()) for name in table) + len(table) * (table.shape[1] - 1 + ends)
    rest = path.stat().st_size - len(first)
    return (table, list(dialect.notes)) if rest in (written, written - ends) else None


def _characters(numbers: np.ndarray) -> int:
    """How many characters whole numbers have, written without a separator."""
    if not len(numbers):
        return 0
    low, high = int(numbers.min()), int(numbers.max())
    bounds = [10**power for power in range(1, len(str(max(high, -low))))]
    count = len(numbers)
    for start in range(0, len(numbers), _BLOCK):  # what fits in a core's cache
        block = numbers[start : start + _BLOCK]
        count += sum(int(np.count_nonzero(block >= bound)) for bound in bounds if bound <= high)
        if low < 0:
            count += int(np.count_nonzero(block < 0))
            count += sum(int(np.count_nonzero(block <= -bound)) for bound in bounds if bound <= -low)
    return count


# --- anything ---------------------------------------------------------------------------------------------------------


def _parsed(data: bytes, dialect: Dialect, names: list[str]) -> pa.Table | None:
    """All fields as text, empty ones null; None where rows have not as many as the header, or quotes do not close."""
    data, separator = _single(data, dialect)
    quoted = dialect.separator not in ("::", " ") and b'"' in data
    if quoted and (data.count(b'"') % 2 or re.search(rb"[%s\n][ ]+\"" % re.escape(separator.encode()), data)):
        return None  # quotes that do not close, or behind blanks
    read = pa.csv.ReadOptions(column_names=names, skip_rows_after_names=int(dialect.has_header))
    parse = pa.csv.ParseOptions(
        delimiter=separator, quote_char='"' if quoted else False, newlines_in_values=quoted, ignore_empty_lines=True
    )
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
    )
    try:
        return pa.csv.read_csv(pa.BufferReader(data), read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid:
        return None


def _single(data: bytes, dialect: Dialect) -> tuple[bytes, str]:
    """The text without comments at its head, and its separator, of one character."""
    for _ in range(dialect.comments):
        data = data[data.find(b"\n") + 1 :]
    if dialect.has_header and data[:1] in (b"#", b"%"):
        data = data.lstrip(b"#% ")  # names that stand in a comment
    if dialect.separator == "::":
        return data.replace(b"::", _APART.encode()), _APART
    if dialect.separator == " ":
        return re.sub(rb"(?m)^ | $", b"", re.sub(rb"[ \t]+", b" ", data.replace(b"\r\n", b"\n"))), " "
    return data, dialect.separator


def _by_pandas(data: bytes, dialect: Dialect, names: list[str], where: str) -> pa.Table:
    """The same by pandas, which fills up short rows and says what is wrong."""
    data, separator = _single(data, dialect)
    width = len(names)
    try:
        table = pd.read_csv(
            BytesIO(data),
            sep=separator,
            dtype=str,
            keep_default_na=False,
            na_values=[""],
            skipinitialspace=True,
            header=0 if dialect.has_header else None,
            quoting=3 if dialect.separator in ("::", " ") else 0,
        )
    except pd.errors.ParserError as error:
        if not (widths := _TOO_WIDE.search(str(error))):
            raise
        line, count = widths.groups()
        raise InputError(
            f"{where}, line {line}: {count} fields where the header names {width}.{_hint(dialect)}"
        ) from error
    # Of what the first row has too much pandas makes an index.
    if len(table) and not isinstance(table.index, pd.RangeIndex):
        count = width + table.index.nlevels
        raise InputError(f"{where}, row 1: {count} fields where the header names {width}.{_hint(dialect)}")
    return pa.table({name: pa.array(table.iloc[:, place], pa.string()) for place, name in enumerate(names)})


def _hint(dialect: Dialect) -> str:
    """What may be the matter where a row has more fields than there are names."""
    numbers = any(re.fullmatch(NUMBER, field) for row in dialect.rows[1:] for field in row)
    return " A decimal comma must stand in quotes." if dialect.separator == "," and numbers else ""


def _stripped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    tidy = pc.utf8_trim_whitespace(column)
    empty = pc.equal(tidy, "")
    return pc.if_else(empty, pa.scalar(None, pa.string()), tidy) if pc.any(empty).as_py() else tidy


def _with_points(column: pa.ChunkedArray, form: TextForm) -> pa.ChunkedArray | None:
    """A column of numbers with decimal commas, with points in their place; None for any other.

    Nor is it one where all commas may set thousands apart, unless it is said that they do not.
    """
    with_comma = pc.match_substring(column, ",")
    if not pc.any(with_comma).as_py() or not pc.all(pc.match_substring_regex(column, f"^(?:{DECIMAL_COMMA})$")).as_py():
        return None
    thousands = pc.match_substring_regex(column.filter(with_comma), _THOUSANDS)
    return None if not form.decimal and pc.all(thousands).as_py() else pc.replace_substring(column, ",", ".")
