"""Processes: clients in worker processes of this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedgraft.contracts import Runtime, RuntimeOptions
from fedgraft.errors import require


@dataclass(frozen=True)
class Processes(RuntimeOptions):
    """Worker processes of this machine, or the calling process itself.

    Each serves whichever client is next; the result does not depend on how many there are.

    Args:
        workers: how many processes, >= 0; 0 serves in the calling process, without deadlines, for debuggers and
            notebooks; -1 (default) is one per core.
        threads: torch threads of each, >= 1.
        device: "cpu" or "cuda".
        deadline_seconds: how long to wait for a client; 0 = for ever.
        portable: whether the same bits are wanted on every x86-64 processor with AVX2; slower, and but for
            `torch.sqrt`.
    """

    workers: int = -1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.workers >= -1, "runtime.workers", ">= 0, or -1 for one per core", self.workers)

    def start(self, plan: Any, shards: Sequence[Any]) -> Runtime:
        """Start the processes."""
        from fedgraft.runtimes.workers.in_process import InProcess  # whoever reads options alone needs no engine

        return InProcess(plan, shards, self.workers, self.threads)
