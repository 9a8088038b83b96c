"""A machine that fails a run: little memory, no room, signals, others at work in the folder; then it is resumed."""

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from attacks.children import run, start, wrong
from attacks.folders import resumed
from attacks.kills import Whole
from attacks.mutations import one_of
from attacks.outcomes import HELD, REFUSED, Outcome

NAMES: Final = ("graft_node", "fedacs")
LARGER: Final[dict[str, dict[str, int]]] = {
    "fedacs": {"data__users": 1_000, "data__items": 1_500, "data__count": 50_000},
}
"""A run that takes 10 to 30 MB beyond the program itself."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
Try = Callable[[Whole, Path, Path, np.random.Generator], tuple[int | None, str, tuple[int, ...]]]
"""(a run, its new folder, a log, a generator) -> exit code of the run, what it said, codes that it may end with."""


def _tries(attempt: Try, g: np.random.Generator, folder: Path, **options: Any) -> Iterator[Outcome]:
    """Try for ever: the run ends as if undisturbed, or says in a line why it cannot, and then goes on to the same."""
    known: dict[str, Whole] = {}
    out, log = folder / "room" / "run", folder / "log"
    while True:
        for name in options or NAMES:
            if name not in known:
                known[name] = Whole(name, folder, 0, **options.get(name, {}))
            shutil.rmtree(out, ignore_errors=True)
            out.parent.mkdir(exist_ok=True)
            code, said, codes = attempt(known[name], out, log, g)
            yield _judged(known[name], out, log, code, wrong(code, said, codes))


def _judged(whole: Whole, out: Path, log: Path, code: int | None, bad: str) -> Outcome:
    if bad:
        return Outcome("hang" if code is None else "crash", bad)
    known = (out / "experiment.toml").exists()
    if not known and out.exists() and any(out.iterdir()):
        return Outcome("wrong", f"a remnant that is no run: {sorted(os.listdir(out))}")
    then, said = run(["resume", out, "-q"] if known else [*whole.arguments, out], log)
    if bad := wrong(then, said, [0]):
        return Outcome("crash", f"afterwards: {bad}")
    if resumed(out) != whole.result:
        return Outcome("wrong", f"another result, after exit code {code}")
    return HELD if code == 0 else REFUSED


def little_memory(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """A limit of the address space (`ulimit -v`), of so much beyond what the program itself takes."""

    def attempt(whole: Whole, out: Path, log: Path, g: np.random.Generator) -> tuple[int | None, str, tuple[int, ...]]:
        free = int(10 ** g.uniform(4, 7.7))
        return *run([*whole.arguments, out], log, {resource.RLIMIT_AS: free}), (0, 1)

    yield from _tries(attempt, g, folder, **LARGER)


def no_room(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """A full disk (a file system in memory, where it may be mounted) or a limit of the size of files."""

    def attempt(whole: Whole, out: Path, log: Path, g: np.random.Generator) -> tuple[int | None, str, tuple[int, ...]]:
        if g.random() < 0.5:
            limit = {resource.RLIMIT_FSIZE: int(10 ** g.uniform(2, 5))}
            return *run([*whole.arguments, out], log, limit), (0, 1, 2)
        with small_disk(out.parent, 4096 * int(g.integers(1, 60))) as mounted:
            code, said = run([*whole.arguments, out], log) if mounted else (0, "")
            kept = folder / "kept"
            shutil.rmtree(kept, ignore_errors=True)
            if out.exists():
                shutil.copytree(out, kept)
        if kept.exists():
            shutil.copytree(kept, out)
        return code, said, (0, 1, 2)

    yield from _tries(attempt, g, folder)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """Mount a small file system in memory; whether this process may."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def read_only(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """A folder on a file system that is read-only, to begin in, and to resume in after a run was stopped; once each."""
    whole, out, log = Whole(NAMES[0], folder, 0), folder / "room" / "run", folder / "log"
    out.parent.mkdir()
    with small_disk(out.parent, 1 << 22) as mounted:
        if not mounted:
            return
        _signalled(whole, out, log, signal.SIGTERM, whole.seconds / 2)
        subprocess.run(["mount", "-o", "remount,ro", str(out.parent)], check=True)
        new, page = out.parent / "new", out / "page.html"
        for arguments in (["resume", out, "-q"], [*whole.arguments, new], ["report", out, "-o", page]):
            bad = wrong(*run(arguments, log), (1, 2))
            yield Outcome("crash", bad) if bad else REFUSED
        subprocess.run(["mount", "-o", "remount,rw", str(out.parent)], check=True)
        yield _judged(whole, out, log, 0, "")


def signalled(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """SIGTERM, SIGINT or SIGHUP at a random moment, once or twice, then resume."""

    def attempt(whole: Whole, out: Path, log: Path, g: np.random.Generator) -> tuple[int | None, str, tuple[int, ...]]:
        number = one_of(SIGNALS, g)
        code, said = _signalled(whole, out, log, number, g.uniform(0, whole.seconds), twice=g.random() < 0.3)
        return code, said, (0, 128 + number)

    yield from _tries(attempt, g, folder)


def _signalled(
    whole: Whole, out: Path, log: Path, number: int, seconds: float, twice: bool = False
) -> tuple[int | None, str]:
    command = start([*whole.arguments, out], log)
    command.begun()
    command.process.join(seconds)
    for _ in range(1 + twice):
        command.send(number)
    return command.end()


def together(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """Two or three processes that begin, or resume, in one folder at once: one does it, the others say why not."""
    logs = [folder / f"log-{k}" for k in range(3)]

    def attempt(whole: Whole, out: Path, log: Path, g: np.random.Generator) -> tuple[int | None, str, tuple[int, ...]]:
        again = g.random() < 0.5
        if again:
            _signalled(whole, out, log, signal.SIGTERM, g.uniform(0.2, 0.8) * whole.seconds)
        asked = ["resume", out, "-q"] if again and out.exists() else [*whole.arguments, out]
        commands = [start(asked, each) for each in logs[: int(g.integers(2, 4))]]
        ends = [command.end() for command in commands]
        for code, said in ends:
            if bad := wrong(code, said, (0, 2)):
                return code, bad, ()
        done = min(ends, key=lambda end: end[0] or 0)
        return *done, (0,)

    yield from _tries(attempt, g, folder)
