"""Rounds on other machines than one process has: Ray's actors, and a federation on this machine."""

import importlib.util
import json
import os
import statistics
import tempfile
from itertools import pairwise
from pathlib import Path

from federations import call
from federations import federation as federation_of
from fedgraft.methods.selectors.random import Random
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
ALIKE = ("selector.name=all", "training.schedule=constant", "baselines=[]", f"evaluation.every={ROUNDS}")
"""Every round is one message to each node, and one from it; scoring comes at the end."""


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


def federation_round_seconds() -> float:
    """Seconds of a round of three nodes over TLS on this machine, with a message of a mebibyte each way; the median."""
    _require("uvicorn")
    with tempfile.TemporaryDirectory(prefix="fedgraft-bench-") as name:
        run = Path(name) / "run"
        with federation_of(Path(name), ("fedacs", *MEBIBYTE, *ALIKE)) as fed:
            call("run", fed / "recipe.toml", "--on", fed, "--out", run, "-q", f"rounds={ROUNDS}")
        rows = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    ends = [row["seconds"] for row in rows[:-1]]  # the last is scored as well
    return statistics.median(after - before for before, after in pairwise(ends))


def _require(package: str) -> None:
    """Raise `ModuleNotFoundError` by the name of a package that is not installed."""
    if importlib.util.find_spec(package) is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)


os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of what it will do one day
