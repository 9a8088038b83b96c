"""A worker process: serves clients' requests until its pipe closes."""

import os
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, cast

import torch

from fedgraft.engine.allocator import keep_freed
from fedgraft.engine.client.client import Client
from fedgraft.engine.client.client_memory import Memory, pieces
from fedgraft.engine.plan import Plan
from fedgraft.errors import memory_shortage
from fedgraft.runtimes import signals
from fedgraft.runtimes.processes import OUT_OF_MEMORY
from fedgraft.runtimes.shared_memory import Blob, SharedBlock, keep, receive, send, shared, view_of, want_files


class Answer(NamedTuple):
    """The answer that a worker sends back.

    Args:
        reply: the client's message.
        memory: what it remembers, None where that is what it was.
        flops: operations that the request took.
        waits: whether the client's round waits in this worker.
        keeps: whether the request must be kept, to be handed on as the set-up to another worker.
        reason: why the reply is an error, in words; it goes beside the protocol, to who runs all on this machine.
    """

    reply: Blob
    memory: Blob | None
    flops: int
    waits: bool
    keeps: bool
    reason: str


def work(pipe: Connection, plan: Plan, shards: Mapping[int, Any], threads: int) -> None:
    """Answer (client, request, memory, model, set_up) with an `Answer`, one at a time.

    The memory is None where this process has it still; the model is what is to be scored, None for that of before.
    Where memory runs out the process says what it lacked and ends: that is no client's failure, and whatever is left of
    it is not to be relied on.

    Args:
        pipe: to the parent; its closing ends the process, also when the parent was killed.
        plan: what both ends agreed on.
        shards: every client's own shard.
        threads: torch threads of this process.
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


def _serve(pipe: Connection, plan: Plan, shards: Mapping[int, Any], threads: int) -> None:
    torch.set_num_threads(threads)
    keep_freed()
    want_files()
    client, kept = Client(plan, shards), dict[int, SharedBlock]()
    send(pipe, os.getpid())
    scored: Blob = b""
    while True:
        who, request, memory, model, set_up = receive(pipe)
        scored = scored if model is None else model
        memory = kept[who] if memory is None else memory
        before = view_of(memory)
        served = client.serve(who, view_of(request), before, view_of(scored), view_of(set_up))
        changed = (
            None if served.memory is before else shared(pieces(cast(Memory, served.memory)))
        )  # new ones are no bytes
        keep(kept, who, memory if changed is None else changed)
        send(pipe, *Answer(shared([served.reply]), changed, served.flops, served.waits, served.keep, served.reason))
