"""How a federation of made-up clients grows with their number: set-up, rounds, scoring, choosing, memory.

Clients live in two worker processes, or Ray actors, which make each one's data when they need them; ten train in a
round, and a hundred are scored. Each size runs in a process of its own; rounds of a size and of the first take turns.

Seconds of a processor are what work takes on cores that nobody else uses, of all processes together; seconds on the
clock are more where others use them. A missed limit is reported and is no error.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

# One thread per process, as in a run; before NumPy and torch are loaded, which look here once.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from fedgraft.contracts import Outcome, RuntimeOptions, Selection, View
from fedgraft.engine.server.loop.stopping import Evaluation
from fedgraft.experiment import job as jobs
from fedgraft.methods.selectors.fedacs import FedACS
from fedgraft.methods.selectors.oort import Oort
from fedgraft.methods.selectors.random import Random
from fedgraft.runtimes.processes import Processes
from fedgraft.runtimes.ray import Ray
from memory import resident
from scale_nodes import busy_seconds, workers
from served import ServedReply
from timing import in_turns, ratio
from workloads import NEVER, federation

GIB = 1 << 30
COHORT, SAMPLE, WORKERS = 10, 100, 2
SIZES = (1_000, 10_000, 100_000)
WARM_UP = 3
RATINGS, GRAPHS, INTERACTIONS = 40, 30, 20
"""Of each client on average."""
LIMITS = {
    10_000: (("setup_seconds", 60.0, "s"), ("round_over_first", 1.3, "x")),
    100_000: (("all_seconds", 600.0, "s"), ("round_over_first", 1.3, "x"), ("peak_gib", 12.0, "GiB")),
}
"""{clients: (figure, the most it may be, unit)}."""


def shops(clients: int) -> tuple[str, dict[str, Any]]:
    """Recipe and options of shops that sell a category each; clients share no statistics of users."""
    sizes = {"categories": clients, "items": 2 * clients, "users": clients, "links": 8 * clients}
    made = {f"data.{name}": size for name, size in sizes.items()}
    return "fedacs", {"data.name": "shops", "data.count": RATINGS * clients, "task.share": "nothing", **made}


def shared(clients: int) -> tuple[str, dict[str, Any]]:
    """The same where they share them, as the recipe does."""
    recipe, options = shops(clients)
    return recipe, {**options, "task.share": "users"}


def molecules(clients: int) -> tuple[str, dict[str, Any]]:
    """Recipe and options of small assays."""
    return "cefgl", {"data.name": "molecules", "data.graphs": GRAPHS, "sharing.name": "fedavg"}


def catalogue(clients: int) -> tuple[str, dict[str, Any]]:
    """Recipe and options of a user for each client."""
    sizes = {"data.users": clients, "data.count": INTERACTIONS * clients, "data.partition": "uniform"}
    return "reputation_ucb", {**sizes, "clock.devices": "lognormal", "clock.late": "wait"}


DATA: dict[str, Callable[[int], tuple[str, dict[str, Any]]]] = {
    "shops": shops,
    "shops, shared": shared,
    "molecules": molecules,
    "catalogue": catalogue,
}


RUNTIMES: dict[str, RuntimeOptions] = {"processes": Processes(workers=WORKERS), "ray": Ray(actors=WORKERS)}


@dataclass(frozen=True)
class Size:
    """Clients of a data set of `DATA`, and where they live, of `RUNTIMES`."""

    data: str
    clients: int
    runtime: str


def serve(pipe: Connection, size: Size) -> None:
    """The federation's end of the pipe: tell of the set-up, of every round that is asked for, and of the end."""
    torch.set_num_threads(1)
    began, busy = time.perf_counter(), busy_seconds()
    recipe, options = DATA[size.data](size.clients)
    changes = {"data.clients": size.clients, "selector.name": "random", "selector.clients": COHORT}
    built = jobs.load(recipe, {**options, **changes, "training.schedule": "constant"})
    shards = built.data.load(built.seed)
    built = built.fitted(shards)
    evaluation = Evaluation(every=NEVER, sample=SAMPLE)
    start = partial(RUNTIMES[size.runtime].start, replace(built.plan, rounds=0), shards)  # as many as are timed
    with federation(built.plan, shards, built.selector, evaluation=evaluation, start=start) as running:
        pipe.send({"setup_seconds": time.perf_counter() - began, "setup_processor_seconds": busy_seconds() - busy})
        while number := pipe.recv():
            before = time.perf_counter(), busy_seconds()
            running.round(number)
            pipe.send({"seconds": time.perf_counter() - before[0], "processor_seconds": busy_seconds() - before[1]})
        before = time.perf_counter(), busy_seconds()
        running.score()
        scored = {"score_seconds": time.perf_counter() - before[0]}
        parts = [resident("VmHWM", each) / GIB for each in ("self", *workers())]
        pipe.send(
            {**scored, "peak_gib": sum(parts), "server_gib": parts[0], "all_seconds": time.perf_counter() - began}
        )


def measure(name: str, runtime: str, sizes: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    """What each size takes, beside the first one.

    Args:
        name: of the data, one of `DATA`.
        runtime: one of `RUNTIMES`.
        sizes: numbers of clients, the one that others are compared with first.
        rounds: that count.
    """
    found = []
    for clients in sizes:
        with ExitStack() as stack:
            first = stack.enter_context(ServedReply(serve, Size(name, sizes[0], runtime)))
            this = stack.enter_context(ServedReply(serve, Size(name, clients, runtime)))
            in_turns({"first": first.round, "this": this.round}, rounds, WARM_UP)
            cost = {
                who: [each["processor_seconds"] for each in served.rounds[WARM_UP:]]
                for who, served in (("first", first), ("this", this))
            }
            told = {key: median(each[key] for each in this.rounds[WARM_UP:]) for key in this.rounds[-1]}
            figures = {f"round_{key}": value for key, value in told.items()}
            growth = {"round_over_first": ratio(cost, "this", "first")}
            found.append(
                {"data": name, "runtime": runtime, "clients": clients, **this.told, **figures, **growth, **this.close()}
            )
            print(line(found[-1]), flush=True)
    return found


def choosing(clients: int, rounds: int = 20) -> dict[str, float]:
    """Milliseconds of a processor that each selector takes a round; cohorts of ten, or its own."""
    rng = np.random.default_rng(0)
    ones, seconds = np.ones(clients, np.int64), rng.random(clients)
    view = View(
        1, rng.integers(1, 50, clients), ones, ones, seconds, ones > 0, rounds=rounds, bytes_budget=COHORT * rounds
    )
    found = {}
    selectors = {"random": Random(COHORT), "oort": Oort(COHORT), "fedacs": FedACS()}
    for name, selector in selectors.items():
        state: Any = selector.init(view)
        spent = []
        for number in range(1, rounds + 1):
            now = View(**{**vars(view), "round": number, "bytes_left": COHORT if name == "fedacs" else None})
            began = time.process_time()
            chosen: Selection = selector.select(state, now, rng)
            reports = {client: {"loss": 1.0, "loss_sq": 1.0} for client in chosen.clients}
            state = selector.update(state, now, Outcome(chosen.clients, reports, {}, 0.5, COHORT, {}))
            spent.append(1e3 * (time.process_time() - began))
        found[name] = median(spent)
    return found


def line(found: dict[str, Any]) -> str:
    """One row of the table."""
    return (
        f"{found['data']:>14} {found['clients']:8,} "
        f"{found['setup_seconds']:9.1f} {found['setup_processor_seconds']:10.1f} "
        f"{found['round_seconds']:8.3f} {found['round_processor_seconds']:10.3f} {found['round_over_first']:7.2f} "
        f"{found['score_seconds']:8.2f} {found['all_seconds']:8.1f} {found['server_gib']:7.2f} {found['peak_gib']:6.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="DATA", action="append", choices=[*DATA], help=f"of {', '.join(DATA)}")
    parser.add_argument("--runtime", default="processes", choices=[*RUNTIMES], help="where clients live (processes)")
    parser.add_argument("--clients", type=int, action="append", help="of 1000, which is always there, and others")
    parser.add_argument("--rounds", type=int, default=20, help="rounds that count (20)")
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args(arguments)
    sizes = [SIZES[0], *sorted({*(options.clients or SIZES)} - {SIZES[0]})]
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {COHORT} clients a round, {SAMPLE} scored, "
        f"{WORKERS} workers of {options.runtime}"
    )
    for clients in sizes:
        found = ", ".join(f"{name} {spent:.1f} ms" for name, spent in choosing(clients).items())
        print(f"choosing among {clients:,}: {found}")
    print(
        f"{'data':>14} {'clients':>8} {'set-up s':>9} {'processor':>10} {'round s':>8} {'processor':>10} {'/first':>7} "
        f"{'score s':>8} {'all s':>8} {'server':>7} {'GiB':>6}"
    )
    results = [each for name in options.only or DATA for each in measure(name, options.runtime, sizes, options.rounds)]
    for each in results:
        for name, limit, unit in LIMITS.get(each["clients"], ()):
            word = "ok" if each[name] <= limit else "MISSED"
            print(f"{each['data']:>14} {each['clients']:8,} {name:18} {each[name]:7.2f} <= {limit:g} {unit:3} {word}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
