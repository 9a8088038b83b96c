"""In-process runtime: all clients on this machine, in worker processes or in this very process.

A request is served by whichever worker is free, preferably one that has the client's data prepared already. The result
does not depend on which: a client's reply is a function of its shard, the request and its memory.
"""

import math
import multiprocessing as mp
import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, cast

import torch

from fedgraft.contracts import ClientFailed, Runtime
from fedgraft.engine.allocator import keep_freed
from fedgraft.engine.client.client import Client
from fedgraft.engine.client.client_memory import Kept, Memory, packed
from fedgraft.engine.plan import Plan
from fedgraft.errors import FedgraftError, require
from fedgraft.runtimes.shared_memory import Blob, Parcel, bytes_of, keep, lent, post, take, want_files
from fedgraft.runtimes.worker import work
from fedgraft.wire.layouts import MadeOnce

START_SECONDS = 120.0
"""How long a worker may take to import torch and to build its model."""
_STARTING = threading.Lock()
_NOTHING = b""
"""What a client remembers at first."""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    ready: bool = False
    clients: set[int] = field(default_factory=set)
    holding: set[int] = field(default_factory=set)
    told: set[int] = field(default_factory=set)
    memories: dict[int, Parcel] = field(default_factory=dict)
    request: Blob = b""
    scored: bytes = b""
    task: int | None = None
    since: float = 0.0
    due: float | None = None


class InProcess(Runtime):
    """All clients on this machine.

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
        self._plan, self._threads = plan, threads
        self._shards = dict(enumerate(shards))
        self._memories: dict[int, Memory | Blob] = {}
        self._told: dict[int, Blob] = {}
        self._changed: set[int] = set()
        self._seconds: dict[int, float] = {}
        self._flops: dict[int, int] = {}
        keep_freed()
        count = min(_cores() if workers < 0 else workers, len(shards))
        self._threads_before = torch.get_num_threads()
        self._inline: Client | None = None
        self._workers: list[_Worker] = []
        self._context = _context()
        if count:
            want_files()
            self._workers = [self._start() for _ in range(count)]
        else:
            torch.set_num_threads(threads)
            self._inline = Client(plan, self._shards, prepared, holds=True)

    def clients(self) -> Sequence[int]:
        """Client indices."""
        return range(len(self._shards))

    def exchange(
        self, requests: Mapping[int, bytes], limits: Mapping[int, int], deadline_seconds: float | None
    ) -> dict[int, bytes | ClientFailed]:
        """Serve every request; a reply beyond its limit, a deadline passed or a dead worker fails that client."""
        replies: dict[int, bytes | ClientFailed] = {}
        for client, answer in self._serve(requests, deadline_seconds).items():
            if isinstance(answer, ClientFailed):
                replies[client] = answer
                continue
            reply, memory = answer
            if len(reply) > limits[client]:
                reason = f"a reply of {len(reply)} bytes where at most {limits[client]} are allowed"
                replies[client] = ClientFailed(reason, limits[client])
                continue
            replies[client] = reply
            self._remember(client, memory)
        return replies

    def measure(self, requests: Mapping[int, bytes], models: Mapping[int, bytes]) -> dict[int, bytes | ClientFailed]:
        """Serve every request, however long it takes and however much there is to reply."""
        replies: dict[int, bytes | ClientFailed] = {}
        for client, answer in self._serve(requests, None, models).items():
            if isinstance(answer, ClientFailed):
                replies[client] = answer
            else:
                replies[client] = answer[0]
                self._remember(client, answer[1])
        return replies

    def flops(self) -> dict[int, int]:
        """Operations since the last such call."""
        spent, self._flops = self._flops, {}
        return spent

    def memories(self, changed: bool = True) -> Iterator[tuple[int, bytes]]:
        """Memories, and what was kept apart from them: those that changed since the last such call, or all."""
        known = {**self._memories, **{~client: told for client, told in self._told.items()}}
        clients = sorted(self._changed if changed else known)
        if changed:
            self._changed = set()
        return ((client, _bytes(known[client])) for client in clients)

    def restore(self, memories: Mapping[int, bytes]) -> None:
        """Put memories of a checkpoint back."""
        kept = {client: lent([memory]) if self._workers else memory for client, memory in memories.items()}
        self._memories = {client: memory for client, memory in kept.items() if client >= 0}
        self._told = {~client: told for client, told in kept.items() if client < 0}
        self._changed = set()

    def close(self) -> None:
        """End all workers, those that are busy without waiting for them."""
        for worker in self._workers:
            worker.pipe.close()
            if worker.task is not None or not worker.ready:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join(timeout=5)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers = []
        if self._inline is not None:
            self._inline = None
            torch.set_num_threads(self._threads_before)

    def _count(self, client: int, flops: int) -> None:
        if flops:
            self._flops[client] = self._flops.get(client, 0) + flops

    def _keep(self, client: int, request: Blob) -> None:
        self._told[client] = request
        self._changed.add(~client)

    def _remember(self, client: int, memory: Memory | Blob) -> None:
        if memory is not self._memories.get(client, _NOTHING):
            self._memories[client] = memory
            self._changed.add(client)

    # --- serving -----------------------------------------------------------------------------------------------------

    def _serve(
        self, requests: Mapping[int, bytes], deadline_seconds: float | None, models: Mapping[int, bytes] | None = None
    ) -> dict[int, tuple[bytes, Memory | Blob] | ClientFailed]:
        scored = models or {}
        if self._inline is not None:
            inline = self._inline
            served: dict[int, tuple[bytes, Memory | Blob] | ClientFailed] = {}
            for client, request in requests.items():
                memory = cast(Kept, self._memories.get(client, _NOTHING))  # nothing is lent within a process
                told = cast(bytes, self._told.get(client, b""))
                reply, after = inline.serve(client, request, memory, scored.get(client, b""), told)
                served[client] = reply, cast(Memory | bytes, after)
                self._count(client, inline.flops)
                if inline.keeps:
                    self._keep(client, request)
            return served
        answers: dict[int, tuple[bytes, Memory | Blob] | ClientFailed] = {}
        waiting = sorted(requests, key=lambda client: (-self._seconds.get(client, math.inf), client))  # longest first
        while len(answers) < len(requests):
            for index, worker in enumerate(self._workers):
                if not worker.ready or worker.task is not None:
                    continue
                picked = self._pick(worker, waiting)
                if picked is not None and self._send(index, picked, requests[picked], scored.get(picked, b"")):
                    waiting.remove(picked)
                    worker.due = None if deadline_seconds is None else worker.since + deadline_seconds
            if isinstance(requests, MadeOnce):  # while all are at work
                for client in waiting[: len(self._workers)]:
                    requests[client]
            self._collect(answers)
        return {client: answers[client] for client in requests}

    def _pick(self, worker: _Worker, waiting: Sequence[int]) -> int | None:
        """A client whose data the worker has, else one whose data no worker has, else any; None for none.

        A client whose round waits in a worker goes to no other. The last ones go to those who have their data: to
        prepare these takes longer than to wait.
        """
        others = [other for other in self._workers if other is not worker]
        bound = set().union(*(other.holding for other in others))
        free = [client for client in waiting if client not in bound]
        elsewhere = set().union(*(other.clients for other in others))
        own = (client for client in free if client in worker.clients)
        new = (client for client in free if client not in elsewhere)
        last = len(free) < len(self._workers) and all(other.task is not None for other in others)
        return next(own, next(new, None if last else next(iter(free), None)))

    def _send(self, index: int, client: int, request: bytes, scored: bytes = b"") -> bool:
        """Hand a client to a free worker; False if that worker had died since its last answer, and is replaced."""
        worker = self._workers[index]
        served_before = bool(worker.clients)
        worker.clients.add(client)
        try:
            known = scored is worker.scored  # a model that many are scored with crosses the pipe once
            told = b"" if client in worker.told else self._told.get(client, b"")
            memory = self._memories.get(client, _NOTHING)
            has, lent_request = memory is worker.memories.get(client), lent([request])
            post(worker.pipe, client, lent_request, None if has else memory, None if known else lent([scored]), told)
            worker.scored, worker.request = scored, lent_request
            keep(worker.memories, client, memory)
            if told:
                worker.told.add(client)
        except OSError:
            if served_before:
                self._replace(index)
                return False
            # One that dies of its first request will do so again: its end is found in the pipe, and costs the client.
        worker.task = client
        worker.since = time.monotonic()
        return True

    def _collect(self, answers: dict[int, tuple[bytes, Memory | Blob] | ClientFailed]) -> None:
        """Wait for the next thing to happen: an answer, a start, a death, a deadline."""
        dues = [worker.due for worker in self._workers if worker.due is not None]
        timeout = max(0.0, min(dues) - time.monotonic()) if dues else None
        happened = wait([worker.pipe for worker in self._workers], timeout)
        now = time.monotonic()
        for index, worker in enumerate(self._workers):
            if worker.pipe in happened:
                try:
                    message = take(worker.pipe)
                except (EOFError, OSError):
                    self._bury(index, answers, f"its worker process died (exit code {self._exit_code(worker)})")
                    continue
                if not worker.ready:
                    worker.ready, worker.due = True, None
                elif worker.task is not None:
                    reply, changed, flops, holds, keeps = message
                    memory = self._memories.get(worker.task, _NOTHING) if changed is None else changed
                    answers[worker.task] = bytes_of(reply), memory
                    keep(worker.memories, worker.task, memory)
                    if keeps:
                        worker.told.add(worker.task)
                        self._keep(worker.task, worker.request)
                    (worker.holding.add if holds else worker.holding.discard)(worker.task)
                    self._count(worker.task, flops)
                    self._seconds[worker.task] = now - worker.since
                    worker.task = worker.due = None
            elif worker.due is not None and now >= worker.due:
                self._bury(index, answers, "no reply within the deadline")

    def _bury(self, index: int, answers: dict[int, tuple[bytes, Memory | Blob] | ClientFailed], reason: str) -> None:
        """Replace a worker that died or hangs; only the client it served fails."""
        worker = self._workers[index]
        if not worker.ready:
            raise FedgraftError(
                f"A worker process could not start: {reason}. Where a script's own classes are used by clients, they "
                "belong in a module of their own, or the rest of the script under if __name__ == '__main__'; or use "
                "runtime.workers=0."
            )
        if worker.task is not None:
            answers[worker.task] = ClientFailed(reason)
        self._replace(index)

    def _replace(self, index: int) -> None:
        worker = self._workers[index]
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        self._workers[index] = self._start()

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        arguments = (theirs, self._plan, self._shards, self._threads)
        process = self._context.Process(target=work, args=arguments, daemon=True)  # type: ignore[attr-defined]
        try:
            with _script_hidden():
                process.start()
        except (pickle.PicklingError, AttributeError):  # the plan or a shard is of a class of the user's script
            process.start()
        theirs.close()
        return _Worker(process, ours, due=time.monotonic() + START_SECONDS)

    def _exit_code(self, worker: _Worker) -> int | None:
        worker.process.join(timeout=5)
        return worker.process.exitcode


def _bytes(memory: Memory | Blob) -> bytes:
    return packed(memory) if isinstance(memory, dict) else bytes_of(memory)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Let a process start without the user's script: multiprocessing would run it again in every worker."""
    with _STARTING:
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script


def _context() -> mp.context.BaseContext:
    """A server process that has torch imported forks the workers, where the platform can; else they start afresh."""
    if "forkserver" in mp.get_all_start_methods():
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(["fedgraft.runtimes.preload"])
        return context
    return mp.get_context("spawn")
