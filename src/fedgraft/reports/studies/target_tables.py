"""Tables of a study of costs: what accuracy methods reach, and what they spend until they reach a target.

The target of a setting is the best validation accuracy of the reference method, less the study's margin; both it and
the rounds that reach it are read off curves that are means over the seeds, so that one lucky round of one seed does not
count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from fedgraft.reports.studies.study import Cell, Study, in_sections, panel_cells

MEGA, GIGA = 1e6, 1e9

Results = Mapping[Cell, Mapping[str, Any]]
Run = Mapping[str, Any]


@dataclass(frozen=True)
class Spent:
    """What a mean curve had cost when it reached a target."""

    round: int
    bytes: float
    flops: float
    test: float


def tables(study: Study, results: Results, seeds: int) -> str:
    """All panels, each data set, partition and number of clients a table of its own."""
    return in_sections(study, lambda panel: _setting(study, panel, results, seeds))


def runs_of(panel: Mapping[str, Any], results: Results, seeds: int) -> dict[tuple[str, str], list[Run]]:
    """{(model, method): its runs, one a seed} of a panel, of those that have run."""
    found: dict[tuple[str, str], list[Run]] = {}
    for cell in panel_cells(panel, seeds):
        if cell in results:
            found.setdefault((cell.model, cell.method), []).append(results[cell])
    return found


def yardsticks_of(panel: Mapping[str, Any], results: Results, seeds: int) -> dict[str, list[float]]:
    """{yardstick: its scores in percent, one a seed}."""
    found: dict[str, dict[int, float]] = {}
    for cell in panel_cells(panel, seeds):
        for name, scores in results.get(cell, {}).get("yardsticks", {}).items():
            found.setdefault(name, {})[cell.split.seed] = 100 * scores["test"]
    return {name: list(by_seed.values()) for name, by_seed in found.items()}


def curve(runs: Sequence[Run]) -> list[tuple[int, float, float, float, float]]:
    """The mean curve of several runs: (round, bytes, validation, test, flops) where all were scored."""
    by_round: dict[int, list[Sequence[float]]] = {}
    for run in runs:
        for point in run["curve"]:
            by_round.setdefault(point[0], []).append([0.0 if x is None else x for x in point])
    return [
        (number, *(mean(point[k] for point in points) for k in range(1, 5)))  # type: ignore[misc]
        for number, points in sorted(by_round.items())
        if len(points) == len(runs)
    ]


def target(reference: Sequence[Run], margin: float) -> float:
    """The best of the mean validation curve, less the margin."""
    return max(point[2] for point in curve(reference)) - margin


def spent(runs: Sequence[Run], goal: float) -> Spent | None:
    """What the mean curve had cost when it first reached the goal; None if it never did."""
    for number, size, validation, test, flops in curve(runs):
        if validation >= goal:
            return Spent(number, size, flops, test)
    return None


def _setting(study: Study, panel: Mapping[str, Any], results: Results, seeds: int) -> str:
    runs = runs_of(panel, results, seeds)
    split = next(panel_cells(panel, 1)).split.key
    if not runs:
        return f"### {split}\n\nNot run yet.\n"
    model = panel["runs"][0][0]
    reference = runs.get((model, study.reference), [])
    goal = target(reference, study.margin) if reference else None
    said = f" Target: {100 * goal:.2f} on validation." if goal is not None else ""
    head = (
        "method",
        "accuracy, %",
        "paper",
        "macro-F1",
        "AUC",
        "MB",
        "GFLOP",
        "round",
        "MB",
        "fewer",
        "GFLOP",
        "fewer",
    )
    lines = [
        f"### {split}\n",
        f"Test accuracy of the round best on validation; all that was spent; what was spent to the target.{said}\n",
        "| " + " | ".join((*head, "seeds")) + " |",
        "|---" * (len(head) + 1) + "|",
    ]
    base = spent(reference, goal) if goal is not None else None
    for each in panel["runs"]:
        found = runs.get(tuple(each), [])
        if found:
            printed = panel["paper"].get(split, {}).get(f"{each[0]}-{each[1]}", "")
            lines.append(_row(study.methods[each[1]]["label"], found, str(printed), goal, base))
    lines += ["", *_also(study, panel["runs"][0][1], model, runs)]
    return "\n".join([*lines, _yardsticks(panel, results, seeds)])


def _also(study: Study, method: str, model: str, runs: Mapping[tuple[str, str], list[Run]]) -> list[str]:
    """What the panel's first method costs beside the other reference, to the target that this one's best sets."""
    own, others = (runs.get((model, name), []) for name in (method, study.also))
    if not own or not others:
        return []
    goal = target(others, study.margin)
    ours, theirs = spent(own, goal), spent(others, goal)
    to = f"To the best of {study.methods[study.also]['label']}, less {100 * study.margin:.1f} points ({100 * goal:.2f})"
    name = study.methods[method]["label"]
    if ours is None or theirs is None:
        return [f"{to}: {name} never.\n"]
    fewer = [_fewer(ours.bytes, theirs.bytes), _fewer(ours.flops, theirs.flops)]
    return [
        f"{to}: {_number(theirs.bytes / MEGA)} MB and {_number(theirs.flops / GIGA)} GFLOP; {name}"
        f" {_number(ours.bytes / MEGA)} and {_number(ours.flops / GIGA)}, {fewer[0]} and {fewer[1]} fewer.\n"
    ]


def _row(label: str, runs: Sequence[Run], printed: str, goal: float | None, base: Spent | None) -> str:
    measured = [run.get("measures", {}).get("test", {}) for run in runs]
    cells = [label, _spread([100 * run["test_at_best_validation"] for run in runs]), printed]
    for name in ("macro_f1", "auc"):
        values = [100 * each[name] for each in measured if each.get(name) is not None]
        cells.append(f"{mean(values):.1f}" if values else "")
    cells.append(_number(mean(run["bytes"]["total"] for run in runs) / MEGA))
    cells.append(_number(mean(run["flops"] or 0 for run in runs) / GIGA))
    cost = spent(runs, goal) if goal is not None else None
    if cost is None:
        cells += ["never" if goal is not None else "", "", "", "", ""]
    else:
        cells += [str(cost.round), _number(cost.bytes / MEGA), _fewer(cost.bytes, base.bytes if base else 0.0)]
        cells += [_number(cost.flops / GIGA), _fewer(cost.flops, base.flops if base else 0.0)]
    return "| " + " | ".join((*cells, str(len(runs)))) + " |"


def _number(value: float) -> str:
    """Three figures and more where there are more before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _fewer(own: float, others: float) -> str:
    return f"{100 * (1 - own / others):.2f} %" if others else ""


def _yardsticks(panel: Mapping[str, Any], results: Results, seeds: int) -> str:
    found = yardsticks_of(panel, results, seeds)
    said = ", ".join(f"{name} {_spread(scores)}" for name, scores in found.items())
    return f"Yardsticks on the same splits, %: {said or 'none'}.\n"


def _spread(values: Sequence[float]) -> str:
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")
