"""Runs that are killed, by chance and at each operation on files, and resumed: they end as if they had not been."""

import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from attacks.children import run, start, wrong
from attacks.folders import resumed
from attacks.outcomes import HELD, Outcome
from attacks.small_runs import arguments

NAMES: Final = ("graft_node", "fedacs", "fedais", "cefgl")
OFTEN: Final[dict[str, Any]] = {"rounds": 5, "checkpoint__every_seconds": 0}


class Whole:
    """A run that nobody disturbed: its arguments, its result, how long it took and its operations on files."""

    def __init__(self, name: str, folder: Path, workers: int, **options: Any) -> None:
        self.arguments = ["run", *arguments(name, runtime__workers=workers, **OFTEN, **options), "-q", "--out"]
        out, log = folder / f"whole-{name}-{workers}", folder / "log"
        run(["--version"], log)  # what starts processes takes seconds to start
        began = time.monotonic()
        command = start([*self.arguments, out], log, count=str(out))
        code, said = command.end()
        assert code == 0, said
        self.seconds = time.monotonic() - began
        found = re.search(r"operations: (\d+)", said)
        self.operations = int(found[1]) if found else 0
        self.result = resumed(out)


def kills(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """`kill -9` at random moments, mostly without workers, once or several times."""
    known: dict[tuple[str, int], Whole] = {}
    while True:
        for name in NAMES:
            which = name, 2 if g.random() < 0.1 else 0  # workers take seconds to start
            if which not in known:
                known[which] = Whole(which[0], folder, which[1])
            yield _killed(known[which], folder, g, at_operation=False)


def kills_at_operations(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """`kill -9` at the n-th operation on files of the run's folder."""
    known: dict[str, Whole] = {}
    while True:
        for name in NAMES[:2]:
            if name not in known:
                known[name] = Whole(name, folder, 0)
            yield _killed(known[name], folder, g, at_operation=True)


def _killed(whole: Whole, folder: Path, g: np.random.Generator, at_operation: bool) -> Outcome:
    """Begin, kill, resume, kill again perhaps, and resume to the end."""
    out, log = folder / "run", folder / "log"
    shutil.rmtree(out, ignore_errors=True)
    moments = []
    for _ in range(int(g.integers(1, 4))):
        known = (out / "experiment.toml").exists()
        asked = ["resume", out, "-q"] if known else [*whole.arguments, out]
        if at_operation:
            moments.append(int(g.integers(1, whole.operations + 1)))
            start(asked, log, kill_at=moments[-1], count=str(out)).end()
        else:
            command = start(asked, log)
            command.begun()
            moments.append(g.uniform(0, whole.seconds))
            command.process.join(moments[-1])
            command.send(signal.SIGKILL)
            command.end()
    known = (out / "experiment.toml").exists()
    code, said = run(["resume", out, "-q"] if known else [*whole.arguments, out], log)
    if bad := wrong(code, said, [0]):
        return Outcome("crash", f"after kills at {moments}: {bad}")
    return HELD if resumed(out) == whole.result else Outcome("wrong", f"after kills at {moments}: another result")
