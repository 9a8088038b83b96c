"""Tables of a study of time: simulated seconds to scores, paired against a reference, and what methods reach."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from fedgraft.contracts.scores import first_reaching
from fedgraft.reports.stored.intervals import half_width
from fedgraft.reports.studies.markdown import spread, table
from fedgraft.reports.studies.panel_runs import Results, Run, raw_data_line, runs_by_seed
from fedgraft.reports.studies.study import Study, failures_text, in_sections, panel_cells

MEGA = 1e6
POINT = ("round", "bytes", "validation", "test", "flops", "simulated_seconds")
"""What a point of a cell's curve holds."""

BySeed = Mapping[int, Run]


def tables(study: Study, results: Results, seeds: int) -> str:
    """All panels, each setting with a table of its own."""
    return in_sections(study, lambda panel: _setting(study, panel, results, seeds))


def seconds_to(run: Run, target: float) -> float:
    """Return the simulated seconds until the validation score first was as good as a target; nan if it never was."""
    points = [dict(zip(POINT, point, strict=True)) for point in run["curve"] if point[2] is not None]
    point = first_reaching(points, target, run["better"])
    return math.nan if point is None else float(point["simulated_seconds"])


def interval(values: Sequence[float], digits: int = 1, unit: str = "") -> str:
    """Return a mean with its 95 % interval by Student's t.

    A single value stands alone. "never" where all are nan, "not on every seed" where some are; "" where there is none.

    >>> interval([1.0, 2.0, 3.0])
    '2.0 [-0.5, 4.5]'
    """
    if not values or any(map(math.isnan, values)):
        lacking = "never" if all(map(math.isnan, values)) else "not on every seed"
        return lacking if values else ""
    middle = mean(values)
    if len(values) < 2:
        return f"{middle:.{digits}f}{unit}"
    half = half_width(values)
    return f"{middle:.{digits}f}{unit} [{middle - half:.{digits}f}, {middle + half:.{digits}f}]"


def _setting(study: Study, panel: Mapping[str, Any], results: Results, seeds: int) -> str:
    split = next(panel_cells(panel, 1)).split.key
    runs = runs_by_seed(panel, results, seeds)
    if not runs:
        return f"### {split}\n\nNot run yet.\n"
    first = next(iter(next(iter(runs.values())).values()))
    names = list(first["measures"]["test"])
    targets = [f"{target:g}" for target in study.targets]
    label = study.methods[study.reference]["label"]
    costs = _filled(
        (
            "method",
            *(f"s to {target}" for target in targets),
            *(f"% fewer to {target}" for target in targets),
            "s in all",
            "MB",
            "paper: s",
            "seeds",
        ),
        [_costs(study, panel, split, method, by_seed, runs) for method, by_seed in runs.items()],
    )
    quality = _filled(
        ("method", *names, "paper", f"{names[0]} above {label}, points"),
        [_quality(study, panel, split, method, by_seed, runs, names) for method, by_seed in runs.items()],
    )
    told = failures_text(study, panel, results, seeds)
    whole = raw_data_line(run for by_seed in runs.values() for run in by_seed.values())
    parts = [f"### {split}\n", costs, quality, _yardsticks(panel, results, seeds, names), whole, told]
    return "\n".join(filter(None, parts))


def _costs(
    study: Study,
    panel: Mapping[str, Any],
    split: str,
    method: str,
    by_seed: BySeed,
    runs: Mapping[str, BySeed],
) -> tuple[str, ...]:
    to = {target: {seed: seconds_to(run, target) for seed, run in by_seed.items()} for target in study.targets}
    against = runs.get(study.reference, {})
    fewer = []
    for target in study.targets:
        shares = [
            100 * (1 - to[target][seed] / seconds_to(against[seed], target)) for seed in by_seed if seed in against
        ]
        fewer.append("" if method == study.reference else interval(shares))
    printed = panel["paper"].get(split, {}).get(method, {}).get("seconds", "")
    return (
        study.methods[method]["label"],
        *(spread([*to[target].values()], 2) for target in study.targets),
        *fewer,
        spread([run["simulated_seconds"] for run in by_seed.values()], 1),
        f"{mean(run['bytes']['total'] for run in by_seed.values()) / MEGA:.0f}",
        str(printed),
        str(len(by_seed)),
    )


def _quality(
    study: Study,
    panel: Mapping[str, Any],
    split: str,
    method: str,
    by_seed: BySeed,
    runs: Mapping[str, BySeed],
    names: Sequence[str],
) -> tuple[str, ...]:
    against, first = runs.get(study.reference, {}), names[0]
    measured = {name: [run["measures"]["test"][name] for run in by_seed.values()] for name in names}
    above = [
        100 * (run["measures"]["test"][first] - against[seed]["measures"]["test"][first])
        for seed, run in by_seed.items()
        if seed in against
    ]
    printed = panel["paper"].get(split, {}).get(method, {}).get("scores", "")
    values = (spread(measured[name], 4) for name in names)
    return (
        study.methods[method]["label"],
        *values,
        str(printed),
        "" if method == study.reference else interval(above, 2),
    )


def _yardsticks(panel: Mapping[str, Any], results: Results, seeds: int, names: Sequence[str]) -> str:
    """Yardsticks on the same splits: the score, and what else they tell."""
    found: dict[str, dict[int, Mapping[str, float]]] = {}
    for cell in panel_cells(panel, seeds):
        for name, scores in results.get(cell, {}).get("yardsticks", {}).items():
            if name in panel["yardsticks"]:
                found.setdefault(name, {})[cell.split.seed] = scores
    rows = [
        (name, *(_spread_of(by_seed.values(), key) for key in ("test", *names[1:])), str(len(by_seed)))
        for name, by_seed in found.items()
    ]
    lacking = "No yardsticks yet.\n" if panel["yardsticks"] else ""
    return table(("yardstick", *names, "seeds"), rows) if rows else lacking


def _filled(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table without the columns that have nothing in any row."""
    columns = [index for index in range(len(head)) if any(row[index] for row in rows)]
    return table([head[index] for index in columns], [[row[index] for index in columns] for row in rows])


def _spread_of(scores: Any, key: str) -> str:
    values = [each[key] for each in scores if each.get(key) is not None]
    return spread(values, 4) if values else ""
