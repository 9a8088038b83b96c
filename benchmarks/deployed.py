"""Rounds over engines that fedgraft does not make itself: Ray's actors, and a Flower federation on this machine."""

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedgraft.methods.selectors.random import Random
from fedgraft.runtimes.flower_federation.folders import file_name
from fedgraft.runtimes.ray import Ray
from fedgraft.runtimes.workers.in_process import InProcess
from nodes import COHORT, WARM_UP, sized
from timing import in_turns, ratio
from workloads import federation

WORKERS = 2
NODES, ROUNDS = 3, 10
MEBIBYTE = (
    "data.name=shops",
    f"data.clients={NODES}",
    "data.users=300",
    "data.items=200",
    "data.count=4000",
    "model.hidden=1670",
)
"""A recipe `fedacs` whose model is a mebibyte, and whose data are small."""
ALIKE = ("selector.name=all", "training.schedule=constant", "yardsticks=[]", f"evaluation.every={ROUNDS}")
"""Every round is one message to each node, and one from it; scoring comes at the end."""
START_SECONDS = 90.0


def ray_over_processes(share: float = 1.0, repeats: int = 15) -> float:
    """Seconds of a round on two Ray actors / on two worker processes; ten clients, PubMed's size, SAGE of 256 and 128.

    The runtimes take turns; each has 30 rounds before, after which nearly every client has trained once.
    """
    _require("ray")
    plan, shards = sized("s256", share=share)
    started = {
        "ray": lambda: Ray(actors=WORKERS).start(plan, shards),
        "processes": lambda: InProcess(plan, shards, WORKERS, threads=1),
    }
    with (
        federation(plan, shards, Random(clients=COHORT), start=started["processes"]) as ours,
        federation(plan, shards, Random(clients=COHORT), start=started["ray"]) as theirs,
    ):
        variants = {"ray": theirs.round, "processes": ours.round}
        return ratio(in_turns(variants, repeats, warm_up=WARM_UP), "ray", "processes")


def flower_round_seconds() -> float:
    """Seconds of a round of three nodes over TLS on this machine, with a message of a mebibyte each way; the median."""
    _require("flwr")
    with tempfile.TemporaryDirectory(prefix="fedgraft-bench-") as folder, nodes_of(Path(folder)) as run:
        rows = run(f"rounds={ROUNDS}")
    ends = [row["seconds"] for row in rows[:-1]]  # the last is scored as well
    return statistics.median(after - before for before, after in pairwise(ends))


@contextmanager
def nodes_of(folder: Path) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Yield what runs the recipe over a federation of this machine and returns its rows."""
    fed, children = folder / "fed", []
    call("shard", "fedacs", "-o", fed, *MEBIBYTE)
    call("federation", "init", fed)
    try:
        children.append(_begun(folder / "server.log", "ready at", "federation", "start", fed))
        for name in tomllib.loads((fed / "clients.toml").read_text())["names"]:
            own, data = fed / "nodes" / file_name(name), fed / "clients" / f"{file_name(name)}.data"
            children.append(_begun(folder / f"{own.name}.log", "joining", "node", own, "--data", data))

        def run(*changes: str) -> list[dict[str, Any]]:
            call("run", fed / "recipe.toml", "--on", fed, "--out", folder / "run", "-q", *ALIKE, *changes)
            return [json.loads(line) for line in (folder / "run" / "rounds.jsonl").read_text().splitlines()]

        yield run
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait()


def call(*words: Any) -> None:
    """Run a command of fedgraft to its end."""
    done = subprocess.run(_command(words), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"fedgraft {words[0]}: {done.stderr.strip()}")


def _begun(log: Path, text: str, *words: Any) -> "subprocess.Popen[bytes]":
    """Start a command that stays, and wait until it has said something."""
    with open(log, "wb") as out:
        child = subprocess.Popen(_command(words), stdout=out, stderr=out)
    until = time.monotonic() + START_SECONDS
    while text not in log.read_text(errors="replace"):
        if child.poll() is not None or time.monotonic() > until:
            child.kill()
            raise RuntimeError(f"fedgraft {words[0]}: {log.read_text(errors='replace')}")
        time.sleep(0.1)
    return child


def _command(words: Sequence[Any]) -> list[str]:
    return [sys.executable, "-m", "fedgraft", *map(str, words)]


def _require(package: str) -> None:
    """Raise `ModuleNotFoundError` by the name of a package that is not installed."""
    if importlib.util.find_spec(package) is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)


os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of what it will do one day
