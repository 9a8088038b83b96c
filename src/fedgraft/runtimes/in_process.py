"""In-process runtime: all clients on this machine, in worker processes or in this very process.

A request is served by whichever worker is free, preferably one that has the client's data prepared already. The result
does not depend on which: a client's reply is a function of its shard, the request and its memory.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch

from fedgraft.contracts import ClientFailed, Runtime
from fedgraft.engine.allocator import keep_freed
from fedgraft.engine.client.client import Client
from fedgraft.engine.client.client_memory import Kept, Memory, packed
from fedgraft.engine.plan import Plan
from fedgraft.errors import MachineError, memory_shortage, require
from fedgraft.runtimes.pool import Answered, Pool
from fedgraft.runtimes.shared_memory import Blob, bytes_of, shared

_NOTHING = b""
"""What a client remembers at first."""


class InProcess(Runtime):
    """All clients on this machine; what this machine fails to do is `MachineError`, and no client's failure.

    Args:
        plan: what both ends agreed on.
        shards: every client's own shard, by client index.
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
        self._shards = dict(enumerate(shards))
        self._plan = plan
        self._memories: dict[int, Memory | Blob] = {}
        self._set_ups: dict[int, Blob] = {}
        self._changed: set[int] = set()
        self._flops: dict[int, int] = {}
        self._reasons: dict[int, str] = {}
        keep_freed()
        count = min(_cores() if workers < 0 else workers, len(shards))
        self._threads_before = torch.get_num_threads()
        self._inline: Client | None = None
        self._pool: Pool | None = None
        if count:
            self._pool = Pool(plan, self._shards, count, threads, self._memory_of, self._set_up_of)
        else:
            torch.set_num_threads(threads)
            self._inline = Client(plan, self._shards, prepared)

    def clients(self) -> Sequence[int]:
        """Return the clients' indices."""
        return range(len(self._shards))

    def exchange(
        self, requests: Mapping[int, bytes], limits: Mapping[int, int], deadline_seconds: float | None
    ) -> dict[int, bytes | ClientFailed]:
        """Serve every request; a reply beyond its limit or a deadline passed fails that client."""
        replies: dict[int, bytes | ClientFailed] = {}
        for client, answer in self._serve(requests, {}, deadline_seconds).items():
            if isinstance(answer, ClientFailed):
                replies[client] = answer
                continue
            size = len(answer.reply)
            if size > limits[client]:
                reason = f"a reply of {size} bytes where at most {limits[client]} are allowed"
                replies[client] = ClientFailed(reason, limits[client])
                continue
            replies[client] = answer.reply
            self._remember(client, answer.memory)
        return replies

    def measure(
        self, requests: Mapping[int, bytes], models: Mapping[int, bytes], deadline_seconds: float | None
    ) -> dict[int, bytes | ClientFailed]:
        """Serve every request, however much there is to reply; a deadline passed fails that client."""
        replies: dict[int, bytes | ClientFailed] = {}
        for client, answer in self._serve(requests, models, deadline_seconds).items():
            if isinstance(answer, ClientFailed):
                replies[client] = answer
            else:
                replies[client] = answer.reply
                self._remember(client, answer.memory)
        return replies

    def flops(self) -> dict[int, int]:
        """Operations since the last such call."""
        spent, self._flops = self._flops, {}
        return spent

    def reasons(self) -> dict[int, str]:
        """Return why replies to the last requests are errors, in the clients' own words."""
        return dict(self._reasons)

    def memories(self, changed: bool = True) -> Iterator[tuple[int, bytes]]:
        """Memories, and what was kept apart from them: those that changed since the last such call, or all."""
        known = {**self._memories, **{~client: set_up for client, set_up in self._set_ups.items()}}
        clients = sorted(self._changed if changed else known)
        if changed:
            self._changed = set()
        return ((client, _bytes(known[client])) for client in clients)

    def restore(self, memories: Mapping[int, bytes]) -> None:
        """Put memories of a checkpoint back."""
        kept = {client: shared([memory]) if self._pool else memory for client, memory in memories.items()}
        self._memories = {client: memory for client, memory in kept.items() if client >= 0}
        self._set_ups = {~client: set_up for client, set_up in kept.items() if client < 0}
        self._changed = set()

    def close(self) -> None:
        """End all workers, those that are busy without waiting for them."""
        if self._pool is not None:
            self._pool.close()
        if self._inline is not None:
            self._inline = None
            torch.set_num_threads(self._threads_before)

    def _memory_of(self, client: int) -> Memory | Blob:
        return self._memories.get(client, _NOTHING)

    def _set_up_of(self, client: int) -> Blob:
        return self._set_ups.get(client, b"")

    def _remember(self, client: int, memory: Memory | Blob) -> None:
        if memory is not self._memory_of(client):
            self._memories[client] = memory
            self._changed.add(client)

    def _serve(
        self, requests: Mapping[int, bytes], models: Mapping[int, bytes], deadline_seconds: float | None
    ) -> dict[int, Answered | ClientFailed]:
        """Answers, whose operations are counted, and whose requests are kept where they must be."""
        if self._pool is not None:
            answers = self._pool.serve(requests, models, deadline_seconds)
        else:
            answers = {
                client: self._serve_here(client, requests[client], models.get(client, b"")) for client in requests
            }
        self._reasons = {}
        for client, answer in answers.items():
            if isinstance(answer, Answered):
                if answer.reason:
                    self._reasons[client] = answer.reason
                if answer.flops:
                    self._flops[client] = self._flops.get(client, 0) + answer.flops
                if answer.kept is not None:
                    self._set_ups[client] = answer.kept
                    self._changed.add(~client)
        return answers

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


def _bytes(memory: Memory | Blob) -> bytes:
    return packed(memory) if isinstance(memory, dict) else bytes_of(memory)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
