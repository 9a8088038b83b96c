"""What choosing takes: a selector's part of a round among made-up clients, its time and its memory.

Seconds of a processor, of `probe`, `select` and `update`; a model's float32 of each client of the cohort are there for
selectors that look at uploads. By itself it prints a table of all selectors, then of some among a million clients.
"""

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

# One thread per process, as in a run; before NumPy and torch are loaded, which look here once.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from fedgraft.contracts import Outcome, ProbingSelector, Timing, View, randomness
from fedgraft.engine.allocator import give_back, keep_freed
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.options import hints_of
from memory import resident

CLIENTS, COHORT, FLOATS = 1_000, 100, 100_000
MILLION = ("random", "oort", "afl", "fedacs", "reputation_ucb")
"""Selectors that are measured among a million clients."""
UCB = ("afl", "fedacs", "reputation_ucb")
"""Of them those with a limit there."""
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Cost:
    """What a selector's part of a round takes.

    Args:
        milliseconds: of a processor, the median over rounds.
        megabytes: most memory beyond what there was before it, of all rounds.
        terms: milliseconds of a processor for what a report shows of the choice; 0 where there is nothing.
        cohort: clients of the last round.
    """

    milliseconds: float
    megabytes: float
    explanation: float
    cohort: int


class Clients:
    """Made-up clients of equal price, of random size and speed.

    Args:
        count: of them.
        cohort: how many are to train.
        floats: float32 of each update.
    """

    def __init__(self, count: int, cohort: int, floats: int) -> None:
        self.g = np.random.default_rng(0)
        self.count, self.cohort, self.floats = count, cohort, floats
        ones = np.ones(count, np.int64)
        samples, seconds = self.g.integers(20, 200, count), self.g.uniform(0.5, 5, count)
        self.view = View(
            1, samples, 1000 * ones, 600 * ones, seconds, ones > 0, better="higher", score=0.5, deadline=3.0
        )
        self._noise = self.g.standard_normal(2 * floats).astype(np.float32)

    def answers(self, names: Sequence[str]) -> dict[str, float]:
        """Return random scalars of these names."""
        return {name: float(self.g.random()) for name in names}

    def update(self) -> dict[str, Any]:
        """Return an upload, float32 [floats]."""
        begin = int(self.g.integers(self.floats))
        return {"w": self._noise[begin : begin + self.floats]}


class Choosing:
    """A selector among clients, and its state.

    Args:
        name: of the selector.
        clients: that it chooses from.
    """

    def __init__(self, name: str, clients: Clients) -> None:
        kind = discovery.find("selectors", name)
        sized = hints_of(kind).get("clients") is int
        self.selector = kind(clients=clients.cohort) if sized else kind()
        self.clients, self._view, self._begun = clients, clients.view, 0
        self.state = self.selector.init(self._view)
        if name == "fedacs":  # as if all numbers had been tried, and the cohort's had been the best
            self._begun = clients.count
            self._view = replace(self._view, bytes_left=1000 * clients.cohort)
            self.state["number_pulls"][:] = 1
            self.state["number_rewards"][clients.cohort - 1] = 1e6
            self.state["client_pulls"][:] = clients.g.integers(1, 4, clients.count)
            self.state["client_rewards"][:] = clients.g.random(clients.count)

    def round(self, number: int) -> tuple[float, float, int]:
        """Seconds of a processor that a round's choice takes, and those of its terms; clients of the cohort."""
        selector, clients = self.selector, self.clients
        number += self._begun
        view = replace(self._view, round=number, rounds=number + 100)
        probes = isinstance(selector, ProbingSelector)
        draws = [randomness.generator(0, role, number) for role in ("probe", "select")]
        began = time.process_time()
        probe = selector.probe(self.state, view, draws[0]) if probes else None
        spent = time.process_time() - began
        if probe is not None:
            told = {client: clients.answers(("loss", "loss_sq", "seconds")) for client in probe.clients}
            view = replace(view, probed=told)
        began = time.process_time()
        selection = selector.select(self.state, view, draws[1])
        spent += time.process_time() - began
        began = time.process_time()
        selector.explanation(self.state, view)
        explained = time.process_time() - began
        chosen = selection.clients
        names = sorted(selector.reports - {"update"})
        outcome = Outcome(
            selected=chosen,
            reports={client: clients.answers(names) for client in chosen},
            failed={},
            score=0.5 + 0.001 * (number % 100),
            bytes=1000 * len(chosen),
            timings={client: Timing(1.0, 1.0) for client in chosen},
            updates={client: clients.update() for client in chosen} if "update" in selector.reports else {},
        )
        began = time.process_time()
        self.state = selector.update(self.state, view, outcome)
        return spent + time.process_time() - began, explained, len(chosen)


def cost(name: str, clients: Clients, rounds: int = 9) -> Cost:
    """Measure a selector once everybody has trained, or a hundredth of very many.

    Args:
        name: of the selector.
        clients: that it chooses from.
        rounds: whose median it is; a third as many are looked at for memory.
    """
    keep_freed()  # as every process of a run has it
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        choosing = Choosing(name, clients)
        warm = min(12, 1 + clients.count // clients.cohort)
        for number in range(1, warm + 1):
            choosing.round(number)
        times = [choosing.round(warm + number) for number in range(1, rounds + 1)]
        most = max(_megabytes(choosing, warm + rounds + number) for number in range(1, 1 + max(1, rounds // 3)))
    finally:
        torch.set_num_threads(threads)
    took, explained = (1e3 * median(each[place] for each in times) for place in (0, 1))
    return Cost(took, most, explained, times[-1][2])


def slowest_ms(count: int = CLIENTS, cohort: int = COHORT, floats: int = FLOATS, rounds: int = 9) -> float:
    """Milliseconds of a processor of the slowest selector's part of a round."""
    clients = Clients(count, cohort, floats)
    return max(cost(name, clients, rounds).milliseconds for name in discovery.names("selectors"))


def most_megabytes(count: int = CLIENTS, cohort: int = COHORT, floats: int = FLOATS, rounds: int = 3) -> float:
    """Memory that the selector's part of a round takes which takes most, in megabytes."""
    clients = Clients(count, cohort, floats)
    return max(cost(name, clients, rounds).megabytes for name in discovery.names("selectors"))


def million_ms(count: int = 1_000_000, rounds: int = 9) -> float:
    """Milliseconds of a processor of the slowest of `UCB` among a million clients."""
    clients = Clients(count, COHORT, FLOATS)
    return max(cost(name, clients, rounds).milliseconds for name in UCB)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, metavar="N")
    parser.add_argument("--only", metavar="NAME", action="append", choices=discovery.names("selectors"))
    options = parser.parse_args(arguments)
    wanted = options.only or discovery.names("selectors")
    print(f"{'selector':16} {'clients':>9} {'cohort':>7} {'ms':>8} {'terms ms':>9} {'MB':>7}")
    for count in (100, CLIENTS, 1_000_000):
        clients = Clients(count, min(COHORT, count // 10), FLOATS)
        for name in wanted if count <= CLIENTS else [name for name in wanted if name in MILLION]:
            found = cost(name, clients, options.rounds)
            numbers = f"{found.milliseconds:8.1f} {found.explanation:9.1f} {found.megabytes:7.1f}"
            print(f"{name:16} {count:9,} {found.cohort:7,} {numbers}", flush=True)


def _megabytes(choosing: Choosing, number: int) -> float:
    """Most memory in a round beyond what there was before it."""
    give_back(0)  # what lies idle would be taken first, and not be seen
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the most so far is what there is now
    before = resident("VmRSS")
    choosing.round(number)
    return (resident("VmHWM") - before) / MEGABYTE


if __name__ == "__main__":
    main()
