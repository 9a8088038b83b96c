"""A million nodes and five million directed edges with two columns each, of five clients by hash: seconds and memory.

    python benchmarks/million_edges.py [--only multigraph] [--edges 5000000] [--workers 2] [--rounds 3]

`multigraph` is the recipe `graft_multigraph` on own tables, `edge` the recipe `graft_edge` on a table of ratings. Each
federation has a process of its own that sees nothing but the files, so that peak memory is that of one alone: of
reading, cut, set-up, rounds and a scoring, in all its processes. What is made up teaches nothing; a round costs the
same. A missed limit is reported and is no error.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

# One thread per process, as in a run; before NumPy and torch are loaded, which look here once.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import torch

from fedgraft.experiment import job as jobs
from memory import resident
from scale_nodes import GIB, busy_seconds, workers
from served import ServedReply
from workloads import federation

EDGES = 5_000_000
"""Between a fifth as many nodes."""
CLIENTS = 5
LIMITS = {"round_seconds": 20, "peak_gib": 16}
"""The most a round may take, in seconds on two cores, and the peak memory of all processes, in GiB."""


@dataclass(frozen=True)
class Size:
    """A federation on files.

    Args:
        recipe: its name.
        changes: what differs from it, the files among them.
        workers: processes that serve clients.
    """

    recipe: str
    changes: dict[str, Any]
    workers: int


def own_tables(folder: Path, edges: int) -> dict[str, Any]:
    """Write accounts and transfers, one account in a hundred of fraud, and return the options of own tables."""
    g, nodes = np.random.default_rng(0), edges // 5
    account, (source, target) = np.arange(nodes), g.integers(0, nodes, (2, edges))
    client = (account * 2_654_435_761 % 2**32) % CLIENTS  # Knuth's multiplicative hash
    fraud, balance = (g.random(nodes) < 0.01).astype(np.int64), g.gamma(2, 100, nodes).round(2)
    table = {"node": account, "label": fraud, "client": client, "balance": balance}
    pd.DataFrame(table).to_csv(folder / "nodes.csv", index=False)
    amount, when = g.gamma(2, 100, edges).round(2), g.integers(0, 720, edges)
    table = {"source": source, "target": target, "amount": amount, "time": when}
    pd.DataFrame(table).to_csv(folder / "edges.csv", index=False)
    read = {"nodes": str(folder / "nodes.csv"), "edges": str(folder / "edges.csv")}
    carried = {"edge_features": ["amount"], "time": "time", "directed": True}
    return {f"data.{name}": value for name, value in {"name": "nodes", **read, **carried}.items()}


def ratings(folder: Path, edges: int) -> dict[str, Any]:
    """Write a table of ratings as that of the data set `bitcoin`, and return its options."""
    g = np.random.default_rng(0)
    source, target = g.integers(0, edges // 5, (2, edges))
    rating = g.choice([-5, 1, 2, 3, 10], edges)
    table = {"from": source, "to": target, "feature": rating, "time": g.integers(0, 10**8, edges)}
    pd.DataFrame(table).to_csv(folder / "soc-sign-bitcoinotc.csv", index=False)
    return {"data.root": str(folder), "data.clients": CLIENTS}


CASES: dict[str, tuple[str, Callable[[Path, int], dict[str, Any]]]] = {
    "multigraph": ("graft_multigraph", own_tables),
    "edge": ("graft_edge", ratings),
}


def serve(pipe: Connection, size: Size) -> None:
    """The federation's end of the pipe: tell of reading and set-up, of every round asked for, and of the end."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    built = jobs.load(size.recipe, {**size.changes, "baselines": []}).agreed()
    shards = built.shards()
    built = built.fitted(shards)
    read = time.perf_counter()
    told = {"read_seconds": read - began, "read_gib": resident("VmHWM") / GIB}
    with federation(built.plan, shards, built.selector, size.workers) as running:
        pipe.send({**told, "setup_seconds": time.perf_counter() - read})
        while number := pipe.recv():
            before = time.perf_counter(), busy_seconds()
            running.round(number)
            seconds = time.perf_counter() - before[0]
            pipe.send({"round_seconds": seconds, "round_processor_seconds": busy_seconds() - before[1]})
        began = time.perf_counter()
        running.score()
        each = [resident("VmHWM", process) / GIB for process in ("self", *workers())]
        pipe.send({"score_seconds": time.perf_counter() - began, "peak_gib": sum(each)})


def measure(names: Sequence[str], edges: int, processes: int, rounds: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the name and the figures of each; of rounds the median, without the first, in which workers prepare."""
    for name in names:
        recipe, write = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            size = Size(recipe, write(Path(folder), edges), processes)
            with ServedReply(serve, size) as served:
                for number in range(1, rounds + 2):
                    served.round(number)
                figures = {key: median(each[key] for each in served.rounds[1:]) for key in served.rounds[0]}
                yield name, {**served.told, **figures, **served.close()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", action="append", choices=[*CASES], help=f"of {', '.join(CASES)}")
    parser.add_argument("--edges", type=int, default=EDGES, help=f"how many ({EDGES:,})")
    parser.add_argument("--workers", type=int, default=2, help="processes that serve clients (2)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count (3)")
    given = parser.parse_args(arguments)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {given.edges:,} edges", flush=True)
    for name, found in measure(given.only or [*CASES], given.edges, given.workers, given.rounds):
        print(f"{name}: " + ", ".join(f"{key} {value:.2f}" for key, value in found.items()), flush=True)
        for key, limit in LIMITS.items():
            print(f"  {key} {found[key]:.2f} <= {limit} {'ok' if found[key] <= limit else 'MISSED'}", flush=True)


if __name__ == "__main__":
    main()
