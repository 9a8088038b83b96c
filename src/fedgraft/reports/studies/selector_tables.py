"""Tables of a study of selectors: what each reaches, and what it takes in bytes, simulated seconds and choosing."""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any, TypeAlias

from fedgraft.reports.stored.intervals import interval
from fedgraft.reports.studies.markdown import figures, spread, table
from fedgraft.reports.studies.panel_runs import Results, Run, raw_data_line, runs_by_seed
from fedgraft.reports.studies.study import Study, failures_text, in_sections, panel_cells

MEGA = 1e6
MILLI = 1e3
BySeed: TypeAlias = Mapping[int, Run]


def tables(study: Study, results: Results, seeds: int) -> str:
    """All panels, each setting with a table of its own."""
    return in_sections(study, lambda panel: _setting(study, panel, results, seeds))


def _setting(study: Study, panel: Mapping[str, Any], results: Results, seeds: int) -> str:
    split = next(panel_cells(panel, 1)).split.key
    runs = runs_by_seed(panel, results, seeds)
    if not runs:
        return f"### {split}\n\nNot run yet.\n"
    first = next(iter(next(iter(runs.values())).values()))
    label = study.methods[study.reference]["label"]
    head = (
        "selector",
        f"test {first['metric']}" + (", %" if _unit(first) > 1 else ""),
        f"better than {label}",
        "clients a round",
        "MB",
        "simulated s",
        "ms of choosing a round",
        "seeds",
    )
    rows = [
        _row(study.methods[method]["label"], by_seed, runs.get(study.reference, {})) for method, by_seed in runs.items()
    ]
    whole = raw_data_line(run for by_seed in runs.values() for run in by_seed.values())
    parts = [f"### {split}\n", table(head, rows), whole, failures_text(study, panel, results, seeds)]
    return "\n".join(filter(None, parts))


def _row(label: str, by_seed: BySeed, reference: BySeed) -> tuple[str, ...]:
    runs = list(by_seed.values())
    digits = 2 if _unit(runs[0]) > 1 else 4
    sign = 1 if runs[0]["better"] == "higher" else -1
    better = [sign * (_score(by_seed[seed]) - _score(reference[seed])) for seed in by_seed if seed in reference]
    return (
        label,
        spread([_score(run) for run in runs], digits),
        f"{interval(better):.{digits}}" if runs != list(reference.values()) else "",
        figures(_mean(runs, lambda run: run["selections"] / run["rounds"])),
        figures(_mean(runs, lambda run: run["bytes"]["total"] / MEGA)),
        figures(_mean(runs, lambda run: run["simulated_seconds"])),
        figures(_mean(runs, lambda run: MILLI * run["selection_seconds"] / run["rounds"])),
        str(len(runs)),
    )


def _score(run: Run) -> float:
    """The test score of the round that was best on validation; of shares in percent."""
    return float(run["test_at_best_validation"]) * _unit(run)


def _unit(run: Run) -> float:
    return 100.0 if run["better"] == "higher" else 1.0


def _mean(runs: Sequence[Run], of: Callable[[Run], float]) -> float:
    return mean(map(of, runs))
