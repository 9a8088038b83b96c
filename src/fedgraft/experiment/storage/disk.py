"""Files of a run's folder: written so that none is ever half there, and read so that damage is one clear error.

Nothing is ever written through a link, nor into a file that somebody else may hold: what replaces a file is a new one.
"""

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from fedgraft.errors import InputError, WireError
from fedgraft.wire.layouts import Arrays, digest

NEW: Final = ".new"
"""What the name of a file ends with that is to replace another."""
PRIVATE: Final = 0o600
"""Mode of a file for its owner alone."""
_FINGERPRINT_BYTES: Final = 16
_DIGEST: Final = "digest"
_LENGTH_BYTES: Final = 8  # of the number that a safetensors file begins with: its header's length
_BLOCK_BYTES: Final = 1 << 20
_WRITE: Final = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Tally:
    """Length and running hash of a file that grows, so that it need not be read again."""

    def __init__(self) -> None:
        self.size = 0
        self._hasher = hashlib.blake2b(digest_size=_FINGERPRINT_BYTES)

    @classmethod
    def of(cls, path: Path, size: int | None = None) -> Self:
        """Tally a file's first `size` bytes, or all that are there; none where there is no file.

        Raises `InputError` if it cannot be read.
        """
        tally = cls()
        if size == 0 or not path.exists():
            return tally
        try:
            with path.open("rb") as file:
                while block := file.read(_BLOCK_BYTES if size is None else min(_BLOCK_BYTES, size - tally.size)):
                    tally.add(block)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
        return tally

    def add(self, content: bytes) -> None:
        """Add appended bytes to the tally."""
        self.size += len(content)
        self._hasher.update(content)

    def check(self, path: Path, counted: Mapping[str, Any]) -> None:
        """Raise `InputError` unless the file at `path`, of which this is, has the "bytes" and the "hash" counted."""
        if self.size != counted["bytes"]:
            raise InputError(f"{path} is damaged: it has {self.size} bytes, the checkpoint counts {counted['bytes']}.")
        if self.hash != counted["hash"]:
            raise InputError(f"{path} is damaged: its first {self.size} bytes are not those that were written.")

    @property
    def hash(self) -> str:
        """str, the hexadecimal hash of all bytes so far."""
        return self._hasher.hexdigest()


def fingerprint(content: bytes | memoryview) -> bytes:
    """Sixteen bytes that change with any bit of the content."""
    return hashlib.blake2b(content, digest_size=_FINGERPRINT_BYTES).digest()


def encrypted(content: bytes) -> bytes:
    """The content behind its own fingerprint."""
    return fingerprint(content) + content


def unsealed(content: bytes) -> memoryview:
    """Return what `encrypted` was given. Raises `WireError` for anything that it has not made."""
    body = memoryview(content)[_FINGERPRINT_BYTES:]
    if fingerprint(body) != content[:_FINGERPRINT_BYTES]:
        raise WireError("its content is not what was written")
    return body


# --- writing ----------------------------------------------------------------------------------------------------------


@contextmanager
def written(what: object) -> Iterator[None]:
    """Make what the system says of something that cannot be written an `InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{what} cannot be written: {error.strerror or error}.") from error


def swap(path: Path, text: str) -> None:
    """Put a text file in place of another, in one stroke; two processes may do it at a time."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}{NEW}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def write(path: Path, content: bytes, mode: int = 0o666) -> None:
    """A file that is not referred to yet, forced to disk; one of that name is taken away, never written into."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, _WRITE | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace(folder: Path, contents: Mapping[str, bytes], mode: int = 0o666) -> None:
    """Write all beside, force them to disk, rename in order: a file is the old or the new one, never half of either.

    Args:
        folder: of the files.
        contents: {name: content}.
        mode: who may do what with them, less the umask; `PRIVATE` is the owner alone.
    """
    temporary = {name: folder / (name + NEW) for name in contents}
    try:
        for name, content in contents.items():
            write(temporary[name], content, mode)
        for name, path in temporary.items():
            path.replace(folder / name)
    except OSError:
        for path in temporary.values():
            remove(path)
        raise
    sync(folder)


def keep_as(path: Path, other: Path) -> None:
    """Give a file a second name, in place of what has it; a copy where the file system knows no second names."""
    temporary = other.with_name(other.name + NEW)
    remove(temporary)
    try:
        try:
            os.link(path, temporary)
        except OSError:
            write(temporary, path.read_bytes())
        temporary.replace(other)
    except OSError:
        remove(temporary)
        raise


def append(path: Path, content: bytes) -> None:
    """Add to a file's end."""
    with os.fdopen(os.open(path, _WRITE | os.O_APPEND, 0o666), "ab") as file:
        file.write(content)


def cut(path: Path, size: int) -> None:
    """Shorten a file to so many bytes."""
    handle = os.open(path, _WRITE & ~os.O_CREAT)
    try:
        os.ftruncate(handle, size)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Take a file away where it is there and can be; a folder of that name stays."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return


def sync(path: Path) -> None:
    """Force a file or a folder's entries to disk, where there is one."""
    if not path.exists():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- reading ----------------------------------------------------------------------------------------------------------


def kind(path: Path) -> str:
    """Return the kind of a path: "" for nothing, "file", "folder", "link", "second name" of a file, or "device"."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if stat.S_ISLNK(status.st_mode):
        return "link"
    if stat.S_ISDIR(status.st_mode):
        return "folder"
    if not stat.S_ISREG(status.st_mode):
        return "device"
    return "file" if status.st_nlink == 1 else "second name"


def json_table(content: Mapping[str, Any]) -> bytes:
    """A JSON object as `read_table` reads it, one part a line."""
    return (json.dumps(dict(content), indent=2, allow_nan=False) + "\n").encode()


def json_line(row: Mapping[str, Any]) -> bytes:
    """A JSON object as `read_lines` reads it; JSON has no nan and no infinity: null."""
    known = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
    return (json.dumps(known, allow_nan=False) + "\n").encode()


def read_bytes(path: Path) -> bytes:
    """A file's content. Raises `InputError` if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


def read_text(path: Path) -> str:
    """A text file's content. Raises `InputError` if it cannot be read or is not UTF-8."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is damaged: it is not UTF-8 text ({error.reason} at byte {error.start}).") from error


def read_table(path: Path) -> dict[str, Any]:
    """A JSON object. Raises `InputError` for a file that is none."""
    return _parsed(read_text(path), str(path))


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines; a last line cut short by a kill is left out.

    Raises `InputError` for a line that is none.
    """
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield _row(line, f"{path}, line {number}")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


def _row(line: bytes, where: str) -> dict[str, Any]:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is damaged: it is not UTF-8 text.") from error
    return _parsed(text, where)


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is damaged: {error}.") from error
    if not isinstance(content, dict):
        raise InputError(f"{where} is damaged: it holds no table.")
    return content


# --- models -----------------------------------------------------------------------------------------------------------


def model_bytes(model: Arrays) -> bytes:
    """A model as safetensors, with its digest, which others need not know of."""
    return save_tensors(dict(model), {_DIGEST: digest(model)})


def read_model(path: Path) -> Arrays:
    """Return the arrays that `model_bytes` was given.

    Raises `InputError` if it is missing or damaged.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing.")
    content = read_bytes(path)
    try:
        length = int.from_bytes(content[:_LENGTH_BYTES], "little")
        arrays: Arrays = load_tensors(content)  # which finds that the header is one
        header = json.loads(content[_LENGTH_BYTES : _LENGTH_BYTES + length])
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged: {error}.") from error
    if (header.get("__metadata__") or {}).get(_DIGEST) != digest(arrays):
        raise InputError(f"{path} is damaged: its arrays are not those that were written.")
    return arrays
