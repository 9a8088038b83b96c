"""How a table is written as text: what a user says of it, and what is found out where nothing is said."""

import codecs
import csv
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from fedgraft.errors import InputError, nearest, require

SEPARATORS: Final = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars", "::": "double colons", " ": "blanks"}
"""Those that are found out, and what people call them."""
WORDS: Final = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "bar": "|", "space": " ", "blank": " "}
"""Words that an option may say in place of a separator."""
NUMBER: Final = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
DECIMAL_COMMA: Final = r"[+-]?\d*(?:,\d+)?"
"""A number with a decimal comma, or a whole one."""

_NUMBER = re.compile(NUMBER, re.ASCII)
_DECIMAL_COMMA = re.compile(DECIMAL_COMMA, re.ASCII)
_RECBOLE = re.compile(r"(.+):(?:token|float|token_seq|float_seq)")
"""A name in a header of RecBole's, such as user_id:token."""
_COMMENT = ("#", "%")
"""What lines before the header begin with in lists of edges."""


@dataclass(frozen=True)
class TextForm:
    """What is said of how a table is written; "" or None = it is found out.

    Args:
        separator: of fields.
        encoding: such as "cp1252".
        decimal: point or comma.
        header: whether the first row names the columns.
        columns: their names where it does not; none = "0", "1" ...
        time_format: of a column of times, as `strptime` has it.
    """

    separator: str = ""
    encoding: str = ""
    decimal: str = ""
    header: bool | None = None
    columns: tuple[str, ...] = ()
    time_format: str = ""


FOUND_OUT: Final = TextForm()
"""Nothing is said."""


@dataclass(frozen=True)
class Dialect:
    """How a text is written.

    Args:
        separator: of fields; " " = any number of blanks.
        has_header: whether the first row that is no comment names the columns.
        names: of columns, those of the header without blanks around them.
        comments: lines before the header.
        notes: on what was found out and is not usual.
        rows: fields of the first rows.
    """

    separator: str
    has_header: bool
    names: tuple[str, ...]
    comments: int
    notes: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def check_separator(parameter: str, separator: str) -> None:
    """Raise `InputError` for what can be no separator; `parameter` names it."""
    said = WORDS.get(separator, separator)
    sound = said == "::" or (len(said) == 1 and not said.isalnum() and said not in "\"'\r\n.+-")
    require(sound, parameter, f"one character, such as ';', '::' or one of {', '.join(WORDS)}", separator)


def check_encoding(parameter: str, encoding: str) -> None:
    """Raise `InputError` for an encoding that Python does not know; `parameter` names it."""
    try:
        known = codecs.lookup(encoding)._is_text_encoding
    except (LookupError, ValueError):
        known = False
    if not known:
        usual = ("utf-8", "utf-16", "cp1252", "latin-1", "cp1250", "gb18030", "shift_jis")
        raise InputError(
            f"{parameter} must be an encoding that Python knows, such as {', '.join(usual)}; got {encoding!r}."
            f"{nearest(encoding, usual)}"
        )


def check_names(names: Sequence[str], where: str) -> None:
    """Raise `InputError` where two columns have one name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{where}: {list(names).count(name)} columns are named {name!r}; one is needed.")
        seen.add(name)


def decoded(data: bytes, said: str, where: str, is_whole: bool = True) -> tuple[bytes, str]:
    """Return the text in UTF-8, and a note on its encoding or ""; `said` is the encoding, "" = found out.

    What is not the whole of a text may end within a character.

    It is that of a byte order mark; else UTF-8; else, where every second byte is 0, UTF-16; else cp1252, which is also
    how Latin-1 is read. Raises `InputError` for what is no text in that encoding.
    """
    encoding = said or _marked(data) or "utf-8"
    if codecs.lookup(encoding).name == "utf-8":
        data = data.removeprefix(codecs.BOM_UTF8)
        if data.isascii() or _is_utf8(data, is_whole):
            if b"\0" not in data:
                return data, ""
            raise InputError(f"{where}: there are zero bytes in it, as in no text; another kind of file, perhaps.")
        encoding = said or "cp1252"
    try:
        text = data.decode(encoding, "strict" if is_whole else "ignore")
    except (UnicodeError, ValueError) as error:
        what = f"text in {encoding}" if said or encoding != "cp1252" else "text in UTF-8, UTF-16 or cp1252"
        raise InputError(f"{where} is no {what} ({error}); data.encoding says another.") from error
    if "\0" in text:
        raise InputError(f"{where}: there are zero bytes in it, as in no text; another kind of file, perhaps.")
    return text.removeprefix("\ufeff").encode(), "" if said else f"encoding {encoding}"


def _marked(data: bytes) -> str:
    """The encoding that a byte order mark, or zeros at every second place, say; "" for none."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = data[:4096]
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = head[first::2].count(0), head[1 - first :: 2].count(0)
        if zeros > 0.7 * len(head[first::2]) and not others:
            return name
    return ""


def _is_utf8(data: bytes, is_whole: bool) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return not is_whole and error.reason == "unexpected end of data"
    return True


def found(lines: Sequence[str], form: TextForm, known: Collection[str], where: str, suffix: str) -> Dialect:
    """Return how a text is written of which these are the first lines; `where` names it in errors.

    `known` are names of columns that its table may have: a first row with one of them is a header.
    """
    comments = _comments(lines)
    head, lines = list(lines[:comments]), [line for line in lines[comments:] if line.strip()]
    separator = form.separator or _separator(lines, suffix, where)
    in_comment = head[-1].lstrip("#% ") if head else ""
    if lines and 1 < len(*(fields([in_comment], separator) or [[]])) == len(fields(lines[:1], separator)[0]):
        lines, comments = [in_comment, *lines], comments - 1  # the names stand in the last comment
    rows = [tuple(field.strip() for field in row) for row in fields(lines, separator)]
    first = rows[0] if rows else ()
    has_header = form.header if form.header is not None else _is_header(first, form, known)
    notes = []
    if separator != "," and not form.separator:
        notes.append(f"fields are separated by {SEPARATORS[separator]}")
    if comments:
        notes.append(f"{comments} lines of comments at its head are left out")
    names = first if has_header else form.columns or tuple(map(str, range(len(first))))
    if not has_header and form.header is None:
        notes.append("the first row holds values, no names of columns")
    if has_header and first and all(map(_RECBOLE.fullmatch, first)):
        names = tuple(name.rpartition(":")[0] for name in first)
        notes.append("types behind the names of columns are left out")
    if not has_header and first and len(names) != len(first):
        raise InputError(
            f"{where}: data.columns names {len(names)} columns, but the first row has {len(first)} fields."
        )
    return Dialect(separator, has_header, names, comments, tuple(notes), tuple(rows))


def fields(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Return the fields of some lines, or rows, where fields in quotes have line breaks."""
    if separator == "::":
        return [line.rstrip("\r\n").split("::") for line in lines]
    if separator == " ":
        return [line.split() for line in lines]
    try:
        return [row for row in csv.reader(lines, delimiter=separator, skipinitialspace=True) if row]
    except csv.Error:  # such as a field that is longer than the sample
        return [line.rstrip("\r\n").split(separator) for line in lines]


def _comments(lines: Sequence[str]) -> int:
    count = 0
    while count < len(lines) and lines[count].startswith(_COMMENT):
        count += 1
    return count if count < len(lines) else 0


def _separator(lines: Sequence[str], suffix: str, where: str) -> str:
    """The separator by which all lines have the same number of fields, more than one; "," where there is none."""
    by = {each: fields(lines, each) for each in SEPARATORS}
    alike = [each for each, rows in by.items() if rows and len(rows[0]) > 1 and len({*map(len, rows)}) == 1]
    tight = [each for each in alike if each != " "]
    if len(tight) > 1:
        clean = [each for each in tight if not _holds_another(by[each], [other for other in tight if other != each])]
        if len(clean) != 1:
            first, second = (SEPARATORS[each] for each in tight[:2])
            raise InputError(f"{where}: fields may be separated by {first} or by {second}; data.separator says which.")
        return clean[0]
    if tight:
        return tight[0]
    wide = [each for each in SEPARATORS if each != " " and by[each] and len(by[each][0]) > 1]
    if not wide and " " in alike:
        rows = by[" "]
        numeric = all(_NUMBER.fullmatch(field) for row in rows[1:] for field in row)
        if suffix != ".csv" or (numeric and len(rows) > 1):
            return " "
    return wide[0] if wide else "\t" if suffix in (".tsv", ".tab") else ","


def _holds_another(rows: Sequence[Sequence[str]], others: Sequence[str]) -> bool:
    """Whether a field holds another separator that could be meant, but for decimal commas."""
    return any(
        other in field and not (other == "," and _DECIMAL_COMMA.fullmatch(field.strip()))
        for row in rows
        for field in row
        for other in others
    )


def _is_header(first: Sequence[str], form: TextForm, known: Collection[str]) -> bool:
    """Whether a first row names columns: it has a name that is known, or no number in place of one.

    Numbers that count from 0 are names, as pandas writes them.
    """
    if form.columns:
        return tuple(first) == form.columns
    if any(field in known for field in first) or list(first) == [str(place) for place in range(len(first))]:
        return True
    numbers = [bool(_NUMBER.fullmatch(field.replace(",", "."))) for field in first if field]
    return not (numbers and (all(numbers) or (bool(known) and any(numbers))))
