"""The table of what methods spend until they are at a target that the study fixes beforehand, seed by seed."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from fedgraft.reports.studies import chosen_on, seed_targets
from fedgraft.reports.studies.comparisons import Run
from fedgraft.reports.studies.markdown import figures_spread, table
from fedgraft.reports.studies.panel_runs import PanelRuns
from fedgraft.reports.studies.panel_runs import Run as CellRun
from fedgraft.reports.studies.savings import Savings


class Cost(NamedTuple):
    """A cost of a curve's points: its unit, its name in `panel_runs.POINT`, and how much of that a unit is."""

    unit: str
    name: str
    size: float


MB, GFLOP, SECONDS = Cost("MB", "bytes", 1e6), Cost("GFLOP", "flops", 1e9), Cost("s", "simulated_seconds", 1.0)
MARK, MARKED = " †", " A †: on seeds that options were chosen on, as there are no others; not tested."


class Crossed(NamedTuple):
    """Where the methods of a setting are at their seeds' targets, and what they save by then."""

    points: Mapping[Run, seed_targets.Crossings]
    goals: Sequence[float]
    savings: Savings


def part(panel: PanelRuns, costs: Sequence[Cost]) -> str:
    """The table of a setting, methods down and costs across; "" where nobody sets a target.

    Seeds that options were chosen on have no part in what is tested. Methods without others are marked, and described.
    """
    target, reference, rows, marked = panel.study.target, panel.study.reference, [], False
    claimed, tested = chosen_on.claimed(panel, panel.by_model, reference)
    found = crossed(panel, costs, target, claimed, tested)
    rest = crossed(panel, costs, target, panel.by_model, False)
    if not found.goals:
        return ""
    for run in map(tuple, panel.panel["runs"]):
        own = found if found.points.get(run) else rest
        if points := own.points.get(run, {}):
            cells = [seed_targets.reached(points)]
            for cost in costs:
                cells += [_spent(points, cost), own.savings.text(cost.unit, run)]
            rows.append((panel.label(run[1]) + (MARK if own is rest else ""), *cells))
            marked = marked or own is rest
    head = [column for cost in costs for column in (cost.unit, f"% fewer {cost.unit}")]
    note = (
        f"{chosen_on.note(panel, tested)}The target, which the study fixes beforehand, is "
        f"{seed_targets.named(panel, target)}, on validation with the same seed; {100 * mean(found.goals):.2f} in the "
        "mean. Rounds and what is spent are means over the seeds that get there. "
        f"{found.savings.note(panel.label(reference))}{MARKED if marked else ''}\n"
    )
    return note + "\n" + table(("to the target", "rounds", *head), rows)


def crossed(
    panel: PanelRuns,
    costs: Sequence[Cost],
    target: Mapping[str, Any],
    runs: Mapping[Run, Mapping[int, CellRun]],
    tested: bool,
    against: str = "",
) -> Crossed:
    """Return where runs of a setting, {(model, method): {seed: its run}}, are at a target, and what they save by then.

    Savings are of another method's costs, by default of the study's reference.
    """
    method = target.get("reference", panel.study.reference)
    goals = {run[0]: seed_targets.goals(by_seed, target) for run, by_seed in runs.items() if run[1] == method}
    points = {run: seed_targets.crossings(by_seed, goals.get(run[0], {})) for run, by_seed in runs.items()}
    spent = {cost.unit: {run: _costs(own, cost) for run, own in points.items()} for cost in costs}
    every = [goal for each in goals.values() for goal in each.values()]
    return Crossed(points, every, Savings(spent, against or panel.study.reference, tested))


def _costs(points: seed_targets.Crossings, cost: Cost) -> dict[int, float]:
    """Return {seed: a cost of its point in the cost's unit, nan of none}; without seeds whose run did not count it."""
    known = {seed: math.nan if point is None else point.get(cost.name) for seed, point in points.items()}
    return {seed: value / cost.size for seed, value in known.items() if value is not None}


def _spent(points: seed_targets.Crossings, cost: Cost) -> str:
    """Return mean and standard deviation over the seeds that get there; "" where none does."""
    return figures_spread([value for value in _costs(points, cost).values() if not math.isnan(value)])
