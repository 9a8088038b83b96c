"""A federation over slow links on one machine: the server and its sites in network namespaces of their own.

    make testbed                          # reputation-UCB, eight sites with the paper's links, over TLS
    make testbed ARGS="--sites 3 --rounds 2 --recipe fedacs data.clients=3"

It needs root and iproute2. It prints real seconds beside the simulated clock's, and the bytes of the ledger beside the
counters of the server's network interface.
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fedgraft.engine.server.devices import EDGE_CLOUD
from fedgraft.runtimes.flower_federation.folders import file_name
from fedgraft.testing.network import SERVER, Refused, counted, network

RECIPE = ("reputation_ucb", "data.name=catalogue", "clock.devices=edge_cloud", "evaluation.at=clients")
START_SECONDS = 120.0
LOOK_SECONDS = 0.05
IDLE_SECONDS = 10.0
"""How long the polls of nodes that have nothing to do are counted."""


def inside(space: str, *arguments: Any) -> list[str]:
    """Return the command that runs fedgraft in a namespace."""
    return ["ip", "netns", "exec", space, sys.executable, "-m", "fedgraft", *map(str, arguments)]


def measure(root: Path, mbits: Sequence[float], recipe: Sequence[str], rounds: int) -> dict[str, Any]:
    """Run a recipe over such links, and return its figures beside those of the simulated clock."""
    changes = [f"rounds={rounds}", "yardsticks=[]", "checkpoint.every_seconds=0"]
    fed, children = root / "fed", []
    here = {**os.environ, "OMP_NUM_THREADS": "1"}
    with network(mbits) as (server, *sites):
        call(inside(server, "shard", recipe[0], "-o", fed, *recipe[1:], *changes))
        call(inside(server, "federation", "init", fed, "--host", SERVER))
        names = [file_name(name) for name in re.findall(r'"([^"]+)"', (fed / "clients.toml").read_text())]
        try:
            with open(root / "server.log", "wb") as log:
                children.append(subprocess.Popen(inside(server, "federation", "start", fed), stderr=log, env=here))
            wait_for(root / "server.log", "ready at")
            for site, name in zip(sites, names, strict=True):
                data = fed / "clients" / f"{name}.data"
                with open(root / f"{name}.log", "wb") as log:
                    command = inside(site, "node", fed / "nodes" / name, "--data", data)
                    children.append(subprocess.Popen(command, stderr=log, env=here))
                wait_for(root / f"{name}.log", "joining")
            time.sleep(5)  # until all are connected: their greetings are no part of the run
            idle = counted(server)
            time.sleep(IDLE_SECONDS)
            before, began = counted(server), time.monotonic()
            command = inside(server, "run", fed / "recipe.toml", "--on", fed, "--out", root / "run", "--json")
            said, ends = watched(command, root / "run" / "rounds.jsonl", lambda: counted(server))
            seconds, bytes_moved = time.monotonic() - began, counted(server) - before
        finally:
            for child in children:
                child.terminate()
            for child in children:
                child.wait()
    summary = json.loads(said)
    rows = [json.loads(line) for line in (root / "run" / "rounds.jsonl").read_text().splitlines()]
    return {
        "rounds": summary["rounds"],
        "digest": summary["digest"],
        "ledger_bytes": summary["bytes"]["total"],
        "interface_bytes": bytes_moved,
        "idle_bytes_a_second": (before - idle) / IDLE_SECONDS,
        "over_ledger": bytes_moved / summary["bytes"]["total"] - 1,
        "over_ledger_a_round": over_ledger_a_round(rows, ends),
        "simulated_seconds": summary["simulated_seconds"],
        "training_seconds": rows[-1]["seconds"],
        "all_seconds": seconds,
    }


def watched(command: Sequence[str], rows: Path, count: Callable[[], int]) -> tuple[str, dict[int, int]]:
    """Run a command to its end; return its output, and {rows: what `count` gave when the file had so many}."""
    counts: dict[int, int] = {}
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(call, command)
        while not done.done():
            found = len(rows.read_bytes().splitlines()) if rows.exists() else 0
            if found not in counts:
                counts[found] = count()
            time.sleep(LOOK_SECONDS)
        return done.result(), counts


def over_ledger_a_round(rows: Sequence[Mapping[str, Any]], counts: Mapping[int, int]) -> float:
    """Return what the interface carries over the ledger from the end of the first round to that of the last seen."""
    first, last = (edge(counts.keys() & range(1, len(rows) + 1), default=1) for edge in (min, max))
    if first == last:
        return math.nan
    ledger = rows[last - 1]["bytes_total"] - rows[first - 1]["bytes_total"]
    return (counts[last] - counts[first]) / float(ledger) - 1


def call(command: Sequence[str]) -> str:
    """Run a command to its end and return its output."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command[4:])}: {done.stderr.strip()}")
    return done.stdout


def wait_for(path: Path, text: str) -> None:
    """Wait until a log says something."""
    until = time.monotonic() + START_SECONDS
    while text not in path.read_text(errors="replace"):
        if time.monotonic() > until:
            raise SystemExit(f"{path.name} has not said {text!r}: {path.read_text(errors='replace')}")
        time.sleep(0.2)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sites", type=int, default=len(EDGE_CLOUD), help="with the paper's links, in its order")
    parser.add_argument("--recipe", nargs="+", default=[*RECIPE, "data.clients=8"], help="its name and overrides")
    options = parser.parse_args()
    mbits = [float(device["mbit_down"]) for device in EDGE_CLOUD[: options.sites]]
    root = Path(tempfile.mkdtemp(prefix="fedgraft-testbed-"))
    try:
        found = measure(root, mbits, options.recipe, options.rounds)
    except Refused as error:
        raise SystemExit(f"No testbed here: {error}.") from error
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for name, value in found.items():
        print(f"{name:>20}  {value:,.3f}" if isinstance(value, float) else f"{name:>20}  {value}")


if __name__ == "__main__":
    main()
