"""The table of rounds that methods need, to where the reference ends or to a target that the study fixes beforehand."""

import math
from collections.abc import Sequence
from statistics import mean
from typing import Any, TypeAlias

from fedgraft.contracts.scores import first_reaching
from fedgraft.reports.studies import seed_targets
from fedgraft.reports.studies.markdown import table
from fedgraft.reports.studies.panel_runs import PanelRuns, Run, scored_points

LAST = 3
"""Scored points at the end of a curve whose mean is what a method ends at: one round more or less is luck."""
Key: TypeAlias = tuple[str, str]
"""A model and a method."""


def part(panel: PanelRuns) -> str:
    """The table, methods down and settings across."""
    return _to_target(panel) if panel.study.target else _to_end(panel)


def rounds_to(curve: Sequence[Sequence[Any]], goal: float) -> int | None:
    """Return the first scored round whose validation accuracy is at a goal; None if there is none."""
    point = first_reaching(scored_points(curve), goal, "higher")
    return None if point is None else int(point["round"])


def ends_at(curve: Sequence[Sequence[Any]]) -> float:
    """Return the mean validation accuracy of the last scored points; nan without any."""
    scored = [point[2] for point in curve if point[2] is not None]
    return mean(scored[-LAST:]) if scored else math.nan


def _to_target(panel: PanelRuns) -> str:
    """Rounds until each seed of a method is at the target that the same seed of the target's reference sets."""
    target, rows = panel.study.target, []
    reference = target.get("reference", panel.study.reference)
    by_seed: dict[tuple[str, str, str], dict[int, Run]] = {}
    for cell, run in panel.runs.items():
        by_seed.setdefault((cell.model, cell.method, cell.split.key), {})[cell.split.seed] = run
    for model, method in map(tuple, panel.panel["runs"]):
        cells = []
        for setting in panel.settings:
            own, base = (by_seed.get((model, each, setting), {}) for each in (method, reference))
            points = seed_targets.crossings(own, seed_targets.goals(base, target))
            cells.append(seed_targets.reached(points) + seed_targets.seconds(points))
        rows.append((panel.row_label(model, method), *cells))
    goal = seed_targets.named(panel, target)
    note = (
        f"The target, which the study fixes beforehand, is {goal}, on validation with the same seed. "
        "Rounds, and in brackets simulated seconds, are means over the seeds that get there.\n"
    )
    return note + "\n" + table((f"rounds to {goal}", *panel.settings), rows)


def _to_end(panel: PanelRuns) -> str:
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
        rows.append((panel.row_label(model, method), *cells))
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
