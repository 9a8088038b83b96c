"""Kill a federation's server at random moments, and its runs between, and see that all go on to the same bits.

    make kills                             # 20 kills of the server, six of runs; ten minutes
    make kills ARGS="--kills 5 --seed 1"

A server is killed by SIGKILL, a run is ended by SIGTERM, at a random moment: one in four within the time that an
undisturbed run takes to start and to end, the others within that of its rounds, counted from the first one that is
stored. A run that ends before is as good. Then the server is started again, and the run goes on by `fedgraft resume`.
It prints a line for each run.
"""

import argparse
import json
import math
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from federations import begun, call, names_in, site_begun

RECIPE = (
    *("fedacs", "data.name=shops", "data.clients=3", "data.users=300", "data.items=200", "data.count=6000"),
    *("rounds=60", "evaluation.every=30", "baselines=[]", "checkpoint.every_seconds=0"),
)
WAIT_SECONDS = 600.0
"""How long anything may take; what takes longer counts as one that never goes on."""
EARLY = 0.25
"""The share of moments that count from a run's start."""
LOOK_SECONDS = 0.05
NAMED = "has not answered for"
"""What the log of a run says of a node that is silent."""


@dataclass
class Processes:
    """A federation's own processes: the server, which is killed and started again, and its sites."""

    folder: Path
    fed: Path
    server: "subprocess.Popen[bytes]"
    sites: "list[subprocess.Popen[bytes]]"

    def kill_server(self) -> None:
        """Kill it as the system does, and start it again."""
        self.server.kill()
        self.server.wait()
        self.server = _server(self.folder, self.fed)


@dataclass
class Run:
    """A run: where it is, what was done to it, and how long it took."""

    path: Path
    done: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    digest: str = ""

    def rows(self) -> list[str]:
        """Return the rows of its rounds so far."""
        path = self.path / "rounds.jsonl"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def round_seconds(self) -> float:
        """How long all rounds but the first took."""
        seconds: list[float] = [json.loads(row)["seconds"] for row in self.rows()]
        return seconds[-1] - seconds[0]


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    """Yield the processes of a new federation; they end with the block."""
    fed = folder / "fed"
    call("shard", RECIPE[0], "-o", fed, *RECIPE[1:])
    call("federation", "init", fed)
    made = Processes(folder, fed, _server(folder, fed), [])
    try:
        made.sites += [site_begun(folder, fed, name) for name in names_in(fed)]
        yield made
    finally:
        for child in [made.server, *made.sites]:
            child.terminate()
        for child in [made.server, *made.sites]:
            child.wait()


def _server(folder: Path, fed: Path) -> "subprocess.Popen[bytes]":
    return begun(folder / "server.log", "ready at", "federation", "start", fed)


def disturbed(made: Processes, kills: int, seed: int) -> Iterator[Run]:
    """Yield an undisturbed run, and then runs that are killed with their server, so many times in all, or without it.

    Every fourth moment is the run's own end, by SIGTERM.
    """
    g, usual, left, moments = random.Random(seed), Run(made.folder / "run0"), kills, 0
    _played(made, usual, math.inf)
    yield usual
    number = 0
    while left:
        number += 1
        run = Run(made.folder / f"run{number}")
        while not run.digest:
            moments += 1
            ends = "" if not left else "run" if moments % 4 == 0 else "server"
            early = g.random() < EARLY
            moment = g.uniform(0.0, usual.seconds if early else usual.round_seconds) if ends else math.inf
            _played(made, run, moment, early, ends)
            left -= ends == "server"
        yield run


def _played(made: Processes, run: Run, moment: float, early: bool = True, ends: str = "") -> None:
    """Begin a run, or have it go on, until it ends or the moment has come at which it or the server is killed.

    The moment, in seconds, counts from the start, or from the first new round that is stored.
    """
    began, before = time.monotonic(), len(run.rows())
    words = ["resume", run.path] if run.path.exists() else _new(made, run)
    child = begun(run.path.with_suffix(".log"), "", *words, "--json")
    counts_from = began if early else math.inf
    while child.poll() is None and time.monotonic() < counts_from + moment:
        if counts_from == math.inf and len(run.rows()) > before:
            counts_from = time.monotonic()
        if time.monotonic() > began + WAIT_SECONDS:
            raise TimeoutError(f"{run.path.name} does not go on: {run.path.with_suffix('.log').read_text()}")
        time.sleep(LOOK_SECONDS)
    if ends == "run":
        child.send_signal(signal.SIGTERM)
    if ends == "server":
        made.kill_server()
    child.wait(WAIT_SECONDS)
    said = run.path.with_suffix(".log").read_text(errors="replace")
    run.done.update({ends: 1, NAMED: said.count(NAMED), "parts": 1})
    run.seconds += time.monotonic() - began
    if child.returncode == 0:
        run.digest = json.loads((run.path / "summary.json").read_text())["digest"]


def _new(made: Processes, run: Run) -> list[object]:
    return ["run", made.fed / "recipe.toml", "--on", made.fed, "--out", run.path]


def main() -> None:
    """Print the table; the exit code is 1 where a run ended with another digest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="of the server, in all")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    chosen = parser.parse_args()
    total: Counter[str] = Counter()
    digests = []
    with tempfile.TemporaryDirectory(prefix="fedgraft-kills-") as name, processes(Path(name)) as made:
        print("| run | server killed | run ended by SIGTERM | parts | seconds | digest |\n|---|---|---|---|---|---|")
        for number, run in enumerate(disturbed(made, chosen.kills, chosen.seed)):
            digests.append(run.digest)
            total += run.done
            killed, ended, parts = (run.done[key] for key in ("server", "run", "parts"))
            print(f"| {number} | {killed} | {ended} | {parts} | {run.seconds:.0f} | {run.digest[:12]} |", flush=True)
    same = sum(each == digests[0] for each in digests)
    print(f"\n{total['server']} kills of the server, {total['run']} of runs")
    print(f"runs with the digest of the undisturbed one: {same - 1} of {len(digests) - 1}")
    print(f"nodes named as silent: {total[NAMED]}")
    raise SystemExit(same != len(digests))


if __name__ == "__main__":
    main()
