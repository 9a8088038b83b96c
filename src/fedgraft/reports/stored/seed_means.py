"""The mean of runs that differ in nothing but the seed, read as one run is: what tables and figures show of a group."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from numbers import Real
from statistics import mean
from typing import Any

import pandas as pd

from fedgraft.reports.stored.seed_groups import Group
from fedgraft.reports.stored.stored_runs import StoredRun


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
