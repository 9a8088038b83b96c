"""Large bytes between two processes of one machine: written once, into memory that both have from then on.

A pipe copies what goes through it twice and in small pieces, and then each end has it to itself. What a client
remembers may be most of what a run has in memory, and goes to its worker and back in every round.
"""

import mmap
import os
from collections.abc import Iterable
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, Final, NamedTuple, TypeAlias

LEAST: Final = 1 << 20
"""Bytes from which on they travel so; fewer go through the pipe, which is as fast and takes no open file."""
_ALIGNED: Final = 64
"""What begins behind the first part does so at a multiple of this, so that arrays are read where they are."""
_FILES: Final = 1 << 16
"""Open files wanted; every parcel takes one while it lives."""


class Parcel:
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
    def of(cls, parts: Iterable[bytes | memoryview], start: int | None = None) -> "Parcel":
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

    def to_send(self) -> "Parcel":
        """Itself the first time, which costs no copy; then a copy."""
        return self if self.file >= 0 else Parcel.of([self.view], self.start)

    def close(self) -> None:
        """Let the file go; the bytes stay."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def __del__(self) -> None:
        self.close()


class _Announced(NamedTuple):
    """A parcel that follows."""

    start: int
    size: int


Blob: TypeAlias = bytes | Parcel
"""Bytes, of this process or of several."""


def lent(parts: list[bytes | memoryview]) -> Blob:
    """All parts, one behind the other: in a parcel where they are many and there is such a thing."""
    if sum(memoryview(part).nbytes for part in parts) >= LEAST and hasattr(os, "memfd_create"):
        try:
            return Parcel.of(parts)
        except OSError:  # no more files, or no more memory of this kind
            pass
    return parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else b"".join(parts)


def bytes_of(blob: Blob) -> bytes:
    """A copy of a parcel's."""
    return blob if isinstance(blob, bytes) else bytes(blob.view)


def view_of(blob: Blob) -> bytes | memoryview:
    """The bytes where they are."""
    return blob if isinstance(blob, bytes) else blob.view


def keep(parcels: dict[int, Parcel], client: int, memory: object) -> None:
    """Note what both ends have of a client and need not send again: a parcel; what is smaller is sent every time."""
    if isinstance(memory, Parcel):
        parcels[client] = memory
    else:
        parcels.pop(client, None)


def post(pipe: Connection, *values: Any) -> None:
    """Send some values, parcels among them."""
    values = tuple(value.to_send() if isinstance(value, Parcel) else value for value in values)
    pipe.send(tuple(_Announced(v.start, len(v.view)) if isinstance(v, Parcel) else v for v in values))
    for value in values:
        if isinstance(value, Parcel):
            send_handle(pipe, value.file, None)  # to whom matters on Windows alone
            value.close()


def take(pipe: Connection) -> tuple[Any, ...]:
    """What `post` was given. Raises `EOFError` or `OSError` where the other end is gone."""
    return tuple(_received(pipe, value) if isinstance(value, _Announced) else value for value in pipe.recv())


def _received(pipe: Connection, announced: _Announced) -> Parcel:
    try:
        file = recv_handle(pipe)
    except RuntimeError as error:  # less than a file came
        raise EOFError("a parcel did not follow") from error
    try:
        parcel = Parcel(file, *announced)
    except BaseException:
        os.close(file)
        raise
    parcel.close()
    return parcel


def want_files() -> None:
    """Raise this process's own limit of open files as far as the system lets it, where there are parcels."""
    if not hasattr(os, "memfd_create"):
        return
    import resource  # there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
