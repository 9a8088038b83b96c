"""In-process runtime: all clients on this machine, in worker processes or in this very process.

A request is served by whichever worker is free, preferably one that has the client's data prepared already. The result
does not depend on which: a client's reply is a function of its shard, the request and its memory.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, cast

import torch

from fedgraft.contracts import ClientFailed
from fedgraft.contracts.data import Shards
from fedgraft.engine.allocator import keep_freed
from fedgraft.engine.client.client import Client, Given, most_prepared
from fedgraft.engine.client.client_memory import Kept, Memory
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.table import OUTSIDE
from fedgraft.errors import FedgraftError, MachineError, memory_shortage, require
from fedgraft.runtimes.workers.channel import Channel, Channels
from fedgraft.runtimes.workers.pool import Answered, Pool
from fedgraft.runtimes.workers.remembering import Remembering
from fedgraft.runtimes.workers.shared_memory import Blob, lasting, receive, send, shared, want_files
from fedgraft.runtimes.workers.starting import OUT_OF_MEMORY, UNKNOWN, ending, not_started, start, unreadable
from fedgraft.runtimes.workers.worker import work

_ENDED_SECONDS = 5.0
"""How long the system may take to tell how a process ended."""


class ProcessChannel(Channel):
    """A worker process, and the pipe to it."""

    def __init__(self, process: BaseProcess, pipe: Connection) -> None:
        self.process, self.pipe = process, pipe

    def send(self, *values: Any) -> None:
        """Send some values, blocks among them."""
        send(self.pipe, *values)

    def receive(self) -> tuple[Any, ...]:
        """Return what it sent."""
        return receive(self.pipe)

    def poll(self) -> bool:
        """Return whether it has sent something or is gone."""
        return self.pipe.poll()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        """Close the pipe, by which it ends."""
        self.pipe.close()

    def join(self, seconds: float) -> None:
        """Wait until it has ended; kill it where it takes longer."""
        self.process.join(timeout=seconds)
        if self.process.is_alive():
            self.kill()

    def ending(self, lacked: str) -> str:
        """Return how it ended."""
        self.process.join(timeout=_ENDED_SECONDS)
        return ending(self.process, lacked)

    @property
    def unreadable(self) -> bool:
        """True where it ended by itself, for another reason than too little memory."""
        code = self.process.exitcode
        return code is not None and code > 0 and code not in (OUT_OF_MEMORY, UNKNOWN)


class ProcessChannels(Channels):
    """Starts worker processes of this machine."""

    option = "runtime.workers"

    def __init__(self, plan: Plan, shards: Given, threads: int) -> None:
        self._arguments = (plan, shards, threads, dict(OUTSIDE))
        want_files()

    def open(self, again: bool) -> ProcessChannel:
        """Start a process."""
        return ProcessChannel(*start(work, self._arguments))

    def wait(self, channels: Sequence[Channel], timeout_seconds: float | None) -> Collection[Channel]:
        """Return those with something to receive."""
        pipes = {channel.pipe: channel for channel in channels if isinstance(channel, ProcessChannel)}
        return [pipes[pipe] for pipe in wait(list(pipes), timeout_seconds) if isinstance(pipe, Connection)]

    def shared(self, parts: list[bytes | memoryview]) -> Blob:
        """Return all parts, one behind the other, in memory that processes share where they are many."""
        return shared(parts)

    def lasting(self, blob: object) -> bool:
        """Return whether the bytes are in memory that both ends have; what is smaller is sent every time."""
        return lasting(blob)

    def not_started(self, why: str) -> FedgraftError:
        """Return the error for a process that does not start."""
        return not_started(why)

    def unreadable(self, why: str) -> FedgraftError:
        """Return the error for processes that cannot read what they are sent."""
        return unreadable(why)


class InProcess(Remembering):
    """All clients on this machine; what this machine fails to do is `MachineError`, and no client's failure.

    Args:
        plan: what both ends agreed on.
        shards: every client's own shard, by client index; those that can be made are made where they are used.
        workers: worker processes; 0 serves in the calling process (no deadlines, for debuggers and notebooks);
            -1 = one per core.
        threads: torch threads per worker, or of this process until `close` if it serves itself, since sums depend on
            them; more than one is often slower on a busy machine.
        prepared: with no workers, where to keep prepared data, for callers that run several plans on the same shards.
    """

    def __init__(
        self,
        plan: Plan,
        shards: Sequence[Any],
        workers: int = -1,
        threads: int = 1,
        prepared: dict[int, Any] | None = None,
    ) -> None:
        require(workers >= -1, "runtime.workers", ">= 0, or -1 for one per core", workers)
        require(threads >= 1, "runtime.threads", ">= 1", threads)
        super().__init__(len(shards))
        self._plan = plan
        by_client: Given = shards if isinstance(shards, Shards) else dict(enumerate(shards))
        keep_freed()
        count = min(cores() if workers < 0 else workers, len(shards))
        self._threads_before = torch.get_num_threads()
        self._inline: Client | None = None
        self._pool: Pool | None = None
        if count:
            channels = ProcessChannels(plan, by_client, threads)
            self._pool = Pool(channels, count, self._memory_of, self._set_up_of, most_prepared(by_client))
        else:
            torch.set_num_threads(threads)
            self._inline = Client(plan, by_client, prepared)

    def close(self) -> None:
        """End all workers, those that are busy without waiting for them."""
        if self._pool is not None:
            self._pool.close()
        if self._inline is not None:
            self._inline = None
            torch.set_num_threads(self._threads_before)

    def _shared(self, memory: bytes) -> Blob:
        return shared([memory]) if self._pool else memory

    def _serve(
        self, requests: Mapping[int, bytes], models: Mapping[int, bytes], deadline_seconds: float | None
    ) -> dict[int, Answered | ClientFailed]:
        if self._pool is not None:
            return self._pool.serve(requests, models, deadline_seconds)
        return {client: self._serve_here(client, requests[client], models.get(client, b"")) for client in requests}

    def _serve_here(self, client: int, request: bytes, scored: bytes) -> Answered:
        inline = self._inline
        assert inline is not None, "closed"
        memory = cast(Kept, self._memory_of(client))  # nothing is shared within a process
        try:
            served = inline.serve(client, request, memory, scored, cast(bytes, self._set_up_of(client)))
        except Exception as error:
            if lacked := memory_shortage(error):
                raise MachineError(f"Client {client} could not be served: {lacked}.") from error
            raise
        after, kept = cast(Memory | bytes, served.memory), request if served.keep else None
        return Answered(served.reply, after, served.flops, kept, served.reason)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
