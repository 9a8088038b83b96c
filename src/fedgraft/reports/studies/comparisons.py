"""What may be said of paired differences in a table: how many comparisons it makes, which of them hold, who is first.

All methods in all columns are compared with the reference; their p-values are corrected by Holm. The best method of a
column is compared with all others of it; these intervals are corrected by Bonferroni.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean
from typing import TypeAlias

from fedgraft.reports.stored.holm import LEVEL, holm, p_value
from fedgraft.reports.stored.intervals import interval

Run: TypeAlias = tuple[str, str]
"""A model and a method."""
BySeed: TypeAlias = Mapping[int, float]
Column: TypeAlias = Mapping[Run, BySeed]
"""{(model, method): {seed: score}} of a column of a table."""
LEAST_SEEDS = 5
"""Paired seeds from which on a method may be called first."""


@dataclass(frozen=True)
class Corrected:
    """p-values of a table's differences from the reference, {(column, run): corrected by Holm}, and their number."""

    p_values: Mapping[tuple[str, Run], float]

    @property
    def count(self) -> int:
        """How many comparisons the table makes."""
        return len(self.p_values)

    def note(self, reference: str) -> str:
        """Return the sentence that says what `mark` means in this table."""
        return (
            f"An asterisk: p < {LEVEL} in a two-sided paired t-test, corrected by Holm over all {self.count} "
            f"comparisons with {reference} in this table."
        )

    def mark(self, column: str, run: Run) -> str:
        """Return "*" behind a difference whose corrected p-value is below `LEVEL`; else ""."""
        return "*" if self.p_values.get((column, run), 1.0) < LEVEL else ""


def paired(one: BySeed, other: BySeed) -> list[float]:
    """Return the differences of two methods' scores, {seed: score}, over the seeds that both have."""
    return [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]


def corrected(columns: Mapping[str, Column], reference: str) -> Corrected:
    """Correct the p-values of all methods in all columns against the reference method with the same model.

    Fewer than two paired seeds are no comparison.
    """
    raw = {
        (name, run): p_value(paired(scores, column.get((run[0], reference), {})))
        for name, column in columns.items()
        for run, scores in column.items()
        if run[1] != reference
    }
    known = {place: p for place, p in raw.items() if not math.isnan(p)}
    return Corrected(dict(zip(known, holm([*known.values()]), strict=True)))


def standings(column: Column, lower: bool) -> dict[Run, str]:
    """Return what a column says of its best method and of those that cannot be told from it, " (first)" for one.

    The best is the one with the highest mean, or the lowest where `lower` scores are better. It is first where its
    corrected intervals from all others exclude 0, over `LEAST_SEEDS` paired seeds or more. One alone is nothing. Who
    lacks a seed that others have is left out: its mean is one of other splits.
    """
    sign, most = -1 if lower else 1, max(map(len, column.values()), default=0)
    whole = [run for run in column if len(column[run]) == most]
    best, *others = sorted(whole, key=lambda run: -sign * mean(column[run].values())) or [("", "")]
    if not others:
        return {}
    level = 1 - LEVEL / len(others)
    behind = {run: [sign * each for each in paired(column[best], column[run])] for run in others}
    alike = [run for run in others if not interval(behind[run], level).above]
    enough = min(map(len, behind.values())) >= LEAST_SEEDS
    word = "first" if enough and not alike else "lowest" if lower else "highest"
    return {best: f" ({word})"} | dict.fromkeys(alike, f" (with the {word})")
