"""One client lies in every round: the run ends all the same, and names whoever cannot be believed."""

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from attacks.outcomes import SECONDS, Outcome, outcome
from attacks.small_runs import experiment
from fedgraft.experiment.running.loops import loop_of
from fedgraft.testing.attackers import Attacked, scaled
from fedgraft.testing.runs import here

LIES: Final[dict[str, dict[str, Any]]] = {
    "labels flipped": {},
    "x -1": {"attack": scaled(-1)},
    "x 10": {"attack": scaled(10)},
    "x 1e3": {"attack": scaled(1e3)},
    "x 1e30": {"attack": scaled(1e30)},
    "2^31 examples, x -1": {"attack": scaled(-1), "examples": 2**31},
    "a million examples, x -1": {"attack": scaled(-1), "examples": 10**6},
    "x 1e20 once": {"attack": scaled(1e20), "rounds": (3,)},
}
NAMED: Final = ("x 1e3", "x 1e30", "2^31 examples, x -1", "a million examples, x -1", "x 1e20 once")
"""Lies that no honest client could tell: a row of the run, or its log, must name the liar."""
RUNS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "ratings": ("fedacs", {"data__clients": 4, "codec": "identity", "downlink": "identity"}),
    "ratings, low rank to clients": ("fedacs", {"data__clients": 4, "codec": "identity", "downlink": "low_rank"}),
    "nodes": ("fedais", {"data__clients": 5, "data__nodes": 200}),
    "graphs": ("sparse", {"data__clients": 5, "data__graphs": 60, "codec": "identity"}),
    "links": ("links", {"data__clients": 5, "data__nodes": 200}),
}


class _Log(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def liars(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """Each lie in each run, by a client that is drawn."""
    while True:
        for lie in LIES:
            for run in RUNS:
                seed = int(g.integers(1, 1000))
                yield outcome(partial(_lied, run, lie, seed, g), (), seconds=6 * SECONDS)


def _lied(run: str, lie: str, seed: int, g: np.random.Generator) -> str:
    name, options = RUNS[run]
    made = experiment(name, **{"rounds": 4, "seed": seed, "selector": "all", "aggregation": "mean", **options})
    shards = list(made.shards())
    liar = int(g.integers(len(shards)))
    if lie == "labels flipped" and hasattr(shards[liar], "label"):
        label = shards[liar].label
        shards[liar] = replace(shards[liar], label=(label.max() - label).astype(label.dtype))
    made, log, failed = made.fitted(shards), _Log(), set()
    logger = logging.getLogger("fedgraft")
    logger.addHandler(log)
    try:
        with closing(Attacked(here(made.plan, shards), made.plan, [liar], **LIES[lie])) as runtime:
            loop = loop_of(made, runtime)
            state = loop.run(loop.start(), lambda state, row: failed.update(row.failed))
    finally:
        logger.removeHandler(log)
    failed = {str(client) for client in (*failed, *state.clients.failing)}
    named = str(liar) in failed or any(f"client {liar}" in line.lower() for line in log.lines)
    if failed - {str(liar)}:
        return f"{run}, {lie}: honest clients are left out"
    if lie in NAMED and not named:
        return f"{run}, {lie}: nobody is named"
    return "" if state.round == 4 and np.isfinite(state.curve[-1]["test"]) else f"{run}, {lie}: no score"
