"""Runs of one experiment with several seeds: run them, and see them from Python when they have finished.

`compare` sets runs side by side: a row a run, and a row a group of runs that differ by the seed alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from fedgraft.errors import InputError, require
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.folder_check import EXPERIMENT, SUMMARY, check_free
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.interface.finished import HasFolder, Represented, Run, folders_of
from fedgraft.interface.progress import Progress
from fedgraft.interface.python_arguments import python_words
from fedgraft.reports.figures.curve_figures import score
from fedgraft.reports.pages.html_report import write_report
from fedgraft.reports.stored.comparison import compared
from fedgraft.reports.stored.seed_groups import (
    SCORE,
    SCORES,
    Group,
    group_rows,
    grouped,
    open_named,
    run_of,
    runs_in,
    shown_over,
)
from fedgraft.reports.stored.stored_runs import AFTER_LOCAL


class Comparison(pd.DataFrame):
    """A row a run. A notebook shows `groups` below, where there are any."""

    groups: pd.DataFrame
    """A row a group: runs, seeds, metric, better; scores and bytes, means over seeds, and their standard deviations as
    X_spread; difference in test_at_best_validation to the first group, the mean of those seed by seed, and half the
    width of its 95 % interval. Empty where no two runs differ in nothing but the seed."""

    _metadata: ClassVar[list[str]] = ["groups"]

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        own = super().__repr__()
        return f"{own}\n\n{self.groups!r}" if len(self.groups) else own

    def _repr_html_(self) -> str:
        shown = [pd.DataFrame(self), *([self.groups] if len(self.groups) else [])]
        return "".join(map(notebook_repr, shown))


def notebook_repr(table: pd.DataFrame) -> str:
    """Return a table as a notebook shows it."""
    html: str = table.to_html(max_rows=pd.options.display.max_rows, max_cols=pd.options.display.max_columns)
    return html


def compare(
    runs: Sequence[HasFolder | str | Path],
    target: str | float | None = None,
    against: str | None = None,
    labels: Sequence[str] = (),
) -> Comparison:
    """Put runs side by side, a row each: scores, bytes, how often clients failed, bytes to a target score, baselines.

    Runs that differ in nothing but the seed are groups, too: `Comparison.groups`.

    Args:
        runs: finished runs, or their folders, with one metric; runs of several seeds, or their folder, stand for each.
        target: the validation score to reach, as a number or as "rmse=0.95"; None = the best that any of the runs
            reaches, worsened by 0.2 %.
        against: the cost to the target that orders the rows, lowest first: "rounds", "bytes", "seconds",
            "simulated_seconds" or "flops"; None = as given.
        labels: what to call each of `runs`, in their order; () = by their folders' names.
    """
    opened = open_named(folders_of(runs), labels)
    rows = compared(opened, target, against)
    for row in rows:
        row["failures"] = None if row["failures"] is None else sum(row["failures"].values())
        row["client_alone"] = None if row["client_alone"] is None else row["client_alone"]["test"]
    baselines = [row.pop("baselines") for row in rows]
    scores = pd.DataFrame([{f"baseline_{name}": score for name, score in each.items()} for each in baselines])
    comparison = Comparison(pd.concat([pd.DataFrame(rows), scores], axis=1).set_index("run"))
    comparison.groups = pd.DataFrame(map(_flat, group_rows(grouped(opened))))
    if len(comparison.groups):
        comparison.groups = comparison.groups.set_index("group")
    return comparison


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a group without dicts."""
    columns = {name: row[name] for name in ("group", "runs", "seeds", "metric", "better")}
    for name in (*SCORES, AFTER_LOCAL, "bytes"):
        known = row[name] or {"mean": None, "spread": None}
        columns |= {name: known["mean"], f"{name}_spread": known["spread"]}
    difference = row.get("difference", {})
    return {**columns, "difference": difference.get("mean"), "difference_half_width": difference.get("half_width")}


RECIPE = "recipe.toml"
"""What all runs of the folder have in common."""


class Runs(Represented, Sequence[Run]):
    """Finished runs that differ in nothing but the seed: a sequence of `Run`.

    Args:
        folder: where they are stored, as seed-1, seed-2 ...

    Raises `InputError` if the folder holds no such runs, or one is not finished or damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        paths = runs_in(self._folder)
        if paths == [self._folder]:
            raise InputError(f"{folder} holds no runs of several seeds, in seed-1, seed-2 ...")
        self._runs = [Run(path) for path in paths]
        for run in self._runs:
            run._within = self
        self._group: Group = grouped(open_named([self._folder]))[0]

    @property
    def folder(self) -> Path:
        """Where the runs are stored; a temporary folder, gone with this object and its runs, of runs without `out`."""
        return self._folder

    @property
    def summary(self) -> dict[str, Any]:
        """Group, runs, seeds, metric, better; of scores and bytes {"mean", "spread"}, the standard deviation."""
        return group_rows([self._group])[0]

    def compare(
        self,
        *others: HasFolder | str | Path,
        target: str | float | None = None,
        against: str | None = None,
        labels: Sequence[str] = (),
    ) -> Comparison:
        """Put the runs beside each other, and beside others; arguments as of `fedgraft.compare`."""
        return compare([self, *others], target, against, labels)

    def plot(self, against: str = "rounds") -> go.Figure:
        """Plot scores, each seed and their mean, against "rounds", "bytes" ... as `Run.plot`."""
        return score([run_of(self._group)], against)

    def report(
        self, path: str | Path, *others: HasFolder | str | Path, data_root: str | Path | None = None, **options: Any
    ) -> Path:
        """Write one HTML file of all seeds, and of other runs beside them; options as of `Run.report`."""
        root = None if data_root is None else Path(data_root)
        with python_words():
            return write_report(folders_of([self, *others]), Path(path), data_root=root, **options)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | Sequence[Run]:
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def _properties(self) -> list[tuple[str, str]]:
        summary, first = self.summary, self._runs[0].summary
        return [
            ("recipe", first["recipe"]),
            ("data", f"{first['dataset']}, {first['clients']} clients"),
            ("seeds", ", ".join(map(str, summary["seeds"]))),
            (f"{summary['metric']} on test at best validation", shown_over(summary[SCORE], "{:.4f}".format)),
            *(
                (f"seed {seed}", shown_over({"mean": run.summary[SCORE], "spread": None}, "{:.4f}".format))
                for seed, run in zip(summary["seeds"], self._runs, strict=True)
            ),
            ("bytes", shown_over(summary["bytes"], human_bytes)),
            ("folder", str(self.folder)),
        ]


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of a text such as "1,2,3"."""
    parts = [part.strip() for part in text.split(",")]
    wrong = not all(part.isascii() and part.isdigit() for part in parts)
    return check_seeds([] if wrong else list(map(int, parts)), "--seeds", text, "1,2,3")


def check_seeds(seeds: Sequence[Any], parameter: str, got: object, example: str) -> list[int]:
    """Return two or more seeds, all different. Raises `InputError` for others, with what was given and an example."""
    whole = all(isinstance(seed, int | np.integer) and not isinstance(seed, bool) and seed >= 0 for seed in seeds)
    allowed = f"two different whole numbers >= 0 or more, such as {example}"
    require(whole and len(set(seeds)) == len(seeds) > 1, parameter, allowed, got)
    return [int(seed) for seed in seeds]


def run_seeds(
    experiment: Job,
    seeds: Sequence[int],
    folder: Path,
    quiet: bool,
    say: Callable[[str], object],
    stored: Callable[[Job, Path], Job] | None = None,
) -> list[dict[str, Any]]:
    """Run an experiment with every seed, its own not counted, and return the runs' summaries, each with its folder.

    Started again, it keeps finished runs, takes up one that was stopped, and runs what is missing. `stored` returns the
    experiment with what was given in memory stored in the folder, for all seeds. Raises `InputError` for a folder that
    holds anything else, such as runs with other settings.
    """
    experiment = _begun(experiment, folder, stored)
    summaries = []
    for seed in seeds:
        path = folder / f"seed-{seed}"
        if (path / SUMMARY).exists():
            summary = RunFolder.open(path).summary()
        else:
            say(f"seed {seed}, in {path}")
            one = experiment.with_changes({"seed": seed})
            with Progress.of(one, quiet) as progress:
                begun = (path / EXPERIMENT).exists()
                summary = resume(path, progress) if begun else execute(one, path, progress)
        summaries.append({**summary, "folder": str(path)})
    return summaries


def _begun(experiment: Job, folder: Path, stored: Callable[[Job, Path], Job] | None) -> Job:
    """Note what the runs have in common, or hold it against what the folder has."""
    path = folder / RECIPE
    if is_new := not path.is_file():
        check_free(folder)
    experiment = experiment if stored is None else stored(experiment, folder)
    common = {name: value for name, value in experiment.recipe.sections.items() if name != "seed"}
    text = replace(experiment.recipe, sections=common).to_toml()
    if is_new:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    elif path.read_text() != text:
        raise InputError(f"{folder} holds runs with other settings, see {path}. Choose another folder.")
    return experiment
