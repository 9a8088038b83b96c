"""Import, in the server process that forks workers, what no worker then has to; imported by nobody else."""

import os
import sys
from types import TracebackType

from fedgraft.errors import memory_shortage
from fedgraft.runtimes.workers import worker
from fedgraft.runtimes.workers.starting import OUT_OF_MEMORY

__all__ = ["worker"]

_SERVER = os.getpid()


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A worker that lacks memory for what it is to serve, or for itself, ends with a code that says so to its parent.

    The parent tells the user in one line, which a trace from the depths of a process would only bury.
    """
    if not memory_shortage(error):
        sys.__excepthook__(kind, error, trace)
    elif os.getpid() != _SERVER:
        os._exit(OUT_OF_MEMORY)


sys.excepthook = _tell
