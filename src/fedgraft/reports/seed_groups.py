"""Runs that differ in nothing but the seed: their means and spreads, and paired differences with 95 % intervals."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from fedgraft.errors import InputError
from fedgraft.experiment.folder_check import EXPERIMENT
from fedgraft.experiment.units import human_bytes
from fedgraft.reports.intervals import interval
from fedgraft.reports.stored_runs import RunFolder, open_runs

SCORE = "test_at_best_validation"
SCORES = ("validation", "test", SCORE)
_SEED = re.compile(r"seed-(\d+)")
_UNLIKE = ("seed", "description")
"""Keys in which runs of a group may differ."""


def seed_folder(folder: Path, seed: int) -> Path:
    """Return where the run of a seed is, in the folder of runs with several."""
    return folder / f"seed-{seed}"


def runs_in(folders: Sequence[Path]) -> list[Path]:
    """Return runs' folders, with those of all its seeds, ascending, for a folder of runs with several."""
    found: list[Path] = []
    for folder in folders:
        seeds = {int(match[1]): path for path in folder.glob("seed-*") if (match := _SEED.fullmatch(path.name))}
        found += [seeds[seed] for seed in sorted(seeds)] if seeds and not (folder / EXPERIMENT).exists() else [folder]
    return found


def groups(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """One row a group of runs with several seeds, ready for JSON; [] where no two runs differ in nothing but the seed.

    Args:
        folders: finished runs with one metric.

    Returns:
        Rows of: group (its name), runs (their labels), seeds, metric, better; of validation, test and
        test_at_best_validation the {"mean", "spread"} over seeds, the spread being the standard deviation, None of one
        run, and None for a score that a run lacks; bytes, likewise; and, but for the first group and where two seeds
        are common, difference {"to": the first, "seeds", "mean", "half_width": of its 95 % interval by Student's t} of
        test_at_best_validation, taken seed by seed. Raises `InputError` for a seed that a group has twice.
    """
    by_settings: list[tuple[Any, list[RunFolder]]] = []
    for run in open_runs(folders):
        settings = {key: value for key, value in run.experiment.items() if key not in _UNLIKE}
        alike = next((runs for known, runs in by_settings if known == settings), None)
        if alike is None:
            by_settings.append((settings, [run]))
        else:
            alike.append(run)
    found = [_row(runs) for _, runs in by_settings]
    if all(len(row["seeds"]) == 1 for row in found):
        return []
    first = _by_seed(by_settings[0][1])
    for row, (_, runs) in zip(found[1:], by_settings[1:], strict=True):
        if (difference := _difference(found[0]["group"], _by_seed(runs), first)) is not None:
            row["difference"] = difference
    return found


def render(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows as a table for a terminal."""
    caption = "Means over seeds ± standard deviation. Differences are paired by seed, ± their 95 % interval."
    drawn = Table(caption=Text(caption, "table.caption"), box=box.SIMPLE_HEAD, padding=0)
    drawn.caption_justify = "left"
    drawn.add_column("group", overflow="fold", min_width=8)
    for heading in ("seeds", "test at\nbest val.", "bytes", "difference"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        difference = row.get("difference")
        told = f"{difference['mean']:+.4f} ± {difference['half_width']:.4f}" if difference else ""
        cells = _shown(row[SCORE], "{:.4f}".format), _shown(row["bytes"], human_bytes)
        drawn.add_row(*map(Text, (row["group"], str(len(row["seeds"])), *cells, told)))
    return drawn


def _row(runs: Sequence[RunFolder]) -> dict[str, Any]:
    seeds = [int(run.summary["seed"]) for run in runs]
    twice = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if twice is not None and len(runs) > 1:
        alike = [str(run.path) for run in runs if run.summary["seed"] == twice]
        raise InputError(f"{' and '.join(alike)} are the same run, with seed {twice}; give one of them.")
    return {
        "group": _name(runs),
        "runs": [run.label for run in runs],
        "seeds": seeds,
        "metric": runs[0].metric,
        "better": runs[0].better,
        **{name: _over([run.summary[name] for run in runs]) for name in SCORES},
        "bytes": _over([run.summary["bytes"]["total"] for run in runs]),
    }


def _name(runs: Sequence[RunFolder]) -> str:
    """The name of the folder of all seeds, or of the first run."""
    parents = {run.path.resolve().parent for run in runs}
    of_seeds = all(_SEED.fullmatch(run.path.resolve().name) for run in runs)
    return parents.pop().name if len(parents) == 1 and of_seeds else runs[0].label


def _over(values: Sequence[float | None]) -> dict[str, float | None] | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return {"mean": mean(known), "spread": stdev(known) if len(known) > 1 else None}


def _by_seed(runs: Sequence[RunFolder]) -> dict[int, float]:
    return {int(run.summary["seed"]): run.summary[SCORE] for run in runs if run.summary[SCORE] is not None}


def _difference(to: str, one: Mapping[int, float], other: Mapping[int, float]) -> dict[str, Any] | None:
    seeds = sorted(one.keys() & other.keys())
    found = interval([one[seed] - other[seed] for seed in seeds])
    if math.isnan(found.half):
        return None
    return {"to": to, "seeds": seeds, "mean": found.middle, "half_width": found.half}


def _shown(value: Mapping[str, float | None] | None, written: Callable[[float], str]) -> str:
    if value is None or value["mean"] is None:
        return "-"
    return written(value["mean"]) + ("" if value["spread"] is None else f" ± {written(value['spread'])}")
