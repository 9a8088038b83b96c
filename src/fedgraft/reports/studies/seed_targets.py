"""A target that a study fixes before its runs: each seed has its own, a share of a method's best or points below it.

Every method's crossing of it is read off that seed's own curve. A mean over curves has no part: it may cross where one
of the seeds never does.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, TypeAlias

from fedgraft.contracts.scores import first_reaching
from fedgraft.reports.studies.markdown import figures, spread
from fedgraft.reports.studies.panel_runs import PanelRuns, Run, points_of

Curve = Sequence[Sequence[Any]]
"""Points of `panel_runs.POINT`; the validation score is None where clients could not be scored."""
Crossings: TypeAlias = Mapping[int, Mapping[str, float] | None]
"""{seed: the first point, by the names of `POINT`, in which its run is at its target; None if it never is}."""


def goal_of(curve: Curve, target: Mapping[str, Any]) -> float:
    """Return the target that the best validation score of a curve sets: points below it, or a share; nan without any.

    >>> round(goal_of([(0, 0, 0.5), (1, 10, 0.9)], {"below": 0.5}), 3)
    0.895
    """
    best = max((float(point[2]) for point in curve if point[2] is not None), default=math.nan)
    return best * float(target["share"]) if "share" in target else best - float(target["below"]) / 100


def goals(runs: Mapping[int, Run], target: Mapping[str, Any]) -> dict[int, float]:
    """Return {seed: the target that the reference's run with this seed sets}, of the seeds that have a score."""
    known = {seed: goal_of(run["curve"], target) for seed, run in runs.items()}
    return {seed: goal for seed, goal in known.items() if not math.isnan(goal)}


def crossings(runs: Mapping[int, Run], goal: Mapping[int, float]) -> Crossings:
    """Return {seed: the point in which its run is at its target, None if it never is}, of seeds that have both."""
    return {seed: first_reaching(points_of(run), goal[seed], "higher") for seed, run in runs.items() if seed in goal}


def reached(points: Crossings) -> str:
    """Return the rounds of crossings, mean and spread, and how many seeds get there; "" for no seed at all.

    >>> reached({1: {"round": 10}, 2: {"round": 14}, 3: None})
    '12.0 ± 2.8, 2 of 3 seeds'
    """
    rounds = [point["round"] for point in points.values() if point is not None]
    told = f"{len(rounds)} of {len(points)} seeds"
    return f"{spread(rounds, 1)}, {told}" if rounds else told if points else ""


def seconds(points: Crossings) -> str:
    """Return the mean of simulated seconds until crossings, such as " (31.4 s)"; "" where one does not know them.

    >>> seconds({1: {"simulated_seconds": 30.0}, 2: {"simulated_seconds": 34.0}, 3: None})
    ' (32 s)'
    """
    found = [point for point in points.values() if point is not None]
    known = [point["simulated_seconds"] for point in found if "simulated_seconds" in point]
    return f" ({figures(mean(known))} s)" if known and len(known) == len(found) else ""


def named(panel: PanelRuns, target: Mapping[str, Any]) -> str:
    """Return what a target is called, such as "99 % of the best of FedAvg"."""
    best = f"the best of {panel.label(target.get('reference', panel.study.reference))}"
    return f"{100 * target['share']:g} % of {best}" if "share" in target else f"{best}, less {target['below']:g} points"
