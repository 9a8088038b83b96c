"""Run folders that are valid but made up, written the way real ones are."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedgraft.engine.server.ledger import DIRECTIONS, PURPOSES, Entry
from fedgraft.engine.server.loop.stopping import Row
from fedgraft.engine.server.run_state import FAILURES
from helpers.run_folders import created

TOML = """recipe = "{recipe}"
seed = {seed}
rounds = {rounds}

[data]
name = "{dataset}"

[selector]
name = "{recipe}"
cohort = {cohort}
"""
ENVIRONMENT = {"python": "3.11.7", "platform": "Linux", "torch": "2.13.0", "fedgraft": "0.1.0"}
WORK = 10**9
BASELINES = {"global_mean": 1.067, "central_biases": 0.949, "client_biases": 0.9495}


def write_run(
    folder: Path,
    *,
    recipe: str = "fedacs",
    dataset: str = "ciao",
    clients: int = 5,
    cohort: int = 2,
    rounds: int = 8,
    seed: int = 1,
    metric: str = "rmse",
    better: str = "lower",
    start: float = 1.4,
    end: float = 0.95,
    model_bytes: int = 10_000,
    probe_bytes: int = 0,
    seconds: float = 0.2,
    every: int = 1,
    baselines: Mapping[str, float | None] | None = None,
    failures: bool = True,
    counted: Mapping[str, int] | None = None,
    finished: bool = True,
    toml: str = "",
    explanation: Callable[[int, tuple[int, ...]], dict[str, dict[int, float]]] = lambda round, chosen: {},
) -> Path:
    """A run whose score goes exponentially from `start` to `end`; in every fifth round the first client fails.

    `terms` tells those of a round and its cohort.

    Its summary says of failures what is `counted`, of operations `WORK` a round.
    """
    g = np.random.default_rng(seed)
    experiment = toml or TOML.format(recipe=recipe, dataset=dataset, seed=seed, rounds=rounds, cohort=cohort)
    names = [f"client {c}" for c in range(clients)]
    origin = {"options": {"seed": seed}, "clients": {name: f"{dataset} {name}" for name in names}}
    store = created(folder, experiment, ENVIRONMENT, origin)
    totals = dict.fromkeys((*DIRECTIONS, *PURPOSES), 0)

    def entries(round: int, amounts: list[tuple[int, str, str, int]]) -> list[Entry]:
        for _, direction, purpose, amount in amounts:
            totals[direction] += amount
            totals[purpose] += amount
        return [Entry(round, *amount) for amount in amounts]

    def score(round: int, noise: float) -> float:
        return end + (start - end) * math.exp(-5 * round / rounds) * (1 + noise * g.normal())

    def total() -> int:
        return totals["down"] + totals["up"]

    store.append(None, entries(0, [(c, way, "header", 40) for c in range(clients) for way in DIRECTIONS]))
    curve: list[list[Any]] = [[0, total(), 0.0, score(0, 0), score(0, 0) * 1.01, 0, 0.0]]
    selections = 0
    for round in range(1, rounds + 1):
        before = total()
        chosen = tuple(sorted(int(c) for c in g.choice(clients, cohort, replace=False)))
        failed = {chosen[0]: "no reply within 30 s"} if failures and round % 5 == 0 else {}
        amounts = [(c, way, "probe", probe_bytes) for c in range(clients) for way in DIRECTIONS if probe_bytes]
        amounts += [(c, "down", name, size) for c in chosen for name, size in (("model", model_bytes), ("header", 60))]
        answered = [c for c in chosen if c not in failed]
        amounts += [
            (c, "up", name, size)
            for c in answered
            for name, size in (("model", model_bytes), ("statistics", 24), ("header", 60))
        ]
        written = entries(round, amounts)
        selections += len(chosen)
        scored = round % every == 0 or round == rounds
        validation, test = (score(round, 0.05), score(round, 0.05) * 1.01) if scored else (None, None)
        row = Row(
            round=round,
            selected=chosen,
            failed=failed,
            loss=1.0 / round if answered else math.nan,
            validation=validation,
            test=test,
            bytes=total() - before,
            bytes_total=total(),
            seconds=seconds * round,
            simulated_seconds=30.0 * round,
            flops=WORK,
            began=30.0 * (round - 1),
            timings={client: (10.0 + client, 20.0 - client / 100) for client in chosen},
            explanation=explanation(round, chosen),
        )
        store.append(row, written)
        if scored:
            curve.append([round, total(), row.seconds, validation, test, WORK * round, row.simulated_seconds])
    if finished:
        summary = {
            "recipe": recipe,
            "dataset": dataset,
            "clients": clients,
            "scored": 0,
            "seed": seed,
            "rounds": rounds,
            "stopped_by": "rounds",
            "metric": metric,
            "better": better,
            "validation": curve[-1][3],
            "test": curve[-1][4],
            "test_at_best_validation": (min if better == "lower" else max)(curve, key=lambda point: point[3])[4],
            "test_per_client": dict.fromkeys(names, curve[-1][4]),
            "test_plain_mean": curve[-1][4],
            "bytes": {"total": total(), **totals},
            "seconds": seconds * rounds,
            "simulated_seconds": 30.0 * rounds,
            "flops": WORK * rounds,
            "measures": {},
            "remarks": [],
            "selections": selections,
            "failures": {**dict.fromkeys(FAILURES, 0), **(counted or {})},
            "digest": f"{seed:032x}",
            "curve": curve,
            "baselines": BASELINES if baselines is None else dict(baselines),
            "local_baselines": [],
            "data": None,
            "raw_data_bytes": None,
            "client_alone": None,
        }
        store.finish(summary, {"weight": np.zeros(model_bytes // 2, np.float32)})
    return folder
