"""Peak memory of a run over what its data and model take."""

import multiprocessing as mp
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch

from fedgraft.engine.plan import Plan
from workloads import ciao_sized, federation, prepare


def peak_over_data(share: float = 1.0, rounds: int = 3) -> float:
    """Peak memory / (data + model), both without what an idle Python with torch takes; set-up and rounds included."""
    plan, shards = ciao_sized(share)
    with mp.get_context("spawn").Pool(1) as pool:
        # The generator of the data has its own peak: shards come to a process that has seen none of it.
        return pool.apply(_measure, (plan, shards, rounds))


def _measure(plan: Plan, shards: tuple[Any, ...], rounds: int) -> float:
    torch.set_num_threads(1)
    before = resident("VmRSS") - _bytes(shards)
    with federation(plan, shards) as running:
        for number in range(1, rounds + 1):
            running.round(number)
        peak = resident("VmHWM") - before
    data = prepare(plan, shards)
    return peak / (_bytes(shards) + _bytes(data) + _bytes(plan.build_model().initial))


def resident(entry: str, process: int | str = "self") -> int:
    """Bytes of memory that a process has, now (VmRSS) or at most so far (VmHWM)."""
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith(entry))
    return int(line.split()[1]) * 1024


def _bytes(value: Any) -> int:
    """Bytes of all arrays and tensors in a value, each counted once."""
    return sum(dict(_buffers(value)).values())


def _buffers(value: Any) -> Iterator[tuple[int, int]]:
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        yield storage.data_ptr(), storage.nbytes()
    elif isinstance(value, np.ndarray):
        inside = sum(map(sys.getsizeof, value.ravel().tolist())) if value.dtype == object else 0
        yield value.__array_interface__["data"][0], value.nbytes + inside
    elif isinstance(value, dict):
        for part in value.values():
            yield from _buffers(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _buffers(part)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _buffers(getattr(value, field.name))
    elif type(value).__module__.startswith("fedgraft"):
        yield from _buffers(vars(value))
