"""The table of paired differences from the reference, and what may be said of them."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TypeAlias

from fedgraft.reports.stored.intervals import Interval, interval
from fedgraft.reports.studies import chosen_on
from fedgraft.reports.studies.comparisons import LEAST_SEEDS, BySeed, Column, Corrected, corrected, paired, standings
from fedgraft.reports.studies.markdown import table
from fedgraft.reports.studies.panel_runs import PanelRuns
from fedgraft.reports.studies.study import panel_cells

MEANS = "mean of the columns"
Scores: TypeAlias = Mapping[str, Column]
"""{setting: {(model, method): {seed: score, in percent but for errors}}}."""


def part(panel: PanelRuns, scores: Scores) -> str:
    """The table, methods down and settings across, and of the means over settings.

    Seeds and sets on which options were chosen have no part. Where these are all, nothing is tested.
    """
    reference = panel.study.reference
    columns, tested = _claimed(panel, scores)
    compared = columns if tested else {}
    corrections, standing = corrected(compared, reference), {}
    means = _means([*columns.values()])
    of_means = corrected({MEANS: means} if tested else {}, reference)
    for name, column in compared.items():
        standing[name] = standings(column, panel.lower)
    rows = []
    for model, method in map(tuple, panel.panel["runs"]):
        cells, run, base = [], (model, method), (model, reference)
        for name, column in columns.items():
            text = _difference(panel, column.get(run, {}), column.get(base, {}), tested) + corrections.mark(name, run)
            cells.append((text + standing.get(name, {}).get(run, "")).strip())
        overall = _difference(panel, means.get(run, {}), means.get(base, {}), tested) + of_means.mark(MEANS, run)
        rows.append((panel.row_label(model, method), *cells, overall))
    head = f"{'' if panel.lower else 'points '}more than {panel.label(reference)}"
    told = chosen_on.note(panel, tested)
    told += _meaning(panel, corrections, of_means) if tested else "Means of paired differences.\n"
    return told + "\n" + table((head, *columns, MEANS), rows)


def _claimed(panel: PanelRuns, scores: Scores) -> tuple[dict[str, Column], bool]:
    """Return the scores that nothing was chosen on, and True; where these are too few all, and False."""
    touched = chosen_on.sets(panel)
    by_name = {cell.split.key: cell.split.data for cell in panel_cells(panel.panel, 1)}
    left: dict[str, Column] = {
        name: chosen_on.fresh(panel, scores.get(name, {})) for name, data in by_name.items() if data not in touched
    }
    if chosen_on.enough(left.values(), panel.study.reference) or not chosen_on.named(panel):
        return left, True
    return {name: scores.get(name, {}) for name in by_name}, False


def _difference(panel: PanelRuns, own: BySeed, base: BySeed, tested: bool) -> str:
    """Return a paired difference, with its interval where it is tested."""
    difference = interval(paired(own, base))
    shown = difference if tested else Interval(difference.middle, math.nan)
    return f"{shown:.{panel.digits}}"


def _meaning(panel: PanelRuns, tested: Corrected, tested_means: Corrected) -> str:
    """What intervals, asterisks and words mean, with the number of comparisons."""
    best = "lowest" if panel.lower else "highest"
    return (
        "Paired differences with 95 % intervals, which are not corrected. "
        f"{tested.note(panel.label(panel.study.reference))} *{best.capitalize()}*: the {best} mean of the column. "
        f"*With the {best}*: the interval of the difference from it holds 0, corrected by Bonferroni for all others of "
        f"the column. *First*: the {best}, with nobody beside it, over {LEAST_SEEDS} paired seeds or more. The mean of "
        f"the columns is corrected by Holm over its own {tested_means.count} comparisons.\n"
    )


def _means(columns: Sequence[Column]) -> Column:
    """Each method's mean over columns, of those that have a score in all, by the seeds that they have in all."""
    everywhere = [run for run in columns[0] if all(run in column for column in columns)]
    seeds = {run: set.intersection(*({*column[run]} for column in columns)) for run in everywhere}
    return {run: {seed: mean(column[run][seed] for column in columns) for seed in seeds[run]} for run in everywhere}
