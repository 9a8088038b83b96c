"""Rows that were read, with what each column holds and the one way in which errors name file, row, column and value."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.notes import LOG
from fedgraft.domains.tables.schema import Names, Table, form_of
from fedgraft.domains.tables.times import as_numbers as as_numbers
from fedgraft.domains.tables.times import long_span, times_of
from fedgraft.errors import InputError, require_one_of
from fedgraft.wire.layouts import Array

Source: TypeAlias = list[tuple[str, int]]
"""Where rows come from: (file, number of its rows) in order."""
Coded: TypeAlias = tuple[Indices, Array]
"""A number for each row, int64 [n], and the names that they stand for."""


_WHOLE_FLOAT: Final = re.compile(r"(?:-(?=0\.))?(-?(?:0|[1-9][0-9]*))\.0+")
"""A whole number as a float is written."""
_DIGITS: Final = 18
"""Of a whole number that an int64 holds."""
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


class Located:
    """What knows where each of its rows comes from: `places`, int64 [n], says which rows of the source they are."""

    source: Source
    places: Indices

    @property
    def where(self) -> str:
        """What errors call the table: the first file, or the option of a DataFrame."""
        return self.source[0][0]

    def row(self, row: int | np.integer) -> str:
        """'FILE, row 3', where one of the rows is: rows count from 1 and leave a CSV file's header out."""
        ends, number = np.cumsum([count for _, count in self.source]), int(self.places[row])
        place = int(np.searchsorted(ends, number, side="right"))
        name, count = self.source[place]
        return f"{name}, row {number - int(ends[place]) + count + 1}"


@dataclass(frozen=True, eq=False)
class Cells(Located):
    """Cells of one column, which errors call `name`."""

    values: pd.Series
    name: str
    source: Source
    places: Indices

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def filled(self) -> Indices:
        """int64 [filled], the cells that are not empty."""
        return np.flatnonzero(self.values.notna().to_numpy())

    def take(self, cells: Indices) -> "Cells":
        """Return some of the cells; each keeps the number of its row."""
        return Cells(self.values.iloc[cells], self.name, self.source, self.places[cells])

    def text(self, cell: int | np.integer) -> str:
        """Return a cell as text, as it is written."""
        return str(self.values.iloc[cell])

    def error(
        self, wrong: Array | Sequence[int], must: str, got: str | None = None, counted: bool = True, hint: str = ""
    ) -> InputError:
        """Return the error "FILE, row 3: 'column' must be ...; got ... (2 such rows)." of the first wrong cell.

        `wrong` says which cells are, bool [n] or whole numbers. Without `got` the cell's text stands there. If
        `counted`, the error tells how many are wrong; it ends with the hint.
        """
        cells = _places(wrong)
        count = f" ({len(cells)} such rows)" if counted else ""
        if got is None:
            got = "nothing" if self._is_empty(cells[0]) else repr(self.text(cells[0]))
            hint = hint or _hint(self.text(cells[0]))
        return InputError(f"{self.row(cells[0])}: {self.name!r} must be {must}; got {got}{count}.{hint}")

    def _is_empty(self, cell: int | np.integer) -> bool:
        value = self.values.iloc[cell]
        return bool(pd.api.types.is_scalar(value) and pd.isna(value))

    def lists(self) -> InputError | None:
        """Return the error of a column whose cells hold several numbers each, which are no feature; else None."""
        some = self.filled[:100]
        if not len(some) or not all(_LIST.fullmatch(self.text(cell).strip()) for cell in some):
            return None
        hint = " Several numbers in one cell are no feature: give each a column of its own, such as emb_0, emb_1 ..."
        return self.error(some[:1], "one number, as a feature", counted=False, hint=hint)

    def codes(self, number: re.Pattern[str] = _WHOLE_FLOAT) -> Coded:
        """Codes 0.. of ids or names, int64 [n], and the distinct ones as text in ascending order.

        Whole numbers that a program has written as floats, as it does where a column lacks some, are whole numbers: in
        a file of whose column all are whole. `number` says how a whole number may be written, its group 1 what it is.
        """
        code, texts = self.distinct(number)
        order = np.argsort(texts, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank[code], texts[order]

    def distinct(self, number: re.Pattern[str] = _WHOLE_FLOAT) -> Coded:
        """Return what `codes` does, the distinct ones in any order, which takes no sorting."""
        values, whole = self.values, "text or whole numbers"
        if len(self.filled) < len(self):
            empty = np.flatnonzero(values.isna().to_numpy())
            raise InputError(
                f"{self.row(empty[0])}: {self.name!r} is empty ({len(empty)} such rows); a name is needed."
            )
        if pd.api.types.is_float_dtype(values.dtype):
            floats = values.to_numpy(dtype=np.float64)
            if len(broken := np.flatnonzero(~(np.abs(floats) < MOST) | (np.trunc(floats) != floats))):
                raise self.error(broken, whole, repr(float(floats[broken[0]])), counted=False)
            values = pd.Series(floats.astype(np.int64))
        if pd.api.types.is_complex_dtype(values.dtype):
            raise self.error([0], whole, repr(complex(values.iloc[0])), counted=False)
        code, names = _distinct(values)
        if not all(map(str.isascii, names)) and not all(map(_is_text, names)):
            raise self.error([not _is_text(names[each]) for each in code], "text that can be written", counted=False)
        if any(name != name.strip() for name in names):  # as texts are read without blanks around them
            again, unique = pd.factorize(np.array([name.strip() for name in names], dtype=object))
            code, names = again[code].astype(np.int64), unique.tolist()
        texts = np.array(names, dtype=str)
        return (code, texts) if pd.api.types.is_integer_dtype(values.dtype) else self._whole(code, texts, number)

    def _whole(self, codes: Indices, names: Array, number: re.Pattern[str]) -> Coded:
        """Return codes and names with whole numbers for floats, of each file of whose column all are whole."""
        if not len(other := np.flatnonzero((np.char.find(names, ".") > 0) | np.char.startswith(names, "+"))):
            return codes, names  # as a rule
        written = {int(place): found[1] for place in other if (found := number.fullmatch(names[place]))}
        if not written:
            return codes, names
        known = np.isin(np.arange(len(names)), list(written)) | np.array([bool(_WHOLE.fullmatch(n)) for n in names])
        file = np.searchsorted(np.cumsum([count for _, count in self.source]), self.places, side="right")
        fits = ~np.isin(file, file[~known[codes]])
        meant = names.astype(object)
        meant[list(written)] = list(written.values())
        text = np.where(fits, meant[codes], names.astype(object)[codes])
        codes, names = pd.factorize(text, sort=True)
        return codes.astype(np.int64), np.asarray(names).astype(str)

    def texts(self) -> NDArray[np.str_]:
        """Return ids as text, str [n]."""
        if not len(self):
            return np.zeros(0, np.str_)
        code, names = self.distinct()
        return names[code]

    def among(self, names: Array, must: str = "") -> Indices:
        """Return where the text of each cell stands among names, which are all different, int64 [n]; -1 for none.

        Raises `InputError` for none where it is said what each cell `must` be.
        """
        if not len(self):
            return np.zeros(0, np.int64)
        code, own = self.distinct()
        found: Indices = places_of(names, own)[code]
        if len(lost := np.flatnonzero(found < 0)):  # of a version "1.0" among "1.1" no other column makes "1"
            found[lost] = places_of(names, self.values.iloc[lost].astype(str).to_numpy(dtype=object))
        if must and (found < 0).any():
            raise self.error(found < 0, must)
        return found

    def check_classes(self, hint: str = "") -> None:
        """Raise `InputError` where classes are fractions, as numbers or as the text that a CSV file holds."""
        values = self.values.iloc[self.filled]
        parsed = as_numbers(values)
        if not (np.isfinite(parsed).all() or pd.api.types.is_float_dtype(values.dtype)):
            return
        if len(broken := np.flatnonzero(~np.isfinite(parsed) | (np.floor(parsed) != parsed))):
            got = repr(float(parsed[broken[0]]))
            raise self.error(self.filled[broken], "text or whole numbers", got, hint=hint)

    def numbers(self, hint: str = "") -> NDArray[np.float64]:
        """Return finite numbers, float64 [n]; `hint` ends the error where a cell is something else, but not empty."""
        if pd.api.types.is_bool_dtype(self.values.dtype):
            raise self.error([0], "a number", repr(bool(self.values.iloc[0])), counted=False)
        parsed = as_numbers(self.values)
        if len(bad := np.flatnonzero(~np.isfinite(parsed))):
            raise self.error(bad, "a finite number", hint="" if self._is_empty(bad[0]) else hint)
        return parsed

    def splits(self) -> NDArray[np.int8]:
        """Return the split of each row, int8 [n], as places in `SPLITS`."""
        code, names = self.codes()
        for number, name in enumerate(names.tolist()):
            if name not in SPLITS:
                require_one_of(f"{self.row(int((code == number).argmax()))}: {self.name!r}", name, SPLITS)
        return np.array([SPLITS.index(name) for name in names], np.int8)[code]

    def times(self, time_format: str = "") -> NDArray[np.float64]:
        """Return times as numbers, float64 [n]: whatever the column counts, or the seconds of dates since 1970."""
        times = times_of(self.values, time_format, lambda bad, must, hint: self.error(bad, must, hint=hint))
        if note := long_span(times):
            LOG.warning(f"{self.source[0][0]}: {self.name!r}: {note}.")
        return times


_READ: dict[str, Any] = {"id": Cells.codes, "number": Cells.numbers, "split": Cells.splits}
"""{kind: what is made of its cells}; of classes and features more must be known, see `labels` and `features`."""


@dataclass(frozen=True, eq=False)
class Rows(Located):
    """Rows of a table, as the one reader returns them: the columns of `frame` were read, those of `unread` not.

    `names` are the user's of the columns. `places` are int64 [n], which rows of the source they are, and `file` int64
    [n], of which file of a folder, and `files` their names without suffix; else none. `found` are notes on what
    was found out about files.
    """

    table: Table
    names: Names
    frame: pd.DataFrame
    source: Source
    places: Indices
    file: Indices
    files: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    found: tuple[str, ...] = ()

    @classmethod
    def of_frame(cls, frame: pd.DataFrame, where: str) -> "Rows":
        """Return a DataFrame whose columns have no roles; `where` is what errors call it."""
        every = np.arange(len(frame))
        return cls(Table(where, ()), {}, frame, [(where, len(frame))], every, np.zeros_like(every))

    def __len__(self) -> int:
        return len(self.frame)

    def __contains__(self, role: str) -> bool:
        return bool(self.names.get(role)) and self.names[role] in self.frame

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the columns that were read."""
        return map(str, self.frame)

    def __getitem__(self, role: str) -> Cells:
        """Return the cells of the column that has a role."""
        return self.column(self.names[role])

    def column(self, name: str) -> Cells:
        """Return the cells of a column by the user's name of it."""
        return Cells(self.frame[name], name, self.source, self.places)

    def read(self, role: str) -> Any:
        """Return what the column's kind makes of its cells; None where there is no such column."""
        if role not in self:
            return None
        if (kind := self.table.column(role).kind) == "time":
            return self[role].times(form_of(self.names, self.table.name).time_format)
        return _READ[kind](self[role])

    def clients(self) -> Coded | None:
        """Return the client of each row: of the column "client", or of a folder the file; None where neither says."""
        return (self.file, np.array(self.files)) if self.files else self.read("client")

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what was found out about files, and on columns that were not read; none where all were."""
        if not self.unread:
            return self.found
        return (*self.found, self.table.not_read(self.unread, self.names, [*self.frame]))

    def take(self, rows: Indices) -> "Rows":
        """Return some of the rows; each keeps its number in errors."""
        some = self.frame.iloc[rows].reset_index(drop=True)
        return replace(self, frame=some, places=self.places[rows], file=self.file[rows])

    def error(self, wrong: Array | Sequence[int], what: str, noun: str = "rows", end: str = ".") -> InputError:
        """Return the error "FILE, row 3: WHAT (2 such rows)." of the first wrong row.

        `wrong` says which rows are, bool [n] or whole numbers. `noun` are counted, "" = nothing is; `end` is such as a
        hint.
        """
        rows = _places(wrong)
        return InputError(f"{self.row(rows[0])}: {what}{f' ({len(rows)} such {noun})' if noun else ''}{end}")

    def check_once(self, keys: Indices, names: Array, what: str, of: str = "", noun: str = "rows") -> None:
        """Raise `InputError` where two rows have one key; keys modulo their number are the names of `what` they are."""
        if len(again := repeated(keys)):
            name = str(names[keys[again[0]] % len(names)])
            raise self.error(again, f"{what} {name!r}{of} is listed twice", noun)


MOST = 2.0**63
"""What whole numbers are below, positive or negative."""
_LIST = re.compile(r"[\[({]?\s*[-+.\d][-+.\deE]*([\s,;|]+[-+.\d][-+.\deE]*)+\s*[\])}]?")
"""Several numbers in one cell."""


def _hint(text: str) -> str:
    """What may be the matter with a text in place of a number."""
    if re.fullmatch(r"[+-]?\d+(,\d{3})+", text):
        return " data.decimal = ',' says that the comma is a decimal point; between thousands there must be none."
    if _LIST.fullmatch(text):
        return " Several numbers in one cell are no number: give each a column of its own."
    return ""


def _distinct(values: pd.Series) -> tuple[Indices, list[str]]:
    """(which of the distinct values each is, int64 [n]; these as text)."""
    if pd.api.types.is_integer_dtype(values.dtype):
        code, unique = pd.factorize(values.to_numpy(dtype=np.uint64 if "u" in str(values.dtype).lower() else np.int64))
        return code.astype(np.int64), list(map(str, unique.tolist()))
    if isinstance(values.dtype, pd.StringDtype) and values.dtype.storage == "pyarrow":
        texts = pa.array(values.array)
        whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        encoded = whole.dictionary_encode()
        return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
    code, unique = pd.factorize(np.array([str(value) for value in values], dtype=object))
    return code.astype(np.int64), unique.tolist()


def _is_text(name: str) -> bool:
    return not _HALVES.search(name)


_HALVES = re.compile("[\ud800-\udfff]")
"""Halves of characters, which are no text."""


def codes_of(values: Array, name: str, where: str) -> Coded:
    """Return the codes of an array of ids, as `Cells.codes` does; errors call it `name` of `where`."""
    return Cells(pd.Series(values), name, [(where, len(values))], np.arange(len(values))).codes()


def repeated(keys: Array) -> Indices:
    """Return the rows whose key a row before them has, ascending, int64 [n]."""
    return np.flatnonzero(pd.Index(keys).duplicated())


def places_of(names: Array, wanted: Array) -> Indices:
    """Return where each wanted name, in any shape, stands among names [n], all different, int64; -1 for none."""
    if names.dtype.kind == wanted.dtype.kind == "U":  # which pandas turns into objects twice
        place = {name: number for number, name in enumerate(names.tolist())}
        places = np.array([place.get(name, -1) for name in wanted.ravel().tolist()], np.int64)
    else:
        places = np.asarray(pd.Index(names).get_indexer(pd.Index(np.ravel(wanted))), np.int64)
    return places.reshape(np.shape(wanted))


def ascending(names: Array) -> Indices:
    """Return the order of distinct names, int64 [n]: whole numbers by their value, then others as text.

    So the order of some of them is that among all.
    """
    order = np.argsort(names, kind="stable")
    texts = names[order].astype(str)
    whole = np.char.isdecimal(texts) & (np.char.str_len(texts) <= _DIGITS)
    numbers = texts[whole].astype(np.int64)
    return np.concatenate([order[whole][np.argsort(numbers, kind="stable")], order[~whole]]).astype(np.int64)


def arranged(code: Indices, names: Array) -> tuple[Indices, Indices]:
    """Return the order of rows by their ids, and the place of each name in it, int64 [n] both; each has one row."""
    order = ascending(names)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return np.argsort(code)[order], place


def _places(wrong: Array | Sequence[int]) -> Indices:
    array = np.asarray(wrong)
    return np.flatnonzero(array) if array.dtype == bool else array
