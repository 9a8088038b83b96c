"""Tables of a study of costs: what accuracy methods reach, and what they spend until they reach a target.

The target is the study's `target`: each seed has its own, and each method's crossing is read off its own curve.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import mean

from fedgraft.reports.stored.intervals import Interval, interval
from fedgraft.reports.studies import chosen_on, scoring_cost, seed_targets, target_costs
from fedgraft.reports.studies.comparisons import corrected, paired
from fedgraft.reports.studies.markdown import figures, filled, spread
from fedgraft.reports.studies.panel_runs import PanelRuns, Run

MEGA, GIGA = 1e6, 1e9
COSTS = (target_costs.MB, target_costs.GFLOP)
_BEFORE = ("method", "accuracy, %")
_BEHIND = ("paper", "macro-F1", "AUC", "MB", scoring_cost.HEAD, "GFLOP", "seeds")


def curve(runs: Sequence[Run]) -> list[tuple[float, ...]]:
    """The mean curve of several runs where all clients of all were scored: what figures draw.

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


def parts(panel: PanelRuns) -> list[str]:
    """The tables of a setting, and beside them yardsticks and what all data weigh; [] where nothing was run."""
    if not panel.runs:
        return []
    printed, runs, reference = panel.printed(panel.settings[0]), panel.of_models, panel.study.reference
    claimed, tested = chosen_on.claimed(panel, panel.by_model, reference)
    scores = {run: _scores(by_seed) for run, by_seed in claimed.items()}
    corrections = corrected({"": scores} if tested else {}, reference)
    rows = []
    for each in map(tuple, panel.panel["runs"]):
        if each in runs:
            difference = interval(paired(scores.get(each, {}), scores.get((each[0], reference), {})))
            shown = difference if tested else Interval(difference.middle, math.nan)
            more = "" if each[1] == reference else f"{shown:.2}{corrections.mark('', each)}"
            rows.append(_row(panel.label(each[1]), runs[each], str(printed.get(f"{each[0]}-{each[1]}", "")), more))
    yardsticks = panel.yardsticks.get(panel.settings[0], {})
    beside = ", ".join(f"{name} {spread(scores)}" for name, scores in yardsticks.items())
    told = f", with 95 % intervals. {corrections.note(panel.label(reference))}" if corrections.count else ""
    return [
        f"Test accuracy of the round best on validation; all that was spent. {chosen_on.note(panel, tested)}"
        f"Differences are paired{told or '.'}\n",
        filled((*_BEFORE, f"points more than {panel.label(reference)}", *_BEHIND), rows),
        *filter(None, [target_costs.part(panel, COSTS), _also(panel)]),
        f"Yardsticks on the same splits, %: {beside or 'none'}.\n",
        *filter(None, [panel.raw_data]),
    ]


def _also(panel: PanelRuns) -> str:
    """Return what the panel's first method saves to the target that the other reference's best sets; "" without it."""
    study, run = panel.study, tuple(panel.panel["runs"][0])
    other = (run[0], study.also)
    if run not in panel.by_model or other not in panel.by_model:
        return ""
    target = {**study.target, "reference": study.also}
    runs, tested = chosen_on.claimed(panel, panel.by_model, study.also)
    if run not in runs or other not in runs:
        runs, tested = panel.by_model, False
    found = target_costs.crossed(panel, COSTS, target, runs, tested, against=study.also)
    points, label = found.points[run], panel.label(run[1])
    saved = [f"{found.savings.text(cost.unit, run)} % fewer {cost.unit}" for cost in COSTS]
    everywhere = points and None not in points.values()
    told = f", {' and '.join(saved)} than {panel.label(study.also)}" if everywhere else ""
    chosen = "" if tested or not chosen_on.named(panel) else " On seeds that options were chosen on; not tested."
    return f"To {seed_targets.named(panel, target)}: {label} in rounds {seed_targets.reached(points)}{told}.{chosen}\n"


def _scores(runs: Mapping[int, Run]) -> dict[int, float]:
    """Return {seed: test accuracy in percent of the round best on validation}, of the runs that have one."""
    name = "test_at_best_validation"
    return {seed: 100 * run[name] for seed, run in runs.items() if run[name] is not None}


def _row(label: str, runs: Sequence[Run], printed: str, more: str) -> Sequence[str]:
    measured = [run.get("measures", {}).get("test", {}) for run in runs]
    scores = [*_scores(dict(enumerate(runs))).values()]
    cells = [label, spread(scores) if scores else "no score", more, printed]
    for name in ("macro_f1", "auc"):
        values = [100 * each[name] for each in measured if each.get(name) is not None]
        cells.append(f"{mean(values):.1f}" if values else "")
    cells += [figures(mean(run["bytes"]["total"] for run in runs) / MEGA), scoring_cost.megabytes(runs)]
    return (*cells, figures(mean(run["flops"] or 0 for run in runs) / GIGA), str(len(runs)))
