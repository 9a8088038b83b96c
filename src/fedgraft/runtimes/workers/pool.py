"""Workers that serve clients' requests; what one was at when it was lost is done again in another.

A client's reply is a function of its shard, the request and its memory, so another worker makes the same bits of it. A
worker that is killed, that ends or that lacks memory is this machine's failure and no client's: what it was asked is
asked once more, when no other worker is at work, and if that fails as well the run ends with the reasons. A round that
waited in a lost worker is served anew from its first request on; its replies must be those of before.
"""

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.contracts.data import LRUCache
from fedgraft.engine.client.client_memory import Memory
from fedgraft.errors import MachineError
from fedgraft.runtimes.workers.channel import Channel, Channels
from fedgraft.runtimes.workers.shared_memory import Blob, bytes_of, view_of
from fedgraft.runtimes.workers.starting import STARTS
from fedgraft.runtimes.workers.worker import Answer
from fedgraft.wire.lazy import MadeOnce

START_SECONDS = 120.0
"""How long a worker may take to import torch and to build its model."""
ENDING_SECONDS = 5.0
"""How long an idle worker may take to end."""
LATE = "no reply within the deadline"
GOES_ON = "rows"
"""The kind of request that takes a round up that waits; any other ends it."""


@dataclass(frozen=True)
class Answered:
    """The answer to a request, and the client's memory behind it.

    Args:
        reply: the client's message.
        memory: what it remembers now; the very object of before where that is unchanged.
        flops: operations that it took.
        kept: the request, where it is to be handed on to other workers; else None.
        reason: why the reply is an error, in words that are no part of it; "" for any other.
    """

    reply: bytes
    memory: Memory | Blob
    flops: int = 0
    kept: Blob | None = None
    reason: str = ""


class _Job(NamedTuple):
    """A request on its way to a client, and the model that is to be scored."""

    client: int
    request: Blob
    scored: bytes


class _Step(NamedTuple):
    """A request of a round that waits in a worker, and the fingerprint of what was replied to it."""

    request: Blob
    reply: bytes


@dataclass
class _Worker:
    """A worker, and what it has.

    Args:
        channel: to it.
        starts: how often it was started before.
        due: when it must have started, or have replied.
        ready: whether it has started.
        clients: whose data it has prepared, as far as is known here.
        holding: whose rounds wait in it.
        set_up: clients whose set-up message it has.
        memories: large ones that it has.
        scored: the model that it was handed last.
        job: what it is at.
        anew: earlier requests of the job's client that it serves before.
        since: when it was handed a request.
        lacked: what it said before it ended for lack of memory.
    """

    channel: Channel
    starts: int = 0
    due: float | None = None
    ready: bool = False
    clients: LRUCache[int, None] = field(default_factory=LRUCache)
    holding: set[int] = field(default_factory=set)
    set_up: set[int] = field(default_factory=set)
    memories: dict[int, object] = field(default_factory=dict)
    scored: bytes = b""
    job: _Job | None = None
    anew: list[_Step] = field(default_factory=list)
    since: float = 0.0
    lacked: str = ""


@dataclass
class _Batch:
    """The requests that are being served.

    Args:
        waiting: {client that no worker is at: its place in the order in which they are picked}, ascending.
        deadline_seconds: how long a client may take; None = for ever.
        answers: of those that are done.
        lost: {client: its job, and how the worker ended that was at it}.
    """

    waiting: OrderedDict[int, int]
    deadline_seconds: float | None
    answers: dict[int, Answered | ClientFailed] = field(default_factory=dict)
    lost: dict[int, tuple[_Job, str]] = field(default_factory=dict)


class Pool:
    """Workers for all clients of a run, so many of them, >= 1.

    `memory` tells what a client remembers, the same object until that changes; `set_up` the message that it was sent
    before training, b"" for none. A worker keeps the prepared data of `most` clients; None = all.
    """

    def __init__(
        self,
        channels: Channels,
        count: int,
        memory: Callable[[int], Memory | Blob],
        set_up: Callable[[int], Blob],
        most: int | None = None,
    ) -> None:
        self._channels, self._most = channels, most
        self._memory, self._set_up = memory, set_up
        self._seconds: dict[int, float] = {}
        self._paused: dict[int, list[_Step]] = {}
        self._workers: list[_Worker] = []
        try:
            for _ in range(count):
                self._workers.append(self._start(again=False))
        except BaseException:
            self.close()
            raise

    def serve(
        self, requests: Mapping[int, bytes], scored: Mapping[int, bytes], deadline_seconds: float | None
    ) -> dict[int, Answered | ClientFailed]:
        """Serve every request; only a deadline passed fails a client.

        Args:
            requests: {client: message}.
            scored: {client: a message with the model to be scored}, of those for whom there is one.
            deadline_seconds: how long a client may take; None = for ever.

        Raises `MachineError` where a request could not be served for reasons of this machine.
        """
        slowest = sorted(requests, key=lambda client: (-self._seconds.get(client, math.inf), client))
        batch = _Batch(OrderedDict((client, place) for place, client in enumerate(slowest)), deadline_seconds)
        while len(batch.answers) < len(requests):
            for pick in (self._own, self._other):
                for index in range(len(self._workers)):
                    worker = self._idle(index)
                    picked = None if worker is None else pick(worker, batch)
                    if worker is not None and picked is not None:
                        del batch.waiting[picked]
                        self._begin(worker, self._job(picked, requests, scored, batch), deadline_seconds)
            if isinstance(requests, MadeOnce):  # while all are at work
                for client in [*islice(batch.waiting, len(self._workers))]:
                    requests[client]
            self._collect(batch)
        return {client: batch.answers[client] for client in requests}

    def close(self) -> None:
        """End all workers, those that are busy without waiting for them."""
        for worker in self._workers:
            if worker.job is not None or not worker.ready:
                worker.channel.kill()
            worker.channel.close()
        for worker in self._workers:
            worker.channel.join(ENDING_SECONDS)
        self._workers = []

    # --- handing out -------------------------------------------------------------------------------------------------

    def _idle(self, index: int) -> _Worker | None:
        """A worker that can be handed a request; None for one that is busy, or was lost since its last answer."""
        worker = self._workers[index]
        if not worker.ready or worker.job is not None:
            return None
        if worker.channel.poll():  # one that is alive says nothing unasked
            self._replace(index)
            return None
        return worker

    def _own(self, worker: _Worker, batch: _Batch) -> int | None:
        """A client whose data the worker has; None for none."""
        waiting, elsewhere = batch.waiting, self._elsewhere(worker, batch)
        # Of a hundred thousand that wait, or that a worker has, the fewer are looked at.
        has = waiting if len(waiting) < len(worker.clients) else worker.clients
        own = (client for client in has if client in waiting and client in worker.clients and client not in elsewhere)
        return min(own, key=waiting.__getitem__, default=None)

    def _other(self, worker: _Worker, batch: _Batch) -> int | None:
        """A client whose data no worker has, else any; None for none. Those that are idle have picked their own before.

        The last ones go to those who have their data: to prepare these takes longer than to wait. What a worker was
        lost over comes last, with no other at work: it may have been too much for the machine beside them.
        """
        others = [other for other in self._workers if other is not worker]
        at_work = [other.job is not None for other in others]
        waiting, elsewhere = batch.waiting, self._elsewhere(worker, batch)
        if all(client in batch.lost for client in waiting):
            return None if any(at_work) else next(iter(waiting), None)
        free = (client for client in waiting if client not in elsewhere)
        new = (client for client in free if not any(client in other.clients for other in others))
        if (picked := next(new, None)) is not None:
            return picked
        last = len(waiting) - len(elsewhere) < len(self._workers) and all(at_work)
        return None if last else next((client for client in waiting if client not in elsewhere), None)

    def _elsewhere(self, worker: _Worker, batch: _Batch) -> set[int]:
        """Return who waits and is not this worker's to pick: lost ones, and those whose round waits in another."""
        clients = {client for client in batch.lost if client in batch.waiting}
        for other in self._workers:
            if other is not worker:
                clients.update(client for client in other.holding if client in batch.waiting)
        return clients

    def _job(self, client: int, requests: Mapping[int, bytes], scored: Mapping[int, bytes], batch: _Batch) -> _Job:
        """The job of a client, the same one where it was lost before."""
        if client in batch.lost:
            return batch.lost[client][0]
        return _Job(client, self._channels.shared([requests[client]]), scored.get(client, b""))

    def _begin(self, worker: _Worker, job: _Job, deadline_seconds: float | None) -> None:
        """Hand a worker a job, behind all that the client's round began with where another worker was lost with it."""
        if wire.kind_of(view_of(job.request)) != GOES_ON:
            self._paused.pop(job.client, None)
        there = job.client in worker.holding
        worker.job, worker.anew = job, [] if there else list(self._paused.get(job.client, ()))
        worker.clients[job.client] = None
        self._hand(worker, deadline_seconds)

    def _hand(self, worker: _Worker, deadline_seconds: float | None) -> None:
        """Send a worker the next request of its job; that it is gone shows when its answer is waited for."""
        assert worker.job is not None
        client, request, scored = worker.job
        request, scored = (worker.anew[0].request, b"") if worker.anew else (request, scored)
        set_up = b"" if client in worker.set_up else self._set_up(client)
        memory = self._memory(client)
        has = memory is worker.memories.get(client)
        known = scored is worker.scored  # a model that many are scored with crosses the pipe once
        worker.since = time.monotonic()
        worker.due = None if deadline_seconds is None else worker.since + deadline_seconds
        try:
            model = None if known else self._channels.shared([scored])
            worker.channel.send(client, request, None if has else memory, model, set_up)
        except OSError:
            worker.channel.kill()  # if it is not gone but deaf
            return
        worker.scored = scored
        self._keep(worker, client, memory)
        if set_up:
            worker.set_up.add(client)

    def _keep(self, worker: _Worker, client: int, memory: object) -> None:
        """Note what both ends have of a client and need not send again."""
        if self._channels.lasting(memory):
            worker.memories[client] = memory
        else:
            worker.memories.pop(client, None)

    # --- what happens ------------------------------------------------------------------------------------------------

    def _collect(self, batch: _Batch) -> None:
        """Wait for the next thing to happen: an answer, a start, a death, a deadline."""
        dues = [worker.due for worker in self._workers if worker.due is not None]
        timeout = max(0.0, min(dues) - time.monotonic()) if dues else None
        happened = self._channels.wait([worker.channel for worker in self._workers], timeout)
        now = time.monotonic()
        for index, worker in enumerate(self._workers):
            if worker.channel in happened:
                try:
                    message = worker.channel.receive()
                except (EOFError, OSError):  # also in the middle of a reply
                    self._lost(index, batch)
                    continue
                self._heard(worker, message, batch)
            elif worker.due is not None and now >= worker.due:
                self._late(index, batch)

    def _heard(self, worker: _Worker, message: tuple[Any, ...], batch: _Batch) -> None:
        if isinstance(message[0], str):
            worker.lacked = message[0]  # and its end follows
        elif not worker.ready:
            worker.ready, worker.due = True, None
        else:
            self._answered(worker, Answer(*message), batch)

    def _answered(self, worker: _Worker, answer: Answer, batch: _Batch) -> None:
        assert worker.job is not None
        client, request, _ = worker.job
        memory = self._memory(client) if answer.memory is None else answer.memory
        self._keep(worker, client, memory)
        (worker.holding.add if answer.waits else worker.holding.discard)(client)
        reply = bytes_of(answer.reply)
        if worker.anew:
            if _fingerprint(reply) != worker.anew.pop(0).reply:
                raise MachineError(
                    f"Client {client} was served anew after its worker was lost, and replied something else: "
                    "what it computes depends on more than its data, what it is sent and the seed."
                )
            self._hand(worker, batch.deadline_seconds)
            return
        if answer.waits:
            self._paused.setdefault(client, []).append(_Step(request, _fingerprint(reply)))
        else:
            self._paused.pop(client, None)
        if answer.keeps:
            worker.set_up.add(client)
        self._seconds[client] = time.monotonic() - worker.since
        kept = request if answer.keeps else None
        batch.answers[client] = Answered(reply, memory, answer.flops, kept, answer.reason)
        worker.job = worker.due = None

    def _late(self, index: int, batch: _Batch) -> None:
        """Give up a client that hangs, and its worker."""
        worker = self._workers[index]
        if not worker.ready:
            raise self._channels.not_started(f"it took longer than {START_SECONDS:g} s")
        if worker.job is not None:
            batch.answers[worker.job.client] = ClientFailed(LATE)
            self._paused.pop(worker.job.client, None)
        self._replace(index)

    def _lost(self, index: int, batch: _Batch) -> None:
        """Replace a worker that has ended; what it was at is done again, once."""
        worker = self._workers[index]
        how = worker.channel.ending(worker.lacked)
        if not worker.ready:
            self._start_again(index, how)
            return
        self._replace(index)
        if worker.job is None:
            return
        client = worker.job.client
        if client in batch.lost:
            raise MachineError(
                f"Client {client} could not be served: {batch.lost[client][1]}; and when that was done again in "
                f"another worker, with no other at work: {how}. Where memory ran out, use fewer "
                f"{self._channels.option} (there are {len(self._workers)}) or a machine with more."
            )
        batch.lost[client] = worker.job, how
        batch.waiting[client] = 0  # whatever its place: lost ones come last

    # --- workers -----------------------------------------------------------------------------------------------------

    def _replace(self, index: int, starts: int = 0) -> None:
        channel = self._workers[index].channel
        channel.kill()
        channel.close()
        self._workers[index] = self._start(starts)

    def _start_again(self, index: int, how: str) -> None:
        """Start a worker anew that has ended before it was ready, if that may help."""
        worker = self._workers[index]
        if worker.channel.unreadable:
            raise self._channels.unreadable(how)
        if worker.starts + 1 >= STARTS:
            raise self._channels.not_started(how)
        self._replace(index, worker.starts + 1)

    def _start(self, starts: int = 0, again: bool = True) -> _Worker:
        prepared: LRUCache[int, None] = LRUCache(self._most)
        due = time.monotonic() + START_SECONDS
        return _Worker(self._channels.open(again), starts, due=due, clients=prepared)


def _fingerprint(reply: bytes) -> bytes:
    return hashlib.blake2b(reply, digest_size=16).digest()
