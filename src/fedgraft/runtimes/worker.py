"""A worker process: serves clients' requests until its pipe closes."""

import os
import signal
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any, cast

import torch

from fedgraft.engine.allocator import keep_freed
from fedgraft.engine.client.client import Client
from fedgraft.engine.client.client_memory import Memory, pieces
from fedgraft.engine.plan import Plan
from fedgraft.runtimes.shared_memory import Blob, Parcel, keep, lent, post, take, view_of, want_files


def work(pipe: Connection, plan: Plan, shards: Mapping[int, Any], threads: int) -> None:
    """Answer (client, request, memory, model, told) with (reply, memory, operations, waits, keeps), one at a time.

    The memory is None where this process has it still, and in the answer where it is as it was; the model is what is to
    be scored, None for that of before. "waits" says whether the client's round waits here, and "keeps" whether the
    request must be kept, to be handed on as "told" to another worker.

    Args:
        pipe: to the parent; its closing ends the process, also when the parent was killed.
        plan: what both ends agreed on.
        shards: every client's own shard.
        threads: torch threads of this process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle: it stores the run first
    torch.set_num_threads(threads)
    keep_freed()
    want_files()
    client, kept = Client(plan, shards, holds=True), dict[int, Parcel]()
    try:
        post(pipe, os.getpid())
        scored: Blob = b""
        while True:
            who, request, memory, model, told = take(pipe)
            scored = scored if model is None else model
            memory = kept[who] if memory is None else memory
            before = view_of(memory)
            reply, after = client.serve(who, view_of(request), before, view_of(scored), view_of(told))
            changed = None if after is before else lent(pieces(cast(Memory, after)))  # what is new is no bytes
            keep(kept, who, memory if changed is None else changed)
            post(pipe, lent([reply]), changed, client.flops, client.holding(who), client.keeps)
    except (EOFError, OSError):
        return
