"""Runs that differ in nothing but the seed: their means and spreads, and paired differences with 95 % intervals."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

from fedgraft.errors import InputError
from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.experiment.storage.folder_check import EXPERIMENT
from fedgraft.reports.stored.comparison import Interval, interval
from fedgraft.reports.stored.stored_runs import AFTER_LOCAL, StoredRun, after_local_steps, open_runs

SCORE = "test_at_best_validation"
SCORES = ("validation", "test", SCORE)
CAPTION = "Means over seeds ± standard deviation. Differences are paired by seed, ± their 95 % interval."
_SEED = re.compile(r"seed-(\d+)")
_END = re.compile(r"/?seed-\d+$")
_UNLIKE = ("seed", "description")
"""Keys in which runs of a group may differ."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed: at least one, in the order in which they were given, each seed once."""

    runs: tuple[StoredRun, ...]

    @property
    def name(self) -> str:
        """The runs' common label, the name of the folder of all seeds, or the label of the first run."""
        first, real = self.runs[0].label, [run.path.resolve() for run in self.runs]
        if not all(_SEED.fullmatch(path.name) for path in real):
            return first
        stems = {_END.sub("", run.label) for run in self.runs}
        stem = stems.pop() if len(stems) == 1 else ""
        return stem or (real[0].parent.name if len({path.parent for path in real}) == 1 else first)

    @property
    def label(self) -> str:
        """The name, or the label of the only run."""
        return self.name if len(self.runs) > 1 else self.runs[0].label

    @property
    def seeds(self) -> list[int]:
        """List of int, the seed of each run."""
        return [int(run.summary["seed"]) for run in self.runs]

    @property
    def score(self) -> dict[str, float | None] | None:
        """{"mean", "spread"} of `SCORE`, as `over` has it."""
        return over([run.summary[SCORE] for run in self.runs])

    def minus(self, other: "Group") -> tuple[list[int], Interval]:
        """Return common seeds, and the mean of the differences in `SCORE` seed by seed; nan of fewer than two."""
        one, two = _by_seed(self.runs), _by_seed(other.runs)
        seeds = sorted(one.keys() & two.keys())
        return seeds, interval([one[seed] - two[seed] for seed in seeds])


def runs_in(folder: Path) -> list[Path]:
    """Return the runs of all its seeds, ascending, of a folder of runs with several; of another the folder itself."""
    seeds = {int(match[1]): path for path in folder.glob("seed-*") if (match := _SEED.fullmatch(path.name))}
    return [seeds[seed] for seed in sorted(seeds)] if seeds and not (folder / EXPERIMENT).exists() else [folder]


def open_named(folders: Sequence[Path], labels: Sequence[str] = ()) -> list[StoredRun]:
    """Return runs as `open_runs` does; a folder of runs with several seeds stands for all of them.

    Args:
        folders: of runs, or of several seeds.
        labels: what to call each folder, in order; () = as `open_runs` does. Raises `InputError` for labels that are
            empty, the same, or not as many as folders.
    """
    if not labels:
        return open_runs([path for folder in folders for path in runs_in(folder)])
    if len(labels) != len(folders):
        raise InputError(
            f"Give each of the {len(folders)} folders a label (--label), in their order, or none; got {len(labels)}: "
            f"{', '.join(map(repr, labels))}."
        )
    for place, label in enumerate(labels):
        if not label.strip():
            raise InputError(f"A label (--label) must not be empty; got {label!r} for {folders[place]}.")
        if label in labels[:place]:
            raise InputError(f"Each folder needs a label (--label) of its own; {label!r} is given twice.")
    named = {
        path: label if path == folder else f"{label}/{path.name}"
        for folder, label in zip(folders, labels, strict=True)
        for path in runs_in(folder)
    }
    return open_runs([*named], [*named.values()])


def grouped(runs: Sequence[StoredRun]) -> list[Group]:
    """Return groups of runs, in the order of their first ones; a run that repeats a seed begins another group."""
    by_settings: list[tuple[Any, list[StoredRun]]] = []
    for run in runs:
        settings = {key: value for key, value in run.experiment.items() if key not in _UNLIKE}
        seed = run.summary["seed"]
        alike = (
            kept
            for other, kept in by_settings
            if other == settings and seed not in [each.summary["seed"] for each in kept]
        )
        if (group := next(alike, None)) is None:
            by_settings.append((settings, [run]))
        else:
            group.append(run)
    return [Group(tuple(kept)) for _, kept in by_settings]


def group_rows(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """One row a group, ready for JSON; [] where no group has several seeds.

    Returns:
        Rows of: group (its name), runs (their labels), seeds, metric, better; of validation, test and
        test_at_best_validation the {"mean", "spread"} over seeds, as `over` has them; test_after_local_steps and bytes,
        likewise; and, but for the first group and where two seeds are common, difference {"to": the first, "seeds",
        "mean", "half_width": of its 95 % interval by Student's t} of test_at_best_validation, taken seed by seed.
    """
    if all(len(group.runs) == 1 for group in groups):
        return []
    rows = [_row(group) for group in groups]
    for row, group in zip(rows[1:], groups[1:], strict=True):
        seeds, difference = group.minus(groups[0])
        if len(seeds) > 1:
            numbers = {"mean": difference.middle, "half_width": difference.half}
            row["difference"] = {"to": groups[0].name, "seeds": seeds, **numbers}
    return rows


def over(values: Sequence[float | None]) -> dict[str, float | None] | None:
    """Return {"mean", "spread"} of values; the spread is the standard deviation, None of one value.

    None where a value is.
    """
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return {"mean": mean(known), "spread": stdev(known) if len(known) > 1 else None}


def render(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows as a table for a terminal."""
    drawn = Table(caption=Text(CAPTION, "table.caption"), box=box.SIMPLE_HEAD, padding=0)
    drawn.caption_justify = "left"
    drawn.add_column("group", overflow="fold", min_width=8)
    after = any(row[AFTER_LOCAL] for row in rows)
    scores = {SCORE: "test at\nbest val.", **({AFTER_LOCAL: "after\nlocal steps"} if after else {})}
    for heading in ("seeds", *scores.values(), "bytes", "difference"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        told = [shown_over(row[name], "{:.4f}".format) for name in scores]
        cells = *told, shown_over(row["bytes"], human_bytes), shown_difference(row)
        drawn.add_row(*map(Text, (row["group"], str(len(row["seeds"])), *cells)))
    return drawn


def shown_over(value: Mapping[str, float | None] | None, written: Callable[[float], str]) -> str:
    """Return what `over` made as a person reads it: "0.9500 ± 0.0100"."""
    if value is None or value["mean"] is None:
        return "-"
    return written(value["mean"]) + ("" if value["spread"] is None else f" ± {written(value['spread'])}")


def shown_difference(row: Mapping[str, Any]) -> str:
    """Return a row's difference as a person reads it; "" where it has none."""
    difference = row.get("difference")
    return f"{difference['mean']:+.4f} ± {difference['half_width']:.4f}" if difference else ""


def _row(group: Group) -> dict[str, Any]:
    first = group.runs[0]
    return {
        "group": group.name,
        "runs": [run.label for run in group.runs],
        "seeds": group.seeds,
        "metric": first.metric,
        "better": first.better,
        **{name: over([run.summary[name] for run in group.runs]) for name in SCORES},
        AFTER_LOCAL: over([after_local_steps(run.summary) for run in group.runs]),
        "bytes": over([run.summary["bytes"]["total"] for run in group.runs]),
    }


def _by_seed(runs: Sequence[StoredRun]) -> dict[int, float]:
    return {int(run.summary["seed"]): run.summary[SCORE] for run in runs if run.summary[SCORE] is not None}


def run_of(group: Group) -> StoredRun:
    """Return the only run of a group, or the mean of its runs."""
    return group.runs[0] if len(group.runs) == 1 else SeedMean(group)


class SeedMean(StoredRun):
    """The mean over seeds: of the summary's numbers, and of curves and rounds as far as all seeds came.

    Path, settings and environment are those of the first run. What not all runs know is not known.
    """

    def __init__(self, group: Group) -> None:
        first = group.runs[0]
        self.path, self.label, self.experiment = first.path, group.name, first.experiment
        self.seeds = group.runs
        self.summary = {**_mean([run.summary for run in group.runs]), "seed": ", ".join(map(str, group.seeds))}

    @cached_property
    def data(self) -> str | None:
        """The fingerprints of all seeds' data; None where one is not known."""
        known = [run.data for run in self.seeds]
        return None if None in known else " ".join(map(str, known))

    @property
    def best_validation(self) -> float:
        """The best validation score that every seed reaches; nan where one has none."""
        scores = [run.best_validation for run in self.seeds]
        if any(map(math.isnan, scores)):
            return math.nan
        return max(scores) if self.better == "lower" else min(scores)

    @cached_property
    def curve(self) -> pd.DataFrame:
        """The mean of each scored round that all seeds have."""
        return _by_round([run.curve for run in self.seeds])

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """The mean loss of each round that all seeds have."""
        return _by_round([run.rounds[["round", "loss"]] for run in self.seeds])

    @cached_property
    def ledger(self) -> pd.DataFrame:
        """The entries of all seeds."""
        return pd.concat([run.ledger for run in self.seeds], ignore_index=True)

    @property
    def sent(self) -> pd.Series:
        """Series of bytes by (direction, purpose)."""
        return super().sent / len(self.seeds)

    @cached_property
    def environment(self) -> dict[str, Any]:
        """dict, versions and machine of the first run."""
        return self.seeds[0].environment

    @cached_property
    def shared_bytes(self) -> float:
        """float, bytes of the shared parameters in 32 bits each."""
        return mean(run.shared_bytes for run in self.seeds)

    def reaching(self, target: float) -> Mapping[str, float] | None:
        """The mean of the points where seeds first reach the target; None unless all of them do."""
        points = [point for run in self.seeds if (point := run.reaching(target)) is not None]
        if len(points) < len(self.seeds):
            return None
        return {name: mean(point[name] for point in points) for name in points[0]}

    def missed(self, target: float) -> str:
        """Say how many seeds reach a target that not all of them do."""
        reached = sum(run.reaching(target) is not None for run in self.seeds)
        return f"reached by {reached} of {len(self.seeds)} seeds"


def _by_round(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the mean of tables with a column "round", in the rounds that all have; nan where one has it."""
    every = pd.concat(tables).groupby("round")
    means = every.mean().where(every.count() == len(tables))
    return means[every.size() == len(tables)].reset_index()


def _mean(values: Sequence[Any]) -> Any:
    """Return the mean of numbers, and of dicts key by key; None where one is None; of anything else the first."""
    if any(value is None for value in values):
        return None
    if all(isinstance(value, Mapping) for value in values):
        first, *others = values
        return {key: _mean([each[key] for each in values]) for key in first if all(key in other for other in others)}
    if all(isinstance(value, Real) and not isinstance(value, bool) for value in values):
        return mean(values)
    return values[0]
