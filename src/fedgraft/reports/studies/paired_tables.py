"""Tables of a study of paired seeds: methods down, settings across, and differences with 95 % intervals.

A difference is taken seed by seed, so that what a split makes easy or hard for all methods drops out. Its interval is
Student's, over the seeds that both methods have.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, TypeAlias

from fedgraft.reports.stored.intervals import Interval, interval
from fedgraft.reports.studies import after_steps
from fedgraft.reports.studies.markdown import figures, spread, table
from fedgraft.reports.studies.panel_runs import PanelRuns

MEGA = 1e6
LAST = 3
"""Scored points at the end of a curve whose mean is what a method ends at: one round more or less is luck."""
Key = tuple[str, str]
"""A model and a method."""
Scores: TypeAlias = Mapping[str, Mapping[Key, Mapping[int, float]]]
"""{setting: {(model, method): {seed: score, in percent but for errors}}}."""


def parts(panel: PanelRuns) -> list[str]:
    """Scores, differences from the reference, costs, rounds to where it ends but of errors; [] without a score."""
    if not (scores := _scores(panel)):
        return []
    after = after_steps.part(panel)
    told = [_accuracies(panel, scores), *after, _differences(panel, scores), _costs(panel)]
    return [*told, *([] if panel.lower else [_rounds(panel)]), _yardsticks(panel)]


def paired(one: Mapping[int, float], other: Mapping[int, float]) -> list[float]:
    """Return the differences of two methods' scores, {seed: score}, over the seeds that both have."""
    return [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]


def rounds_to(curve: Sequence[Sequence[Any]], goal: float) -> int | None:
    """Return the first scored round whose validation accuracy is at a goal; None if there is none."""
    return next((int(point[0]) for point in curve if point[2] is not None and point[2] >= goal), None)


def ends_at(curve: Sequence[Sequence[Any]]) -> float:
    """Return the mean validation accuracy of the last scored points; nan without any."""
    scored = [point[2] for point in curve if point[2] is not None]
    return mean(scored[-LAST:]) if scored else math.nan


def _scores(panel: PanelRuns) -> dict[str, dict[Key, dict[int, float]]]:
    """{setting: {(model, method): {seed: test score of the round best on validation}}}."""
    by_run: dict[str, dict[Key, dict[int, float]]] = {}
    for cell, run in panel.runs.items():
        if (score := run.get("test_at_best_validation")) is not None:
            by_seed = by_run.setdefault(cell.split.key, {}).setdefault((cell.model, cell.method), {})
            by_seed[cell.split.seed] = panel.unit * score
    return by_run


def _accuracies(panel: PanelRuns, scores: Scores) -> str:
    """Mean and standard deviation; in brackets the paper's."""
    settings, rows = panel.settings, []
    for model, method in map(tuple, panel.panel["runs"]):
        cells = []
        for setting in settings:
            by_seed = scores.get(setting, {}).get((model, method), {})
            printed = panel.printed(setting).get(method)
            cells.append(
                spread(list(by_seed.values()), panel.digits) + (f" [{printed}]" if printed is not None else "")
            )
        counts = [len(scores.get(setting, {}).get((model, method), {})) for setting in settings]
        rows.append((_label(panel, model, method), *cells, str(min(counts))))
    return table((panel.measure, *settings, "seeds"), rows)


def _differences(panel: PanelRuns, scores: Scores) -> str:
    """Paired differences from the reference in each setting, and of the means over settings."""
    settings, rows, reference = panel.settings, [], panel.study.reference
    best = min if panel.lower else max
    first = {setting: best(by_run, key=lambda run: mean(by_run[run].values())) for setting, by_run in scores.items()}
    for model, method in map(tuple, panel.panel["runs"]):
        cells = []
        for setting in settings:
            by_run = scores.get(setting, {})
            own = by_run.get((model, method), {})
            text = f"{interval(paired(own, by_run.get((model, reference), {}))):.{panel.digits}}"
            if own and (model, method) == first[setting]:
                text += " (first)"
            elif own and _is_with(interval(paired(own, by_run[first[setting]])), panel.lower):
                text += " (with the first)"
            cells.append(text.strip())
        overall = _overall(panel, scores, (model, method))
        rows.append((_label(panel, model, method), *cells, f"{overall:.{panel.digits}}"))
    head = f"{'' if panel.lower else 'points '}more than {panel.label(reference)}"
    foremost = "lowest" if panel.lower else "highest"
    note = (
        f"Paired differences with 95 % intervals. *First*: the {foremost} mean of the column. *With the first*: the "
        "interval of the difference from it holds 0.\n"
    )
    return note + "\n" + table((head, *settings, "mean of the columns"), rows)


def _is_with(difference: Interval, lower: bool) -> bool:
    """Whether a difference from the first may be none."""
    return not (difference.above if lower else difference.below)


def _overall(panel: PanelRuns, scores: Scores, run: Key) -> Interval:
    """The difference of a method's mean over settings from the reference's, seed by seed."""
    reference = (run[0], panel.study.reference)
    known = [scores.get(setting, {}) for setting in panel.settings]
    if not all(run in by_run and reference in by_run for by_run in known):
        return Interval(math.nan, math.nan)
    seeds = set.intersection(*({*by_run[run]} & {*by_run[reference]} for by_run in known))
    return interval([mean(by_run[run][seed] - by_run[reference][seed] for by_run in known) for seed in sorted(seeds)])


def _costs(panel: PanelRuns) -> str:
    """Bytes of the whole run, and seconds of the process that ran it, the means over seeds."""
    rows = []
    for model, method in map(tuple, panel.panel["runs"]):
        cells = []
        for setting in panel.settings:
            runs = panel.by_setting.get((model, method, setting), [])
            seconds = [run["seconds"] for run in runs if run.get("seconds") is not None]
            size = figures(mean(run["bytes"]["total"] for run in runs) / MEGA) if runs else ""
            cells.append(size + (f" ({figures(mean(seconds))} s)" if seconds else ""))
        rows.append((_label(panel, model, method), *cells))
    note = "In brackets seconds of the run, in one process; they depend on the machine and on what else it did.\n"
    return note + "\n" + table(("MB in all", *panel.settings), rows)


def _rounds(panel: PanelRuns) -> str:
    """Rounds until a method is where the reference ends, off curves that are means over the seeds."""
    settings, rows = panel.settings, []
    curves = {setting: _mean_curves(panel, setting) for setting in settings}
    for model, method in map(tuple, panel.panel["runs"]):
        cells = []
        for setting in settings:
            base, own = (curves[setting].get((model, each)) for each in (panel.study.reference, method))
            goal = ends_at(base) if base else math.nan
            needed = rounds_to(own, goal) if own and not math.isnan(goal) else None
            least = rounds_to(base, goal) if base and not math.isnan(goal) else None
            ratio = f" ({needed / least:.2f}x)" if needed and least else ""
            cells.append((str(needed) if needed else "never" if own else "") + ratio)
        rows.append((_label(panel, model, method), *cells))
    head = f"rounds to where {panel.label(panel.study.reference)} ends"
    note = f"Where it ends is the mean of its last {LAST} scored rounds on validation, over the seeds.\n"
    return note + "\n" + table((head, *settings), rows)


def _mean_curves(panel: PanelRuns, setting: str) -> dict[Key, list[tuple[float, ...]]]:
    """{(model, method): its mean curve over the seeds}."""
    curves: dict[Key, list[tuple[float, ...]]] = {}
    for (model, method, where), each in panel.by_setting.items():
        if where != setting:
            continue
        points = zip(*(run["curve"] for run in each), strict=False)
        curves[model, method] = [(group[0][0], group[0][1], _mean([point[2] for point in group])) for group in points]
    return curves


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return mean(known) if known else math.nan


def _yardsticks(panel: PanelRuns) -> str:
    """Each yardstick in each setting."""
    yardsticks = panel.yardsticks
    names = list(dict.fromkeys(name for by_name in yardsticks.values() for name in by_name))
    if not names:
        return ""
    settings = panel.settings
    rows = [
        (name, *(spread(yardsticks.get(setting, {}).get(name, []), panel.digits) for setting in settings))
        for name in names
    ]
    return "\n" + table((f"yardsticks{'' if panel.lower else ', %'}", *settings), rows)


def _label(panel: PanelRuns, model: str, method: str) -> str:
    return f"{panel.label(method)}, {model}" if model else panel.label(method)
