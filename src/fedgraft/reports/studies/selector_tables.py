"""Tables of a study of selectors: what each reaches, and what it takes in bytes, simulated seconds and choosing."""

from collections.abc import Mapping
from statistics import mean
from typing import TypeAlias

from fedgraft.reports.stored.intervals import interval
from fedgraft.reports.studies import control_tables, scoring_cost, yardstick_table
from fedgraft.reports.studies.comparisons import corrected
from fedgraft.reports.studies.markdown import figures, filled, spread
from fedgraft.reports.studies.panel_runs import PanelRuns, Run

MEGA = 1e6
MILLI = 1e3
BySeed: TypeAlias = Mapping[int, Run]


def parts(panel: PanelRuns) -> list[str]:
    """The table of a setting, and what all data weigh; [] where nothing was run."""
    if not panel.runs:
        return []
    first, runs, reference = next(iter(panel.runs.values())), panel.by_method, panel.study.reference
    score = f"test {first['metric']}" + (", %" if _unit(first) > 1 else "")
    costs = ("clients a round", "MB", scoring_cost.HEAD, "simulated s", "ms of choosing a round", "seeds")
    scores = {("", method): {seed: _score(run) for seed, run in by_seed.items()} for method, by_seed in runs.items()}
    tested, label = corrected({"": scores}, reference), panel.label(reference)
    rows = [
        _row(panel.label(method), by_seed, runs.get(reference, {}), tested.mark("", ("", method)))
        for method, by_seed in runs.items()
    ]
    head = ("selector", score, f"better than {label}", *costs)
    note = f"Better: paired differences with 95 % intervals, which are not corrected. {tested.note(label)}\n"
    told = [note, filled(head, rows), *control_tables.parts(panel)]
    return [*told, *filter(None, [yardstick_table.part(panel), panel.raw_data])]


def _row(label: str, by_seed: BySeed, reference: BySeed, mark: str) -> tuple[str, ...]:
    runs = list(by_seed.values())
    digits = 2 if _unit(runs[0]) > 1 else 4
    sign = 1 if runs[0]["better"] == "higher" else -1
    better = [sign * (_score(by_seed[seed]) - _score(reference[seed])) for seed in by_seed if seed in reference]
    return (
        label,
        spread([_score(run) for run in runs], digits),
        f"{interval(better):.{digits}}{mark}" if runs != list(reference.values()) else "",
        figures(mean(run["selections"] / run["rounds"] for run in runs)),
        figures(mean(run["bytes"]["total"] / MEGA for run in runs)),
        scoring_cost.megabytes(runs),
        figures(mean(run["simulated_seconds"] for run in runs)),
        figures(mean(MILLI * run["selection_seconds"] / run["rounds"] for run in runs)),
        str(len(runs)),
    )


def _score(run: Run) -> float:
    """The test score of the round that was best on validation; of shares in percent."""
    return float(run["test_at_best_validation"]) * _unit(run)


def _unit(run: Run) -> float:
    return 100.0 if run["better"] == "higher" else 1.0
