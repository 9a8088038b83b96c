"""What a study claims of a panel: differences from the reference and from controls, and rounds to a target."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import mean
from typing import Any, Final

from fedgraft.contracts.scores import first_reaching
from fedgraft.reports.stored.comparison import LEVEL
from fedgraft.reports.studies import tables
from fedgraft.reports.studies.cells import Column, Key, PanelRuns, Run, points_of, score_of, table
from fedgraft.reports.studies.tables import LEAST_SEEDS, Differences, differences, pivot

MEANS: Final = "mean of the columns"
LAST: Final = 3
"""Scored points at the end of a curve whose mean is what a method ends at: one round more or less is luck."""
Compare = Callable[[Run, Run, float], float | None]
"""(a method's run, a control's, the target of their seed) -> the difference.

nan where the method never gets there, None where one of the runs does not know it."""


def from_reference(panel: PanelRuns, scores: Mapping[str, Column[float]]) -> str:
    """Differences from the reference, methods down and settings across, and of the means over settings.

    Seeds and sets on which options were chosen have no part. Where these are all, nothing is tested.
    """
    reference, best, digits = panel.study.reference, "lowest" if panel.lower else "highest", panel.digits
    columns, tested = panel.claimed(scores, reference)
    found = differences(columns, reference, tested)
    overall = differences({MEANS: _means([*columns.values()])}, reference, tested)
    standing = {name: tables.standings(column, panel.lower) for name, column in columns.items()} if tested else {}

    def cell(name: str, key: Key) -> str:
        return (found.text((name, key), digits) + standing.get(name, {}).get(key, "")).strip()

    rows = [
        (panel.row_label(key), *(cell(name, key) for name in columns), overall.text((MEANS, key), digits))
        for key in panel.keys
    ]
    meaning = (
        "Paired differences with 95 % intervals, which are not corrected. "
        f"{found.note(panel.label(reference))} *{best.capitalize()}*: the {best} mean of the column. "
        f"*With the {best}*: the interval of the difference from it holds 0, corrected by Bonferroni for all others of "
        f"the column. *First*: the {best}, with nobody beside it, over {LEAST_SEEDS} paired seeds or more. The mean of "
        f"the columns is corrected by Holm over its own {len(overall.p_values)} comparisons.\n"
    )
    told = panel.chosen_note(tested) + (meaning if tested else "Means of paired differences.\n")
    return f"{told}\n" + table((f"{panel.points}more than {panel.label(reference)}", *columns, MEANS), rows)


def _means(columns: Sequence[Column[float]]) -> Column[float]:
    """Each method's mean over columns, of those that have a score in all, by the seeds that they have in all."""
    everywhere = [run for run in columns[0] if all(run in column for column in columns)]
    seeds = {run: set.intersection(*({*column[run]} for column in columns)) for run in everywhere}
    return {run: {seed: mean(column[run][seed] for column in columns) for seed in seeds[run]} for run in everywhere}


def from_controls(panel: PanelRuns) -> list[str]:
    """A note and the tables that hold methods against each control; [] without any, or where nobody is held.

    A method that learns whom to choose pays only where it is better than whatever learns nothing.
    """
    study, fresh = panel.study, panel.fresh(panel.columns)
    target = study.target.get("reference", study.reference) if study.target else ""
    controls = [method for method in study.controls if any(method == name for _, name in panel.keys)]
    others = [key for key in panel.keys if key[1] not in (*controls, target)]
    columns = [(setting, control) for setting, column in fresh.items() if column for control in controls]
    if not (others and columns):
        return []
    asked: dict[str, Compare] = {
        f"{panel.points}more than": lambda own, base, _: panel.unit * (score_of(own) - score_of(base)),
        f"{panel.points}more at the end than": partial(_at_the_end, unit=panel.unit),
    }
    if target and not panel.lower:
        asked["% fewer rounds to the target than"] = partial(fewer, cost="round")
        asked["% fewer simulated seconds to the target than"] = partial(fewer, cost="simulated_seconds")
    several = len({setting for setting, _ in columns}) > 1
    heads = [panel.label(control) + (f", {setting}" if several else "") for setting, control in columns]
    made = []
    for title, compare in asked.items():
        places = [((setting, each), key) for key in others for setting, each in columns]
        held = {
            ((s, each), key): _held(fresh[s], key, each, target, study.target, compare) for (s, each), key in places
        }
        found = Differences(held)
        rows = [
            (panel.row_label(key), *(_against(found, (each, key), panel.digits) for each in columns))
            for key in others
            if any(held[each, key] for each in columns)
        ]
        made += [table((title, *heads), rows)] if rows else []
    note = (
        "Against each control: paired differences with 95 % intervals, which are not corrected. An asterisk: "
        f"p < {LEVEL} in a two-sided paired t-test, corrected by Holm over all comparisons of its table; a method that "
        "is not there on a seed counts among them. *At the end*: mean test score of the last "
        f"{LAST} scored rounds, whichever was best on validation. Where a control never gets to the target, all that "
        "it spent counts, which is too little.\n"
    )
    return [panel.chosen_note(True) + note, *made]


def _held(
    column: Column[Run], key: Key, control: str, reference: str, target: Mapping[str, Any], compare: Compare
) -> list[float]:
    """Return differences of a method from a control with the same model, of seeds that know one; nan: never there."""
    own, base, sets = (column.get((key[0], each), {}) for each in (key[1], control, reference))
    goal = tables.goals(sets, target)
    values = [compare(own[seed], base[seed], goal.get(seed, math.nan)) for seed in sorted(own.keys() & base.keys())]
    return [value for value in values if value is not None]


def _against(found: Differences, place: Any, digits: int) -> str:
    """A difference with its interval and mark; on how many seeds there is one, where it is not on all."""
    values = found.values[place]
    there = sum(not math.isnan(value) for value in values)
    return found.text(place, digits) if there == len(values) else f"there on {there} of {len(values)} seeds"


def end_of(run: Run) -> float | None:
    """Return the mean test score of the last scored points, whichever was best on validation; None without a curve.

    A method whose clients are federations of their own has none: each of these ends for itself.
    """
    last = [float(point["test"]) for point in points_of(run)[-LAST:]]
    return mean(last) if last else None


def _at_the_end(own: Run, base: Run, _: float, unit: float) -> float | None:
    mine, theirs = end_of(own), end_of(base)
    return None if mine is None or theirs is None else unit * (mine - theirs)


def fewer(own: Run, base: Run, goal: float, cost: str) -> float:
    """Return by how many percent less of a cost one run is at a goal than another; nan where it never is.

    Where the other never is, all that it spent counts, which is too little.
    """
    mine, theirs = (first_reaching(points_of(run), goal, "higher") for run in (own, base))
    if mine is None:
        return math.nan
    spent = (points_of(base)[-1] if theirs is None else theirs)[cost]
    return 100 * (1 - float(mine[cost]) / float(spent)) if spent else math.nan


def rounds(panel: PanelRuns) -> str:
    """Rounds to the study's target, seed by seed; without one to where the reference ends, off mean curves."""
    target, label = panel.study.target, panel.label(panel.study.reference)
    if not target:
        note = f"Where it ends is the mean of its last {LAST} scored rounds on validation, over the seeds.\n\n"
        return note + pivot(panel, f"rounds to where {label} ends", partial(_rounds_to_end, panel))
    reference, goal = target.get("reference", panel.study.reference), tables.target_name(panel, target)

    def cell(setting: str, key: Key) -> str:
        own, base = (panel.columns[setting].get((key[0], each), {}) for each in (key[1], reference))
        points = tables.crossings(own, tables.goals(base, target))
        return tables.reached(points) + tables.seconds(points)

    note = (
        f"The target, which the study fixes beforehand, is {goal}, on validation with the same seed. "
        "Rounds, and in brackets simulated seconds, are means over the seeds that get there.\n\n"
    )
    return note + pivot(panel, f"rounds to {goal}", cell)


def _rounds_to_end(panel: PanelRuns, setting: str, key: Key) -> str:
    own, base = (_mean_curve(panel.of(setting, each)) for each in (key, (key[0], panel.study.reference)))
    goal = ends_at(base)
    needed, least = rounds_to(own, goal), rounds_to(base, goal)
    return (str(needed or "never") if own else "") + (f" ({needed / least:.2f}x)" if needed and least else "")


def _mean_curve(runs: Sequence[Run]) -> list[tuple[float, ...]]:
    """(round, bytes, mean validation score over the seeds that have one, else nan) of each point of runs."""
    groups = zip(*(run["curve"] for run in runs), strict=False)
    scored = [(group[0][:2], [point[2] for point in group if point[2] is not None]) for group in groups]
    return [(*first, mean(scores) if scores else math.nan) for first, scores in scored]


def rounds_to(curve: Sequence[Sequence[Any]], goal: float) -> int | None:
    """Return the first scored round whose validation accuracy is at a goal; None if there is none."""
    point = first_reaching(points_of({"curve": curve}), goal, "higher")
    return None if point is None else int(point["round"])


def ends_at(curve: Sequence[Sequence[Any]]) -> float:
    """Return the mean validation accuracy of the last scored points; nan without any."""
    scored = [point[2] for point in curve if point[2] is not None]
    return mean(scored[-LAST:]) if scored else math.nan
