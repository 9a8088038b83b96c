"""A worker process: serves clients' requests until its pipe closes."""

import os
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NamedTuple, cast

import torch

from fedgraft.engine.allocator import keep_freed
from fedgraft.engine.client.client import Client, Given
from fedgraft.engine.client.client_memory import Memory, pieces
from fedgraft.engine.plan import Plan
from fedgraft.errors import memory_shortage
from fedgraft.runtimes.workers import signals
from fedgraft.runtimes.workers.shared_memory import Blob, lasting, receive, send, shared, view_of, want_files
from fedgraft.runtimes.workers.starting import OUT_OF_MEMORY


class Answer(NamedTuple):
    """The answer that a worker sends back.

    Args:
        reply: the client's message.
        memory: what it remembers, None where that is what it was.
        flops: operations that the request took.
        waits: whether the client's round waits in this worker.
        keeps: whether the request must be kept, to be handed on as the set-up to another worker.
        reason: why the reply is an error, in words; it goes beside the protocol, to who runs all of it.
    """

    reply: Blob
    memory: Blob | None
    flops: int
    waits: bool
    keeps: bool
    reason: str


def work(pipe: Connection, plan: Plan, shards: Given, threads: int, outside: object = None) -> None:
    """Answer (client, request, memory, model, set_up) with an `Answer`, one at a time, with so many torch threads.

    To read `outside`, how kinds of messages from outside are answered, is to import the modules that declare these.

    The memory is None where this process has it still; the model is what is to be scored, None for that of before.
    When the pipe closes the process ends, also when the parent was killed. Where memory runs out the process says what
    it lacked and ends: that is no client's failure, and whatever is left of it is not to be relied on.
    """
    signals.ignore()  # Ctrl-C and its like are the parent's to handle: it stores the run first
    try:
        _serve(pipe, plan, shards, threads)
    except Exception as error:
        lacked = memory_shortage(error)
        if not lacked:
            if isinstance(error, EOFError | OSError):
                return
            raise
    # Out here the error has gone, and with it all that its frames held.
    with suppress(Exception):
        send(pipe, lacked)
    os._exit(OUT_OF_MEMORY)


class Serving:
    """Serves requests one at a time, with so many torch threads, and keeps what need not be sent again.

    `shared` joins all parts as the other end is best sent them; `lasting` tells whether both ends keep what was sent.
    """

    def __init__(
        self,
        plan: Plan,
        shards: Given,
        threads: int,
        shared: Callable[[list[bytes | memoryview]], Blob],
        lasting: Callable[[object], bool],
    ) -> None:
        torch.set_num_threads(threads)
        keep_freed()
        self._client = Client(plan, shards)
        self._shared, self._lasting = shared, lasting
        self._kept: dict[int, Blob] = {}
        self._scored: Blob = b""

    def answer(self, who: int, request: Blob, memory: Blob | None, model: Blob | None, set_up: Blob) -> Answer:
        """Return the answer to a request, for the client `who`; its memory is None where it is kept here.

        The model is to be scored, None for that of before. `set_up` is the message that the client was sent before
        training; b"" for none, or where it was served here already.
        """
        if model is not None:
            self._scored = model
        memory = self._kept[who] if memory is None else memory
        before = view_of(memory)
        served = self._client.serve(who, view_of(request), before, view_of(self._scored), view_of(set_up))
        changed = (
            None if served.memory is before else self._shared(pieces(cast(Memory, served.memory)))
        )  # new ones are no bytes
        after = memory if changed is None else changed
        if self._lasting(after):
            self._kept[who] = after
        else:
            self._kept.pop(who, None)
        reply = self._shared([served.reply])
        return Answer(reply, changed, served.flops, served.waits, served.keep, served.reason)


def _serve(pipe: Connection, plan: Plan, shards: Given, threads: int) -> None:
    want_files()
    serving = Serving(plan, shards, threads, shared, lasting)
    send(pipe, os.getpid())
    while True:
        send(pipe, *serving.answer(*receive(pipe)))
