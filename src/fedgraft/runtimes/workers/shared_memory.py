"""Large bytes between two processes of one machine: written once, into memory that both have from then on.

A pipe copies what goes through it twice and in small pieces, and then each end has it to itself. What a client
remembers may be most of what a run has in memory, and goes to its worker and back in every round.
"""

import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

LEAST: Final = 1 << 20
"""Bytes from which on they travel so; fewer go through the pipe, which is as fast and takes no open file."""
_ALIGNED: Final = 64
"""What begins behind the first part does so at a multiple of this, so that arrays are read where they are."""
_FILES: Final = 1 << 16
"""Open files wanted; every block takes one while it lives."""


class Block(Protocol):
    """Bytes that are elsewhere than in an object of Python's; nobody changes them."""

    view: memoryview


class SharedBlock:
    """Bytes that other processes may have too; nobody changes them.

    Args:
        file: whose memory they are; it is closed once another process has them.
        start: where they begin in it.
        size: how many.

    Attributes:
        view: the bytes.
    """

    file = -1

    def __init__(self, file: int, start: int, size: int) -> None:
        self.view = memoryview(mmap.mmap(file, start + size, prot=mmap.PROT_READ))[start:]
        self.file, self.start = file, start  # from here on it is this object's to close

    @classmethod
    def of(cls, parts: Iterable[bytes | memoryview], start: int | None = None) -> "SharedBlock":
        """All parts, one behind the other. Raises `OSError` where there is no such memory, or no more of it."""
        views = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
        if start is None:
            start = -len(views[0]) % _ALIGNED
        file = os.memfd_create("fedgraft")
        try:
            for view in (memoryview(bytes(start)), *views):
                while len(view):
                    view = view[os.write(file, view) :]
            return cls(file, start, sum(map(len, views)))
        except BaseException:
            os.close(file)
            raise

    def to_send(self) -> "SharedBlock":
        """Itself the first time, which costs no copy; then a copy. Raises `MemoryError` where there is no room."""
        if self.file >= 0:
            return self
        with _own():
            return SharedBlock.of([self.view], self.start)

    def close(self) -> None:
        """Let the file go; the bytes stay."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def __del__(self) -> None:
        self.close()


class _Announced(NamedTuple):
    """The announcement of a block of shared memory that follows."""

    start: int
    size: int


Blob: TypeAlias = bytes | Block
"""Bytes, of this process or of several."""


def shared(parts: list[bytes | memoryview]) -> Blob:
    """All parts, one behind the other: in a block where they are many and there is such a thing."""
    if sum(memoryview(part).nbytes for part in parts) >= LEAST and hasattr(os, "memfd_create"):
        try:
            return SharedBlock.of(parts)
        except OSError:  # no more files, or no more memory of this kind
            pass
    return parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else b"".join(parts)


def bytes_of(blob: Blob) -> bytes:
    """A copy of a block's."""
    return blob if isinstance(blob, bytes) else bytes(blob.view)


def view_of(blob: Blob) -> bytes | memoryview:
    """The bytes where they are."""
    return blob if isinstance(blob, bytes) else blob.view


def lasting(blob: object) -> bool:
    """Return whether both ends keep what was sent: a block; what is smaller is sent every time."""
    return isinstance(blob, SharedBlock)


def send(pipe: Connection, *values: Any) -> None:
    """Send some values, blocks among them. Raises `OSError` where the other end is gone."""
    values = tuple(value.to_send() if isinstance(value, SharedBlock) else value for value in values)
    pipe.send(tuple(_Announced(v.start, len(v.view)) if isinstance(v, SharedBlock) else v for v in values))
    for value in values:
        if isinstance(value, SharedBlock):
            send_handle(pipe, value.file, None)  # to whom matters on Windows alone
            value.close()


def receive(pipe: Connection) -> tuple[Any, ...]:
    """Return what `send` was given. Raises `EOFError` or `OSError` where the other end is gone."""
    return tuple(_received(pipe, value) if isinstance(value, _Announced) else value for value in pipe.recv())


def _received(pipe: Connection, announced: _Announced) -> SharedBlock:
    try:
        file = recv_handle(pipe)
    except RuntimeError as error:  # less than a file came
        raise EOFError("a block did not follow") from error
    try:
        with _own():
            block = SharedBlock(file, *announced)
    except BaseException:
        os.close(file)
        raise
    block.close()
    return block


@contextmanager
def _own() -> Iterator[None]:
    """Tell what this process lacks, room or files, from another end that is gone: both are errors of the system."""
    try:
        yield
    except OSError as error:
        raise MemoryError(f"no room for a message of another process: {error.strerror or error}") from error


def want_files() -> None:
    """Raise this process's own limit of open files as far as the system lets it, where there are blocks."""
    if not hasattr(os, "memfd_create"):
        return
    import resource  # there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
