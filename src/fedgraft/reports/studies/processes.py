"""Where the cells of a study run: in processes, each of which does one split and ends with it, or on a Ray cluster."""

import multiprocessing as mp
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import connection
from typing import Any, TypeAlias

import torch

from fedgraft.errors import MachineError, missing_extra, require

Write: TypeAlias = Callable[[str, Mapping[str, Any]], None]
"""Writes a file of a study's folder: its name within it, and what is in it."""


@dataclass(frozen=True)
class Call:
    """The work of one process, so many experiments; its name is for errors.

    It hands what it finds to a function that writes it, and can be sent to a process.
    """

    run: Callable[[Write], None]
    name: str
    cells: int


def in_processes(calls: Sequence[Call], jobs: int, write: Write) -> Iterator[Call]:
    """Yield each call as it ends, each in a process of its own, so many at a time.

    What one has prepared is gigabytes, which a process never gives back in full. Raises `MachineError` for one that is
    lost.
    """
    context, waiting = mp.get_context("spawn"), iter(calls)
    running: dict[Future[None], tuple[Call, ProcessPoolExecutor]] = {}
    try:
        while True:
            for call in islice(waiting, jobs - len(running)):
                pool = ProcessPoolExecutor(1, mp_context=context, initializer=begin_process)
                running[pool.submit(call.run, write)] = call, pool
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                call, pool = running.pop(future)
                pool.shutdown()
                try:
                    future.result()
                except BrokenProcessPool as error:
                    raise MachineError(
                        f"The process of {call.name}, was lost; so a system ends what takes too much memory. Cells "
                        "that are done are kept; go on with fewer --jobs."
                    ) from error
                yield call
    finally:
        for _, pool in running.values():
            for process in list((pool._processes or {}).values()):
                process.terminate()


def begin_process() -> None:
    """Prepare a process for cells: one thread, and an end when the study ends, also when that is killed."""
    torch.set_num_threads(1)
    parent = mp.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)  # cells are written in one stroke, so nothing is lost but the one at work


def on_cluster(calls: Sequence[Call], on: str, jobs: int, write: Write) -> Iterator[Call]:
    """Yield each call as it ends, each a task of a Ray cluster; what they find is written here.

    `on` is "ray:ADDRESS" of a cluster, which makes as many calls at a time as it has CPUs, or "ray" for a Ray on this
    machine, which makes `jobs`.
    """
    with missing_extra("ray", by="--on ray"):
        from fedgraft.runtimes.ray_cluster.cluster import results
    for index, files in results([partial(_collected, call.run) for call in calls], address_of(on), jobs, "--on ray:"):
        for name, content in files.items():
            write(name, content)
        yield calls[index]


def address_of(on: str) -> str:
    """Return the address in "ray:ADDRESS"; "" in "ray". Raises `InputError` for anything else."""
    kind, _, address = on.partition(":")
    require(kind == "ray", "--on", "ray, or ray:ADDRESS such as ray:auto", on)
    return address


def _collected(run: Callable[[Write], None]) -> dict[str, Mapping[str, Any]]:
    """Return {name: content} of all files that a call writes."""
    files: dict[str, Mapping[str, Any]] = {}
    run(files.__setitem__)
    return files
