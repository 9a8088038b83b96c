"""Start worker processes and end them."""

import errno
import multiprocessing as mp
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, Final

from fedgraft.errors import FedgraftError, MachineError, memory_shortage

OUT_OF_MEMORY: Final = errno.ENOMEM
"""Exit code of a worker that had too little memory."""
UNKNOWN: Final = 255
"""Exit code of a worker of whose end nobody heard: the process that forked it was gone before."""
STARTS: Final = 3
"""How often a process is started that is killed, or lacks memory, while it starts."""
_STARTING = threading.Lock()


def start(target: Callable[..., None], arguments: tuple[Any, ...]) -> tuple[BaseProcess, Connection]:
    """A process that runs `target`, with a pipe before its other arguments; and this end of the pipe.

    One that is killed before it has read what it is sent is started again. Raises `MachineError` where there is no
    process to be had, no pipe, or no room for what it is sent.
    """
    try:
        for _ in range(STARTS - 1):
            with suppress(BrokenPipeError, EOFError):
                return _started(target, arguments)
        return _started(target, arguments)
    except (BrokenPipeError, EOFError) as error:
        raise unreadable("it ended before it had read what it was sent") from error
    except (OSError, MemoryError) as error:
        raise not_started(memory_shortage(error) or str(error) or type(error).__name__) from error


def _started(target: Callable[..., None], arguments: tuple[Any, ...]) -> tuple[BaseProcess, Connection]:
    context = _context()
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments), daemon=True)  # type: ignore[attr-defined]
    try:
        with _script_hidden():
            process.start()
    except (pickle.PicklingError, AttributeError):  # what it is sent is of a class of the user's script
        process.start()
    theirs.close()
    return process, ours


def leave_if_starting() -> None:
    """End a worker that is importing the user's script, for its classes, and has come to a run that is not guarded."""
    if getattr(mp.current_process(), "_inheriting", False):
        sys.exit(1)  # in silence: the process that started it says what is to be done


def not_started(why: str) -> MachineError:
    """Return the error for a process that cannot be started."""
    return MachineError(
        f"A worker process could not start: {why}. Where memory ran out, use fewer runtime.workers or a machine with "
        "more."
    )


def unreadable(why: str) -> FedgraftError:
    """Return the error for processes that begin and cannot read what they are sent."""
    return FedgraftError(
        f"A worker process could not start: {why}. Where a script's own classes are used by clients, they belong in a "
        "module of their own, or the rest of the script under if __name__ == '__main__'; or use runtime.workers=0."
    )


def ending(process: BaseProcess, lacked: str) -> str:
    """Return how a process ended, in words; `lacked` is what it said of too little memory."""
    code = process.exitcode
    if code == OUT_OF_MEMORY:
        return lacked or "out of memory"
    if code is None or code == UNKNOWN:
        return "its worker process was lost"
    if code >= 0:
        return f"its worker process ended (exit code {code})"
    name = f", {signal.Signals(-code).name}" if -code in set(signal.Signals) else ""
    by = "; so a system ends what takes too much memory" if -code == signal.SIGKILL else ""
    return f"its worker process was killed (signal {-code}{name}{by})"


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Let a process start without the user's script: multiprocessing would run it again in every worker."""
    with _STARTING:
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script


@cache
def _context() -> mp.context.BaseContext:
    """A server process that has torch imported forks the workers, where the platform can; else they start afresh."""
    if "forkserver" in mp.get_all_start_methods():
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(["fedgraft.runtimes.workers.preload"])
        return context
    return mp.get_context("spawn")
