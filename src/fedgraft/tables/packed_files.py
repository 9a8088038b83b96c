"""Kinds of files of tables by their suffixes, and what is in them where they are compressed."""

import bz2
import gzip
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa

from fedgraft.errors import InputError

TEXTS: Final = (".csv", ".tsv", ".txt", ".tab", ".dat", ".data", ".edges", ".inter", ".user", ".item")
RECORDS: Final = (".jsonl", ".ndjson", ".json")
COLUMNS: Final = (".parquet", ".arrow", ".feather", ".orc")
PACKED: Final = (".gz", ".bz2", ".xz", ".zst", ".zip")
SUFFIXES: Final = (
    ".csv",
    ".parquet",
    *(each for each in (*TEXTS, *COLUMNS, *RECORDS) if each not in (".csv", ".parquet")),
)
"""Of files of tables."""
ALLOWED: Final = f".csv or .parquet (or {', '.join(SUFFIXES[2:])}; texts also with {', '.join(PACKED)} behind it)"
"""What errors say that a file may end in."""
LOOSE: Final = (".txt", ".dat", ".data", ".json", ".user", ".item", ".zip")
"""Suffixes of files that need not be tables where they lie beside others."""


def packing(path: Path) -> str:
    """Return the suffix that says how a file is compressed; "" for none."""
    suffix = path.suffix.lower()
    return suffix if suffix in PACKED else ""


def suffix_of(path: Path) -> str:
    """Return the suffix that says what a table's file is, such as ".csv" of r.csv.gz; "" for no table's.

    That of a .zip without another suffix is the suffix of the file in it.
    """
    packed = packing(path)
    suffix = (path.with_suffix("") if packed else path).suffix.lower()
    if packed == ".zip" and suffix not in SUFFIXES and path.is_file():
        suffix = Path(_member(path)).suffix.lower()
    known = (*TEXTS, *RECORDS) if packed else SUFFIXES
    return suffix if suffix in known else ""


def stem_of(path: Path) -> str:
    """Return the name of a table's file without its suffixes."""
    name = path.with_suffix("") if packing(path) else path
    return name.stem if name.suffix.lower() in SUFFIXES else name.name


def content(path: Path, least: int | None = None, lines: int = 0) -> bytes:
    """Return what is in a file, decompressed, or at least so many of its first bytes and lines.

    Raises `OSError` where it is damaged.
    """
    try:
        with _opened(path) as file:
            if least is None:
                return file.read()
            head = file.read(least)
            while head.count(b"\n") < lines and (more := file.read(len(head))):
                head += more
            return head
    except (
        EOFError,
        lzma.LZMAError,
        zipfile.BadZipFile,
        RuntimeError,
        NotImplementedError,
        pa.ArrowException,
    ) as error:
        raise OSError(f"damaged, or not packed as its suffix says: {error}") from error


def _opened(path: Path) -> BinaryIO:
    packed = packing(path)
    if packed == ".zip":
        return cast(BinaryIO, zipfile.ZipFile(path).open(_member(path)))
    if packed == ".zst":
        return cast(BinaryIO, pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return cast(BinaryIO, openers.get(packed, open)(path, "rb"))


def _member(path: Path) -> str:
    """The name of the one file that is in a .zip."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} cannot be read as zip ({error}).") from error
    if len(names) != 1:
        raise InputError(f"{path} holds {len(names)} files; one table is needed: unpack it, and name the file.")
    return names[0]
