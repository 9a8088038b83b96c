"""Tables that hold methods against each control: scores, where runs end, and rounds and seconds to a target.

A method that learns whom to choose pays only where it is better than whatever learns nothing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import mean
from typing import TypeAlias

from fedgraft.contracts.scores import first_reaching
from fedgraft.reports.stored.holm import LEVEL, holm, p_value
from fedgraft.reports.stored.intervals import interval
from fedgraft.reports.studies import chosen_on
from fedgraft.reports.studies.markdown import table
from fedgraft.reports.studies.panel_runs import PanelRuns, Run, points_of
from fedgraft.reports.studies.seed_targets import goal_of
from fedgraft.reports.studies.target_rounds import LAST

Compare: TypeAlias = Callable[[Run, Run, float], float | None]
"""(a method's run, a control's, the target of their seed) -> the difference.

nan where the method never gets there, None where one of the runs does not know it."""
Fresh: TypeAlias = Mapping[tuple[str, str, str], Mapping[int, Run]]
"""{(setting, model, method): {seed: run}}, but for seeds and sets on which options were chosen."""


def parts(panel: PanelRuns) -> list[str]:
    """A note and the tables, of a study that names controls; [] without any, or where nobody is held against them."""
    study, runs, fresh = panel.study, [tuple(run) for run in panel.panel["runs"]], _fresh(panel)
    target = study.target.get("reference", study.reference) if study.target else ""
    controls = [method for method in study.controls if any(method == name for _, name in runs)]
    others = [run for run in runs if run[1] not in (*controls, target)]
    if not (controls and others and fresh):
        return []
    points = "" if panel.lower else "points "
    asked: dict[str, Compare] = {
        f"{points}more than": lambda own, base, _: panel.unit * (_best(own) - _best(base)),
        f"{points}more at the end than": partial(_at_the_end, unit=panel.unit),
    }
    if target and not panel.lower:
        asked["% fewer rounds to the target than"] = partial(fewer, cost="round")
        asked["% fewer simulated seconds to the target than"] = partial(fewer, cost="simulated_seconds")
    return [
        chosen_on.note(panel, True) + _note(),
        *filter(None, (_table(panel, fresh, title, others, controls, target, each) for title, each in asked.items())),
    ]


def end_of(run: Run) -> float | None:
    """Return the mean test score of the last scored points, whichever was best on validation; None without a curve.

    A method whose clients are federations of their own has none: each of these ends for itself.
    """
    last = [float(point["test"]) for point in points_of(run)[-LAST:]]
    return mean(last) if last else None


def fewer(own: Run, base: Run, goal: float, cost: str) -> float:
    """Return by how many percent less of a cost one run is at a goal than another; nan where it never is.

    Where the other never is, all that it spent counts, which is too little.
    """
    mine, theirs = (first_reaching(points_of(run), goal, "higher") for run in (own, base))
    if mine is None:
        return math.nan
    spent = (points_of(base)[-1] if theirs is None else theirs)[cost]
    return 100 * (1 - float(mine[cost]) / float(spent)) if spent else math.nan


def _at_the_end(own: Run, base: Run, _: float, unit: float) -> float | None:
    mine, theirs = end_of(own), end_of(base)
    return None if mine is None or theirs is None else unit * (mine - theirs)


def _best(run: Run) -> float:
    return float(run["test_at_best_validation"])


def _note() -> str:
    return (
        "Against each control: paired differences with 95 % intervals, which are not corrected. An asterisk: "
        f"p < {LEVEL} in a two-sided paired t-test, corrected by Holm over all comparisons of its table; a method that "
        "is not there on a seed counts among them. *At the end*: mean test score of the last "
        f"{LAST} scored rounds, whichever was best on validation. Where a control never gets to the target, all that "
        "it spent counts, which is too little.\n"
    )


def _table(
    panel: PanelRuns,
    runs: Fresh,
    title: str,
    others: Sequence[tuple[str, ...]],
    controls: Sequence[str],
    target: str,
    compare: Compare,
) -> str:
    """One table, methods down, settings and controls across, its p-values corrected over all of it; "" without any."""
    settings = [setting for setting in panel.settings if any(where == setting for where, *_ in runs)]
    columns = [(setting, control) for setting in settings for control in controls]
    found: dict[tuple[int, int], list[float]] = {}
    for row, (model, method) in enumerate(others):
        for column, (setting, control) in enumerate(columns):
            own, base, sets = (runs.get((setting, model, each), {}) for each in (method, control, target))
            goals = {seed: goal_of(run["curve"], panel.study.target) for seed, run in sets.items()}
            seeds = sorted(own.keys() & base.keys())
            values = [compare(own[seed], base[seed], goals.get(seed, math.nan)) for seed in seeds]
            found[row, column] = [value for value in values if value is not None]
    tested = {place: _p_value(values) for place, values in found.items() if len(values) > 1}
    marked = {place for place, p in zip(tested, holm([*tested.values()]), strict=True) if p < LEVEL}
    places = range(len(columns))
    rows = [
        (panel.row_label(*run), *(_cell(panel, found[row, column], (row, column) in marked) for column in places))
        for row, run in enumerate(others)
        if any(found[row, column] for column in places)
    ]
    several = len(settings) > 1
    heads = [panel.label(control) + (f", {setting}" if several else "") for setting, control in columns]
    return table((title, *heads), rows) if rows else ""


def _cell(panel: PanelRuns, values: Sequence[float], marked: bool) -> str:
    """A difference with its interval and mark; on how many seeds there is one, where it is not on all."""
    known = sum(not math.isnan(value) for value in values)
    if known < len(values):
        return f"there on {known} of {len(values)} seeds"
    return f"{interval(values):.{panel.digits}}{'*' if marked else ''}"


def _p_value(values: Sequence[float]) -> float:
    """Return the p-value of differences; 1 where a seed has none, which still counts as a comparison."""
    return 1.0 if any(map(math.isnan, values)) else p_value(values)


def _fresh(panel: PanelRuns) -> Fresh:
    runs: dict[tuple[str, str, str], dict[int, Run]] = {}
    for cell, run in panel.runs.items():
        if chosen_on.is_fresh(panel, cell.split.seed, cell.split.data):
            runs.setdefault((cell.split.key, cell.model, cell.method), {})[cell.split.seed] = run
    return runs
