"""Finished jobs: each is a small JSON file, so that advice that is asked for again runs only what is missing."""

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.errors import AllClientsFailedError, BudgetError, FedgraftError, InputError
from fedgraft.experiment.running import baselines
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage import disk
from fedgraft.reports.advising.candidates import LOCAL
from fedgraft.reports.advising.following import Following
from fedgraft.reports.advising.limits import Limit, StoppedError
from fedgraft.reports.advising.questions import Job, Question, key_of
from fedgraft.reports.advising.trained_alone import trained_alone

Cell = dict[str, Any]
"""Result of a job: "validation" and "test"; of a federated run also "pooled", "own", "bytes" ...; or "refused".

"operations" are those of the clients that were counted for it, of yardsticks 0.
"""

KEPT = ("metric", "better", "clients", "rounds", "bytes", "seconds", "selections", "stopped_by", "raw_data_bytes")
"""Of a run's summary."""


@dataclass(frozen=True)
class Cells:
    """Finished jobs of a question, in `cells/` and `runs/` of a folder; `done` has those that were found or run."""

    question: Question
    folder: Path
    done: dict[Job, Cell] = field(default_factory=dict)

    def find(self, job: Job) -> Cell | None:
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

    def run(self, job: Job, limit: Limit) -> Cell:
        """Do a job and keep its result. Raises `StoppedError` where it would take more than the limit."""
        began, settings = time.monotonic(), self.question.settings(job)
        try:
            made = self._yardstick(job, limit) if job.yardstick else self._federated(job, key_of(job, settings), limit)
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

    def run_folder(self, job: Job) -> Path | None:
        """Return the stored run of a federated job; None if there is none."""
        folder = self.folder / "runs" / key_of(job, self.question.settings(job))
        return folder if (folder / "summary.json").is_file() else None

    def _path(self, job: Job, settings: Mapping[str, Any]) -> Path:
        return self.folder / "cells" / f"{key_of(job, settings)}.json"

    def _federated(self, job: Job, key: str, limit: Limit) -> Cell:
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

    def _yardstick(self, job: Job, limit: Limit) -> Cell:
        shards = self.question.shards(job.seed)
        experiment = self.question.experiment(job.candidate, job.seed)
        experiment = experiment.fitted(shards)
        try:
            if job.yardstick == LOCAL:
                return trained_alone(experiment, shards, experiment.plan.task.metric, limit)
            scores = baselines.scores(experiment, shards, [job.yardstick]).get(job.yardstick)
        except StoppedError:
            raise
        except FedgraftError as error:
            return {"refused": str(error)}
        if scores is None:
            return {"refused": "a sample of clients has no such score"}
        return {split: scores[split] for split in SCORED_SPLITS}
