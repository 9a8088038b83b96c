"""Tables of a study of costs: what accuracy methods reach, and what they spend until they reach a target.

The target of a setting is the best validation accuracy of the reference method, less the study's margin; both it and
the rounds that reach it are read off curves that are means over the seeds, so that one lucky round of one seed does not
count.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from fedgraft.reports.studies.markdown import figures, spread, table
from fedgraft.reports.studies.panel_runs import PanelRuns, Run

MEGA, GIGA = 1e6, 1e9
_BEFORE, _TO_TARGET = ("method", "accuracy, %", "paper", "macro-F1", "AUC"), ("round", "MB", "fewer", "GFLOP", "fewer")
_HEAD = (*_BEFORE, "MB", "GFLOP", *_TO_TARGET, "seeds")


@dataclass(frozen=True)
class Spent:
    """The costs of a mean curve when it reached a target."""

    round: int
    bytes: float
    flops: float
    test: float


def curve(runs: Sequence[Run]) -> list[tuple[float, ...]]:
    """The mean curve of several runs where all clients of all were scored.

    Points are (round, bytes, validation, test, flops), and simulated seconds, which earlier versions did not keep.
    """
    by_round: dict[int, list[Sequence[float]]] = {}
    for run in runs:
        for point in run["curve"]:
            if point[2] is None:  # where clients could not be scored
                continue
            by_round.setdefault(point[0], []).append([0.0 if x is None else x for x in point])
    return [
        (number, *(mean(values) for values in list(zip(*points, strict=False))[1:]))
        for number, points in sorted(by_round.items())
        if len(points) == len(runs)
    ]


def target(reference: Sequence[Run], margin: float) -> float:
    """The best of the mean validation curve, less the margin; nan without any."""
    return max((point[2] for point in curve(reference)), default=math.nan) - margin


def spent(runs: Sequence[Run], goal: float) -> Spent | None:
    """Return the costs of the mean curve when it first reached the goal; None if it never did."""
    for number, size, validation, test, flops, *_ in curve(runs):
        if validation >= goal:
            return Spent(int(number), size, flops, test)
    return None


def parts(panel: PanelRuns) -> list[str]:
    """The table of a setting, and beside it yardsticks and what all data weigh; [] where nothing was run."""
    if not panel.runs:
        return []
    study, printed, (model, first) = panel.study, panel.printed(panel.settings[0]), panel.panel["runs"][0]
    runs = panel.of_models
    reference = runs.get((model, study.reference), [])
    goal = target(reference, study.margin) if reference else math.nan
    known = not math.isnan(goal)
    aim = f" Target: {100 * goal:.2f} on validation." if known else ""
    base = spent(reference, goal) if known else None
    rows = []
    for each in map(tuple, panel.panel["runs"]):
        if own := runs.get(each, []):
            paper = str(printed.get(f"{each[0]}-{each[1]}", ""))
            rows.append(_row(panel.label(each[1]), own, paper, goal if known else None, base))
    yardsticks = panel.yardsticks.get(panel.settings[0], {})
    scores = ", ".join(f"{name} {spread(scores)}" for name, scores in yardsticks.items())
    return [
        f"Test accuracy of the round best on validation; all that was spent; what was spent to the target.{aim}\n",
        table(_HEAD, rows),
        *_also(panel, first, model, runs),
        f"Yardsticks on the same splits, %: {scores or 'none'}.\n",
        *filter(None, [panel.raw_data]),
    ]


def _also(panel: PanelRuns, method: str, model: str, runs: Mapping[tuple[str, str], list[Run]]) -> list[str]:
    """Return the costs of the panel's first method to the target that the other reference's best sets."""
    study, name = panel.study, panel.label(method)
    own, others = (runs.get((model, each), []) for each in (method, study.also))
    if not own or not others:
        return []
    goal = target(others, study.margin)
    ours, theirs = spent(own, goal), spent(others, goal)
    to = f"To the best of {panel.label(study.also)}, less {100 * study.margin:.1f} points ({100 * goal:.2f})"
    if ours is None or theirs is None:
        return [f"{to}: {name} never.\n"]
    fewer = [_fewer(ours.bytes, theirs.bytes), _fewer(ours.flops, theirs.flops)]
    return [
        f"{to}: {figures(theirs.bytes / MEGA)} MB and {figures(theirs.flops / GIGA)} GFLOP; {name}"
        f" {figures(ours.bytes / MEGA)} and {figures(ours.flops / GIGA)}, {fewer[0]} and {fewer[1]} fewer.\n"
    ]


def _row(label: str, runs: Sequence[Run], printed: str, goal: float | None, base: Spent | None) -> Sequence[str]:
    measured = [run.get("measures", {}).get("test", {}) for run in runs]
    scores = [100 * run["test_at_best_validation"] for run in runs if run["test_at_best_validation"] is not None]
    cells = [label, spread(scores) if scores else "no score", printed]
    for name in ("macro_f1", "auc"):
        values = [100 * each[name] for each in measured if each.get(name) is not None]
        cells.append(f"{mean(values):.1f}" if values else "")
    cells.append(figures(mean(run["bytes"]["total"] for run in runs) / MEGA))
    cells.append(figures(mean(run["flops"] or 0 for run in runs) / GIGA))
    cost = spent(runs, goal) if goal is not None else None
    if cost is None:
        cells += ["never" if goal is not None else "", "", "", "", ""]
    else:
        cells += [str(cost.round), figures(cost.bytes / MEGA), _fewer(cost.bytes, base.bytes if base else 0.0)]
        cells += [figures(cost.flops / GIGA), _fewer(cost.flops, base.flops if base else 0.0)]
    return (*cells, str(len(runs)))


def _fewer(own: float, others: float) -> str:
    return f"{100 * (1 - own / others):.2f} %" if others else ""
