"""Run a study: every cell that is missing, on the same shards for all methods of a split.

Scores at the server are free, as the papers assume; each cell keeps what they would cost if clients did the scoring.
"""

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

from fedgraft import wire
from fedgraft.contracts import Task
from fedgraft.engine.plan import CLIENTS, HOME
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import renamed
from fedgraft.experiment.recipes.upgrading import upgraded_content
from fedgraft.experiment.running import baseline_scores
from fedgraft.experiment.running.raw_data import raw_data
from fedgraft.experiment.running.runner import execute_on
from fedgraft.reports.studies.processes import Call, Write, in_processes, on_cluster
from fedgraft.reports.studies.study import (
    AFTER,
    ALONE,
    BASELINES,
    CELLS,
    SCORING,
    Cell,
    Split,
    StoredResults,
    Study,
    write_result,
)

KEPT: Final = (
    *("metric", "better", "rounds", "validation", "test", "test_at_best_validation", "test_plain_mean"),
    *("test_per_client", "measures", "bytes", "flops", "selections", "simulated_seconds", "digest", "raw_data_bytes"),
)
"""Of a summary."""
KEPT_AFTER: Final = ("round", "validation", "test", "test_per_client")
"""Of scores after local steps."""
TIMED: Final = ("probe", "select", "update")
"""A selector's methods that the loop calls in a round."""


def run(
    study: Study,
    data_root: Path,
    folder: Path,
    seeds: int,
    jobs: int,
    say: Callable[[str], None],
    match: str = "*",
    on: str = "",
) -> None:
    """Run every cell, and score every baseline, that is not done yet.

    Args:
        study: what to run.
        data_root: the folder that holds the data sets' folders.
        folder: where finished cells and baselines are kept.
        seeds: how many paired seeds each panel has.
        jobs: processes at a time, one thread each; a cluster has as many as it has CPUs.
        say: hears a line per finished split.
        match: which cells to run, by name, as a shell matches names of files. Raises `InputError` if it fits none.
        on: "" for processes here; "ray" or "ray:ADDRESS" for a Ray cluster, whose nodes have the data in `data_root`.
    """
    every = study.cells(seeds)
    cells = [cell for cell in every if fnmatchcase(cell.key, match)]
    if not cells:
        raise InputError(f"--match {match!r} fits none of {len(every)} cells, such as {every[0].key}.")
    stored = StoredResults(folder)
    todo = [cell for cell in cells if _result(study, stored, cell) is None]
    stale = [cell for cell in todo if stored.read(cell.file) is not None]
    unfinished = set(todo)
    groups: dict[Split, list[Cell]] = {}
    for cell in cells:
        if cell in unfinished or set(study.baselines(cell.split)) - _kept(stored, cell.split).keys():
            groups.setdefault(cell.split, []).extend([cell] if cell in unfinished else [])
    say(f"{len(cells) - len(todo)} of {len(cells)} cells are done; {len(todo)} to run with {jobs} jobs.")
    if stale:
        say(f"{len(stale)} of these were done with other settings than they have now, such as {stale[0].key}.")
    for data in dict.fromkeys(split.data for split in groups if not on):
        _checked_root(study, data_root, data)
    for kind in (CELLS, BASELINES):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    left, write = len(todo), partial(write_result, folder)
    calls = [call for split, cells in groups.items() for call in _calls(study, split, cells, data_root, stored, on)]
    for call in on_cluster(calls, on, jobs, write) if on else in_processes(calls, jobs, write):
        left -= call.cells
        say(f"{call.name}; {left} cells left")


def results(study: Study, folder: Path, seeds: int) -> dict[Cell, dict[str, Any]]:
    """{cell: its result, with the baselines of its split} of the cells that are done."""
    stored = StoredResults(folder)
    by_cell = {cell: _result(study, stored, cell) for cell in study.cells(seeds)}
    return {
        cell: {**result, "baselines": _kept(stored, cell.split)}
        for cell, result in by_cell.items()
        if result is not None
    }


def _calls(
    study: Study, split: Split, cells: list[Cell], data_root: Path, stored: StoredResults, on: str
) -> list[Call]:
    """All that is to do on a split: in one process, which prepares the data once, or spread over a cluster."""
    kept, name = _kept(stored, split), f"{split.key}, seed {split.seed}"
    missing = tuple(baseline for baseline in study.baselines(split) if baseline not in kept)
    if not on:
        return [Call(partial(_run_split, study, split, cells, missing, kept, data_root), name, len(cells))]
    calls = [Call(partial(_run_split, study, split, [cell], (), kept, data_root), cell.key, 1) for cell in cells]
    if missing:
        calls.append(Call(partial(_run_split, study, split, [], missing, kept, data_root), f"baselines of {name}", 0))
    return calls


def _run_split(
    study: Study,
    split: Split,
    cells: list[Cell],
    baselines: tuple[str, ...],
    kept: Mapping[str, Any],
    data_root: Path,
    write: Write,
) -> None:
    """Cells and baselines of one split, one after another on the same shards and prepared data."""
    root = _checked_root(study, data_root, split.data)
    common = {**study.common_to(split), "runtime.workers": 0, **({"data.root": str(root)} if root else {})}
    made = jobs.load(study.recipe_for(split.data), common)
    shards = made.shards()
    base = made.fitted(shards)
    by_task: dict[Task[Any, Any], list[tuple[Cell, Job]]] = {}
    for cell in cells:
        experiment = study.experiment(split.data, cell.method, {**common, **cell.model_changes}).fitted(shards)
        by_task.setdefault(experiment.plan.task, []).append((cell, experiment))
    for alike in by_task.values():
        prepared: dict[int, Any] = {}
        for cell, experiment in alike:
            alone = study.methods[cell.method].get(ALONE)
            result = each_alone(experiment, shards) if alone else _federated(experiment, shards, prepared)
            write(cell.file, {**result, "settings": study.settings(cell)})
    known = dict(kept)
    for name in baselines:
        known |= baseline_scores.scores(base, shards, [name])
        write(split.file, known)


def _federated(experiment: Job, shards: Any, prepared: dict[int, Any]) -> dict[str, Any]:
    """Return what is kept of an experiment that was run."""
    choosing: list[float] = []
    summary = execute_on(timed(experiment, choosing), shards, prepared)
    scoring = scoring_bytes(experiment, summary)
    return {**_compact(summary), SCORING: scoring, "selection_seconds": round(sum(choosing), 3)}


def _checked_root(study: Study, data_root: Path, data: str) -> Path | None:
    """The folder of a data set; None for one that is generated. Raises `InputError` where it is not there."""
    root = study.root(data_root, data)
    if root is not None and not root.is_dir():
        raise InputError(f"--data {data_root} holds no folder {root.name!r} on {platform.node() or 'this machine'}.")
    return root


def _result(study: Study, stored: StoredResults, cell: Cell) -> dict[str, Any] | None:
    """Return a cell's result if it is one of its present settings; a result without settings counts as one."""
    result, now = stored.read(cell.file), study.settings(cell)
    return result if result is not None and upgraded_content(renamed(result.get("settings", now))) == now else None


def _compact(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page needs of a summary."""
    curve = [
        [*point[:2], *(None if x is None else round(x, 5) for x in point[3:5]), point[5], round(point[6], 3)]
        for point in summary["curve"]
    ]
    failures = {name: count for name, count in summary["failures"].items() if count}
    after = summary.get(AFTER)
    return {
        **{name: summary[name] for name in KEPT},
        **({"failures": failures} if failures else {}),
        **({AFTER: {name: after[name] for name in KEPT_AFTER}} if after else {}),
        "seconds": round(summary["seconds"], 1),
        "curve": curve,
    }


def _kept(stored: StoredResults, split: Split) -> dict[str, dict[str, float]]:
    """The baselines of a split that are done."""
    return stored.read(split.file) or {}


def each_alone(experiment: Job, shards: Sequence[Any]) -> dict[str, Any]:
    """Return what a study keeps of an experiment that every client ran by itself, scores pooled over clients.

    It is the baseline `local_only` of the experiment: each client in its own best round by validation, nothing sent,
    no curve. Raises `InputError` where a sample of clients is scored.
    """
    started, task = time.perf_counter(), experiment.plan.task
    scores = baseline_scores.scores(experiment, shards, [baseline_scores.LOCAL_ONLY])
    if not scores:
        raise InputError("Each client alone cannot be scored where evaluation.sample leaves clients out.")
    scored = scores[baseline_scores.LOCAL_ONLY]
    return {
        **{"metric": task.metric, "better": task.better, "rounds": experiment.stopping.rounds},
        **{"validation": scored["validation"], "test": scored["test"], "test_at_best_validation": scored["test"]},
        **{"measures": {"test": scored}, "bytes": {"total": 0}, SCORING: 0, "flops": None, "curve": []},
        "raw_data_bytes": raw_data(shards),
        "seconds": round(time.perf_counter() - started, 1),
    }


def scoring_bytes(experiment: Job, summary: Mapping[str, Any]) -> int:
    """Return the bytes that a run's scores would have taken with `evaluation.at = "clients"`, in both directions.

    In each scored round from the first on, each client that is scored is sent the model behind the downlink's codec,
    the most that this takes where its size varies, and answers with its sums. Where a sharing keeps count of who has
    which model, the next order would have brought it, so that scoring adds a request without one. Answers that are
    smoothed after training are scored once more. 0 where clients were charged, and where no score leaves them.
    """
    if experiment.settings.evaluation.at in (CLIENTS, HOME):
        return 0
    plan, protocol, kind = experiment.plan, Protocol.of(experiment.plan), "evaluate"
    names, sizes = protocol.request_names.get(kind, ()), (protocol.request_layouts, protocol.request_bounds)
    layout, bounds = (None, None) if plan.silent else (each.get(kind) for each in sizes)
    down = wire.message_bytes(layout, names, bounds)
    up, smoothed = (
        wire.message_bytes(protocol.reply_layouts.get(each), protocol.report(each)) for each in (kind, "smoothed")
    )
    rounds, once = len({point[0] for point in summary["curve"]} - {0}), wire.message_bytes() + smoothed
    clients: int = summary["scored"] or summary["clients"]
    return clients * (rounds * (down + up) + (once if summary.get("smoothing") else 0))


def timed(experiment: Job, seconds: list[float]) -> Job:
    """Return the experiment with a selector that notes the seconds of each call; it chooses as before."""
    selector = experiment.selector
    base = type(selector)
    calls = {name: _noting(getattr(base, name), seconds) for name in TIMED if hasattr(base, name)}
    return replace(experiment, selector=type(base.__name__, (base,), calls)(**discovery.options_of(selector)))


def _noting(call: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    def noted(*arguments: Any) -> Any:
        began = time.perf_counter()
        result = call(*arguments)
        seconds.append(time.perf_counter() - began)
        return result

    return noted
