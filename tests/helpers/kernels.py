"""Which kernels a process computes with."""

from multiprocessing.connection import Connection

import torch
from numpy._core import _multiarray_umath as features  # type: ignore[attr-defined]


def used() -> list[object]:
    """Torch's capability, and numpy's kernels that were picked by the processor."""
    picked = [name for name in features.__cpu_dispatch__ if features.__cpu_features__[name]]
    return [torch.backends.cpu.get_cpu_capability(), picked]


def tell(pipe: Connection) -> None:
    """What a worker process uses."""
    pipe.send(used())
