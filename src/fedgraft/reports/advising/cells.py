"""Finished jobs, and the limits of work and time that they are done within.

Each is a small JSON file, so that advice that is asked for again runs only what is missing.
"""

import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Final

from fedgraft.contracts.abilities.pooling import PooledTask
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.server.loop.stopping import Row, Stopping
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import AllClientsFailedError, BudgetError, FedgraftError, InputError
from fedgraft.experiment.job import Job
from fedgraft.experiment.running import baseline_scores
from fedgraft.experiment.running.loops import running
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage import disk
from fedgraft.reports.advising.questions import LOCAL, Question, Trial, key_of

TERA: Final = 10**12
SURE_ROUNDS: Final = 3
"""After so many rounds the operations of a run are told from those so far."""
WORK, TIME = "--work", "--minutes"
"""The options that limit work and time."""
Cell = dict[str, Any]
"""Result of a job: "validation" and "test"; of a federated run also "pooled", "own", "bytes" ...; or "refused".

"operations" are those of the clients that were counted for it, of baselines 0.
"""
KEPT = ("metric", "better", "clients", "rounds", "bytes", "seconds", "selections", "stopped_by", "raw_data_bytes")
"""Of a run's summary."""
Scored = list[dict[str, float]]
"""A client's scores by split, a round each."""


class StoppedError(FedgraftError):
    """A job that a limit has stopped.

    Args:
        limit: the option that sets it.
        spent: operations until then.
        needed: operations that the whole job would take, as far as it is known; 0 = not.
    """

    def __init__(self, limit: str, spent: int, needed: float = 0.0) -> None:
        super().__init__(f"stopped by {limit}")
        self.limit, self.spent, self.needed = limit, spent, needed


@dataclass(frozen=True)
class Limit:
    """The most that a job may take: so many operations, and until a moment of `time.monotonic()`; inf = no limit."""

    operations: float
    until: float

    @property
    def time_is_up(self) -> bool:
        """True once the moment has passed."""
        return time.monotonic() >= self.until

    def check(self, spent: int, share: float, sure: bool) -> None:
        """Raise `StoppedError` for a job that has taken so many operations for this share of all there is to do.

        What is counted is the same on any machine, however busy; `sure` says whether it already tells the rest.
        """
        needed = spent / share if share > 0 else float(spent)
        if sure and needed > self.operations:
            raise StoppedError(WORK, spent, needed)
        if self.time_is_up:
            raise StoppedError(TIME, spent)


def human_operations(count: float) -> str:
    """Return operations as a person reads them.

    >>> human_operations(3_400_000_000), human_operations(5e12)
    ('0.0034 TFLOP', '5 TFLOP')
    """
    return f"{count / TERA:.3g} TFLOP"


class Following:
    """Follows a run."""

    def __init__(self, stopping: Stopping, limit: Limit) -> None:
        self._stopping, self._limit = stopping, limit
        self._state: RunState | None = None
        self._scored: list[dict[str, dict[str, float]]] = []

    def after_round(self, state: RunState, row: Row) -> None:
        """Note the clients' scores. Raises `StoppedError` as soon as the run is known to take too much."""
        self._state = state
        if row.validation is not None:
            self._scored.append(state.scores)
        if not state.finished:
            self._limit.check(state.flops, self._stopping.progress(state), sure=state.round >= SURE_ROUNDS)

    def figures(self, better: str, metric: str, sizes: Sequence[int]) -> dict[str, float]:
        """Return scores over clients on validation; none where some client was never scored.

        "pooled" is that of the round that is best for all; "own", where every client keeps the round that is best on
        its own split. Smoothed answers come after the last round: they are one more, and the only one that is pooled.

        Args:
            better: "lower" or "higher".
            metric: its name.
            sizes: of the clients' validation splits.
        """
        choose = min if better == "lower" else max
        smoothed = [] if self._state is None or self._scored[-1:] == [self._state.scores] else [self._state.scores]
        having = [client for client, size in enumerate(sizes) if size]
        counts = [sizes[client] for client in having]
        rounds = [_of_clients(scores, having) for scores in [*self._scored, *smoothed]]
        rounds = [scores for scores in rounds if not any(map(math.isnan, scores))]
        if not rounds:
            return {}
        own = [choose(scores) for scores in zip(*rounds, strict=True)]
        of_all = [pooled(scores, counts, metric) for scores in (rounds[-1:] if smoothed else rounds)]
        return {"pooled": choose(of_all), "own": pooled(own, counts, metric)}


def pooled(scores: Sequence[float], sizes: Sequence[int], metric: str) -> float:
    """Return the score over all clients' examples, from those of each client; errors add up as squares.

    >>> pooled([0.5, 1.0], [3, 1], "accuracy")
    0.625
    """
    power = 2 if metric == "rmse" else 1
    total = math.fsum(n * score**power for score, n in zip(scores, sizes, strict=True))
    return float((total / max(1, sum(sizes))) ** (1 / power))


def _of_clients(scores: dict[str, dict[str, float]], clients: Sequence[int]) -> list[float]:
    return [scores.get(str(client), {}).get("validation", math.nan) for client in clients]


@dataclass(frozen=True)
class Cells:
    """Finished jobs of a question, in `cells/` and `runs/` of a folder; `done` has those that were found or run."""

    question: Question
    folder: Path
    done: dict[Trial, Cell] = field(default_factory=dict)

    def find(self, job: Trial) -> Cell | None:
        """Return the result of a job that was done with the same settings; None if it was not."""
        if job in self.done:
            return self.done[job]
        settings = self.question.settings(job)
        path = self._path(job, settings)
        try:
            cell: Cell = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise InputError(f"{path} is damaged ({error}); remove it, and it is run again.") from error
        if not isinstance(cell, dict) or cell.get("settings") != settings:
            return None
        self.done[job] = cell
        return cell

    def run(self, job: Trial, limit: Limit) -> Cell:
        """Do a job and keep its result. Raises `StoppedError` where it would take more than the limit."""
        began, settings = time.monotonic(), self.question.settings(job)
        try:
            made = self._baseline(job, limit) if job.baseline else self._federated(job, key_of(job, settings), limit)
        except BudgetError as error:
            made = {"refused": f"the budget does not pay for a round ({str(error).rstrip('.')})"}
        except AllClientsFailedError as error:
            made = {"refused": f"all clients failed in round {error.round}"}
        except InputError as error:
            made = {"refused": f"does not fit: {error}"}
        cell = {"operations": 0, **made, "job_seconds": round(time.monotonic() - began, 2), "settings": settings}
        path = self._path(job, settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        disk.swap(path, json.dumps(cell) + "\n")
        self.done[job] = cell
        return cell

    def run_folder(self, job: Trial) -> Path | None:
        """Return the stored run of a federated job; None if there is none."""
        folder = self.folder / "runs" / key_of(job, self.question.settings(job))
        return folder if (folder / "summary.json").is_file() else None

    def _path(self, job: Trial, settings: Mapping[str, Any]) -> Path:
        return self.folder / "cells" / f"{key_of(job, settings)}.json"

    def _federated(self, job: Trial, key: str, limit: Limit) -> Cell:
        experiment = self.question.experiment(job.candidate, job.seed)
        folder = self.folder / "runs" / key
        shutil.rmtree(folder, ignore_errors=True)  # of a run that did not end
        watcher = Following(experiment.stopping, limit)
        try:
            summary = execute(experiment, folder, watcher)
        except (StoppedError, BudgetError, AllClientsFailedError):
            shutil.rmtree(folder, ignore_errors=True)
            raise
        operations = {"operations": summary["flops"] or 0}
        curve = [[point[1], point[3]] for point in summary["curve"] if point[3] is not None]
        if not curve:
            return {"refused": "no round could be scored at all clients", **operations}
        better, metric = summary["better"], summary["metric"]
        best = (min if better == "lower" else max)(score for _, score in curve)
        sizes = [len(shard.rows("validation")) for shard in self.question.shards(job.seed)]
        return {
            **{name: summary[name] for name in KEPT},
            **operations,
            "validation": best,
            "pooled": best,
            "own": best,
            **watcher.figures(better, metric, sizes),
            "test": summary["test_at_best_validation"],
            "test_per_client": [*summary["test_per_client"].values()],
            "curve": curve,
        }

    def _baseline(self, job: Trial, limit: Limit) -> Cell:
        shards = self.question.shards(job.seed)
        experiment = self.question.experiment(job.candidate, job.seed)
        experiment = experiment.fitted(shards)
        try:
            if job.baseline == LOCAL:
                return trained_alone(experiment, shards, experiment.plan.task.metric, limit)
            scores = baseline_scores.scores(experiment, shards, [job.baseline]).get(job.baseline)
        except StoppedError:
            raise
        except FedgraftError as error:
            return {"refused": str(error)}
        if scores is None:
            return {"refused": "a sample of clients has no such score"}
        return {split: scores[split] for split in SCORED_SPLITS}


def equal(best: Mapping[int, float], other: Mapping[int, float]) -> bool:
    """Return whether two recipes' scores, {seed: score}, differ by no more than one standard error, seed by seed.

    That is the one-standard-error rule of Breiman et al. (1984, section 3.4.3): what is no further behind the best
    than its spread counts as good, and the cheapest is taken. Fewer than two common seeds tell nothing.

    >>> equal({1: 0.80, 2: 0.84, 3: 0.82}, {1: 0.81, 2: 0.82, 3: 0.82})
    True
    >>> equal({1: 0.80, 2: 0.84, 3: 0.82}, {1: 0.70, 2: 0.75, 3: 0.71})
    False
    """
    common = sorted(best.keys() & other.keys())
    if len(common) < 2:
        return False
    differences = [best[seed] - other[seed] for seed in common]
    return bool(abs(mean(differences)) <= stdev(differences) / len(common) ** 0.5)


def trained_alone(experiment: Job, shards: Sequence[Any], metric: str, limit: Limit) -> dict[str, Any]:
    """Return {"validation": score, "test": score} of clients that train alone, in the round that is best for all.

    And "test_per_client", each client's own test score there, in order; None where it has none; and the "operations".

    With smoothing it is the last round, whose answers each client smooths over its own edges.

    Args:
        experiment: whose model is trained, as long and with the same options.
        shards: all clients' data.
        metric: of the task.
        limit: what it may take. Raises `StoppedError` as soon as it is known to take more.
    """
    task, spent = experiment.plan.task, 0
    if (pooling := task.ability(PooledTask)) is None:
        raise InputError(f"Task {type(task).__name__} cannot be trained by each client alone.")
    clients = []
    sizes = [len(shard.rows("train")) for shard in shards]
    for done, shard in enumerate(shards, start=1):
        scores, operations = _rounds(experiment, pooling.alone(shard))
        clients.append(scores)
        spent += operations
        if done < len(shards):
            limit.check(spent, sum(sizes[:done]) / max(1, sum(sizes)), sure=True)
    having = [client for client, shard in enumerate(shards) if len(shard.rows("validation"))]
    rounds = [
        {split: _over_clients(scores, split, shards, having, metric) for split in SCORED_SPLITS}
        for scores in zip(*clients, strict=True)
    ]
    choose = min if task.better == "lower" else max
    best = choose(range(len(rounds)), key=lambda place: rounds[place]["validation"])
    tests = [scores[best]["test"] for scores in clients]
    told = [score if math.isfinite(score) else None for score in tests]
    return {**rounds[best], "test_per_client": told, "operations": spent}


def _rounds(experiment: Job, shard: Any) -> tuple[Scored, int]:
    """A client's scores in every round that is scored, those of smoothed answers alone if there are; its operations."""
    by_round: Scored = []
    smoothed = experiment.plan.smoothing is not None
    own = baseline_scores.alone(
        experiment, experiment.stopping.rounds if smoothed else experiment.settings.evaluation.every
    )

    def note(state: RunState, row: Row) -> None:
        if row.validation is not None:
            by_round.append(state.scores["0"])

    with running(own, [shard]) as (loop, _):
        state = loop.run(loop.start(), note)
        loop.smooth(state)
    return ([state.scores["0"]] if smoothed else by_round), state.flops


def _over_clients(
    scores: Sequence[dict[str, float]], split: str, shards: Sequence[Any], having: Sequence[int], metric: str
) -> float:
    """The score over the clients that have validation examples."""
    kept = [client for client in having if len(shards[client].rows(split))]
    sizes = [len(shards[client].rows(split)) for client in kept]
    return pooled([scores[client][split] for client in kept], sizes, metric)
