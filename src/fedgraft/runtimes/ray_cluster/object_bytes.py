"""Large bytes as they go through Ray's object store: copied into it once, and read where they are by a whole node."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.runtimes.workers.shared_memory import Blob

LEAST: Final = 100_000
"""Bytes from which on they go through the object store; fewer travel with the call, which is faster."""
_ALIGNED: Final = 64
"""What begins behind the first part does so at a multiple of this, so that arrays are read where they are."""


class ObjectBytes:
    """Bytes that the object store holds, or may hold; nobody changes them.

    Args:
        array: uint8, whose memory they are; Ray copies none of it where it is read.
        start: where they begin in it.

    Attributes:
        view: the bytes.
        reference: to the object where it is in the store already; None else.
    """

    def __init__(self, array: NDArray[np.uint8], start: int = 0) -> None:
        self._array, self._start = array, start
        self.view = array.data[start:].toreadonly()
        self.reference: Any = None

    def __reduce__(self) -> tuple[Callable[..., "ObjectBytes"], tuple[NDArray[np.uint8], int]]:
        return ObjectBytes, (self._array, self._start)

    @classmethod
    def of(cls, content: bytes) -> "ObjectBytes":
        """The bytes of an object of Python's, which are not copied."""
        return cls(np.frombuffer(content, np.uint8))


def shared(parts: list[bytes | memoryview]) -> Blob:
    """All parts, one behind the other: as an object where they are many."""
    views = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
    size = sum(map(len, views))
    if size < LEAST:
        return parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else b"".join(parts)
    if len(parts) == 1 and isinstance(parts[0], bytes):
        return ObjectBytes.of(parts[0])
    start = -len(views[0]) % _ALIGNED
    array, at = np.empty(start + size, np.uint8), start
    array[:start] = 0
    for view in views:
        array[at : at + len(view)] = np.frombuffer(view, np.uint8)
        at += len(view)
    return ObjectBytes(array, start)


def lasting(blob: object) -> bool:
    """Return whether both ends keep what was sent: an object; what is smaller is sent every time."""
    return isinstance(blob, ObjectBytes)
