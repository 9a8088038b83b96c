"""An actor that serves clients, as a worker process does."""

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import ray
from numpy.typing import NDArray

from fedgraft.engine.client.client import Given
from fedgraft.errors import memory_shortage
from fedgraft.runtimes.workers.shared_memory import Blob, view_of
from fedgraft.runtimes.workers.worker import Answer, Serving

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


Stored: TypeAlias = "ObjectBytes | Sequence[ray.ObjectRef[ObjectBytes]]"
"""Pickled shards: all of them, or a reference to each."""


class Actor:
    """A worker that is an actor; it does one thing at a time."""

    def begin(self, paths: Sequence[str], plan: Blob, shards: Stored, threads: int, outside: bytes) -> int:
        """Get ready, and return the process's id; a lack of memory is told in words instead.

        Args:
            paths: where the driver finds modules: a task of the user's own may be there, where machines share folders.
            plan: what both ends agreed on, pickled.
            shards: every client's own shard.
            threads: torch threads.
            outside: how kinds of messages from outside are answered, pickled: to read it imports their modules.
        """
        sys.path.extend(path for path in paths if path not in sys.path)
        pickle.loads(outside)
        self._serving = Serving(pickle.loads(view_of(plan)), _shards(shards), threads, shared, lasting)
        return os.getpid()

    @ray.method(num_returns=2)
    def serve(
        self, client: int, request: Blob, memory: Blob | None, model: Blob | None, set_up: Blob
    ) -> tuple[Answer | str, Blob | None]:
        """Answer a request; arguments as `Serving.answer`.

        Returns:
            The answer but for the memory, and that: an object of its own, which lives longer. Where memory ran out,
            what was lacked, in words; whatever is left of this process is not to be relied on then.
        """
        try:
            answer = self._serving.answer(client, request, memory, model, set_up)
        except Exception as error:
            if lacked := memory_shortage(error):
                return lacked, None
            raise
        return answer._replace(memory=None), answer.memory

    def ping(self) -> None:
        """Be there."""


class _Apart(Mapping[int, Any]):
    """Shards of which each is fetched when it is asked for: no node needs to have all."""

    def __init__(self, references: "Sequence[ray.ObjectRef[ObjectBytes]]") -> None:
        self._references = references

    def __getitem__(self, client: int) -> Any:
        return pickle.loads(ray.get(self._references[client]).view)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._references)))

    def __len__(self) -> int:
        return len(self._references)


def _shards(stored: Stored) -> Given:
    if isinstance(stored, ObjectBytes):
        return pickle.loads(stored.view)  # type: ignore[no-any-return]
    return _Apart(stored)
