"""An actor that serves clients, as a worker process does."""

import os
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import ray

from fedgraft.engine.client.client import Given
from fedgraft.errors import memory_shortage
from fedgraft.runtimes.ray_cluster.object_bytes import ObjectBytes, lasting, shared
from fedgraft.runtimes.workers.shared_memory import Blob, view_of
from fedgraft.runtimes.workers.worker import Answer, Serving

Stored: TypeAlias = "ObjectBytes | Sequence[ray.ObjectRef[ObjectBytes]]"
"""Pickled shards: all of them, or a reference to each."""


class Actor:
    """A worker that is an actor; it does one thing at a time."""

    def begin(self, paths: Sequence[str], plan: Blob, shards: Stored, threads: int) -> int:
        """Get ready, and return the process's id; a lack of memory is told in words instead.

        Args:
            paths: where the driver finds modules: a task of the user's own may be there, where machines share folders.
            plan: what both ends agreed on, pickled.
            shards: every client's own shard.
            threads: torch threads.
        """
        sys.path.extend(path for path in paths if path not in sys.path)
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
