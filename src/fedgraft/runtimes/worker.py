"""A worker process: serves clients' requests until its pipe closes."""

import os
import signal
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import torch

from fedgraft.allocation import keep_freed
from fedgraft.client import Client
from fedgraft.memory import packed
from fedgraft.plan import Plan


def work(pipe: Connection, plan: Plan, shards: Mapping[int, Any], threads: int) -> None:
    """Answer (client, request, memory, model, told) with (reply, memory, operations, waits, keeps), one at a time.

    The model is what is to be scored, None for that of before; the memory in the answer is None where it is as it was.
    "waits" says whether the client's round waits here, and "keeps" whether the request must be kept, to be handed on as
    "told" to another worker.

    Args:
        pipe: to the parent; its closing ends the process, also when the parent was killed.
        plan: what both ends agreed on.
        shards: every client's own shard.
        threads: torch threads of this process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle: it stores the run first
    torch.set_num_threads(threads)
    keep_freed()
    client = Client(plan, shards, holds=True)
    try:
        pipe.send(os.getpid())
        scored = b""
        while True:
            who, request, memory, model, told = pipe.recv()
            scored = scored if model is None else model
            reply, remembered = client.serve(who, request, memory, scored, told)
            changed = None if remembered is memory else packed(remembered)
            pipe.send((reply, changed, client.flops, client.holding(who), client.keeps))
    except (EOFError, OSError):
        return
