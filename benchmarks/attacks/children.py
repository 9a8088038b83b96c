"""The command `fedgraft` in processes of its own, which may be killed, limited and looked at."""

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from fedgraft.runtimes.workers import signals

SECONDS: Final = 120.0
"""After which a command hangs, on a busy machine."""
BEGUN: Final = "begun\n"
PRELOADED: Final = [
    *(f"fedgraft.{name}" for name in ("runtimes.workers.preload", "interface.cli", "interface.api")),
    *(f"fedgraft.interface.commands.{name}" for name in ("run", "resume", "report", "predict")),
    *(f"fedgraft.methods.tasks.{name}" for name in ("node", "rating", "graph")),
    *(f"fedgraft.methods.data.{name}" for name in ("blocks", "shops", "molecules")),
    *("scipy.sparse.csgraph", "scipy.spatial", "rich.console", "rich.progress"),
]
"""What each command would have to import."""
OF_FILES: Final = ("open", "os.rename", "os.remove", "os.mkdir", "os.truncate", "os.link", "os.rmdir")
"""Events of the interpreter at which a command reads or changes a folder."""


@dataclass(frozen=True)
class Command:
    """A command that was started; `log` has what it says, behind the line `BEGUN`."""

    process: BaseProcess
    log: Path

    def begun(self) -> None:
        """Wait until it has begun."""
        until = time.monotonic() + SECONDS
        while not (self.log.exists() and self.log.stat().st_size) and time.monotonic() < until:
            time.sleep(0.002)

    def send(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if self.process.is_alive() and self.process.pid:
            os.kill(self.process.pid, number)

    def end(self) -> tuple[int | None, str]:
        """Wait for the end: exit code, None for one that hung and was killed, and what was said."""
        self.process.join(SECONDS)
        code = self.process.exitcode
        if code is None:
            self.process.kill()
            self.process.join()
        return code, self.log.read_text(errors="replace").removeprefix(BEGUN) if self.log.exists() else ""


def start(
    arguments: Sequence[object], log: Path, limits: Mapping[int, int] | None = None, kill_at: int = 0, count: str = ""
) -> Command:
    """Start a command.

    Args:
        arguments: of `fedgraft`.
        log: file for what it says.
        limits: {limit of `resource`: its value}; of the address space it is what is free beyond the process itself.
        kill_at: the operation on the files of `count` at which it is killed; 0 = none.
        count: a folder whose file operations count.
    """
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    log.unlink(missing_ok=True)
    given = [str(each) for each in arguments], log, dict(limits or {}), kill_at, count
    process = context.Process(target=_command, args=given)
    process.start()
    return Command(process, log)


def run(arguments: Sequence[object], log: Path, limits: Mapping[int, int] | None = None) -> tuple[int | None, str]:
    """Run a command to its end: exit code and what was said."""
    return start(arguments, log, limits).end()


def wrong(code: int | None, said: str, codes: Sequence[int]) -> str:
    """What is wrong with the end of a command: a code beside `codes`, a traceback, more than a line; "" for nothing."""
    if code is None:
        return "hang: it does not end"
    if "Traceback" in said:
        return f"a traceback: {said.strip().splitlines()[-1][:200]}"
    if code not in codes:
        return f"exit code {code}: {said.strip()[-300:]}"
    return f"it ends with {code} and says nothing" if code > 0 and not said.strip() else ""


def _command(arguments: list[str], log: Path, limits: dict[int, int], kill_at: int, count: str) -> None:
    from fedgraft.__main__ import main

    signals.handle(signals.interrupt)
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        os.write(1, BEGUN.encode())
    for limit, value in limits.items():
        base = _address_space() if limit == resource.RLIMIT_AS else 0
        resource.setrlimit(limit, (base + value, base + value))
    if count:
        _count_operations(kill_at, count)
    sys.argv = ["fedgraft", *arguments]
    main()


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _count_operations(kill_at: int, folder: str) -> None:
    """Kill this process at an operation on files of the folder; without one, say at the end how many there were."""
    calls = 0

    def seen(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal calls
        if event in OF_FILES and str(arguments[0]).startswith(folder):
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def written(handle: int, fsync: Any = os.fsync) -> None:
        seen("open", (folder,))
        fsync(handle)

    sys.addaudithook(seen)
    os.fsync = written
    if not kill_at:
        from multiprocessing.util import Finalize

        Finalize(None, lambda: os.write(1, f"operations: {calls}\n".encode()), exitpriority=1)
