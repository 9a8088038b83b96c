"""Runs side by side, as Python sees them: a row a run, and a row a group of runs that differ by the seed alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from fedgraft.interface.finished import HasFolder, folders_of
from fedgraft.reports.stored.comparison import compared
from fedgraft.reports.stored.seed_groups import SCORES, group_rows, grouped, open_named
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
