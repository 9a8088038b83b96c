"""A study's tables in Markdown, written from its finished cells: mean and spread over paired seeds."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from fedgraft.contracts.scores import first_reaching
from fedgraft.errors import InputError
from fedgraft.reports.studies import accuracy_tables, target_tables
from fedgraft.reports.studies.study import Cell, Study, in_sections, panel_cells

TOLERANCE = 0.002
"""The target is the best validation score of the reference method, worsened by this share."""
LEVELS = (0.02, 0.01, 0.005, TOLERANCE)
"""Targets of "bytes to different scores", as shares above the reference's best."""
BUDGETS = (0.25, 0.5, 0.75, 1.0)
"""Budgets of "scores at equal budgets", as shares of what the reference spends."""
START, END = "<!-- tables: written by fedgraft study -->", "<!-- /tables -->"

Results = Mapping[Cell, Mapping[str, Any]]
Point = Mapping[str, float]


def write_page(study: Study, results: Results, seeds: int, page: Path, pictures: Path | None = None) -> None:
    """Put the tables between the page's two marks; a page that does not exist is made.

    Args:
        study: whose tables.
        results: of its cells.
        seeds: how many of them.
        page: a Markdown file.
        pictures: a folder; those in it that are named as a table's heading are shown below that, once.
    """
    text = page.read_text() if page.is_file() else f"# {study.title}\n\n{START}\n{END}\n"
    head, found, rest = text.partition(START)
    _, closed, tail = rest.partition(END)
    if not found or not closed:
        raise InputError(f"{page} lacks the marks {START} and {END}, between which the tables go.")
    page.parent.mkdir(parents=True, exist_ok=True)
    written = tables(study, results, seeds)
    for picture in sorted(pictures.glob("*.png")) if pictures else ():
        heading, shown = f"### {picture.stem}\n", os.path.relpath(picture, page.parent)
        written = written.replace(heading, f"{heading}\n![Accuracy against costs: {picture.stem}]({shown})\n", 1)
    page.write_text(f"{head}{START}\n\n{written}\n{END}{tail}")


def tables(study: Study, results: Results, seeds: int) -> str:
    """All panels, in the study's layout."""
    written = {"accuracy": accuracy_tables.tables, "targets": target_tables.tables, "errors": _errors}
    return written[study.layout](study, results, seeds)


def _errors(study: Study, results: Results, seeds: int) -> str:
    """All panels, each data set, partition and number of clients a table of its own."""
    return in_sections(study, lambda panel: _setting(study, panel, results, seeds))


def _setting(study: Study, panel: Mapping[str, Any], results: Results, seeds: int) -> str:
    data, partition, clients = panel["data"][0], panel["partitions"][0], panel["clients"][0]
    runs: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
    for cell in panel_cells(panel, seeds):
        if cell in results:
            runs.setdefault((cell.model, cell.method), {})[cell.split.seed] = results[cell]
    lines = [f"### {data}, {partition}, {clients} clients\n"]
    if not runs:
        return lines[0] + "\nNot run yet.\n"
    lines.append(_main_table(study, panel, runs))
    lines.append(_yardsticks(runs))
    lines.append(_by_column(study, runs, "test RMSE within a share of full participation's bytes", BUDGETS, _at_budget))
    lines.append(
        _by_column(study, runs, "MB to a validation score this far above full participation's best", LEVELS, _to_level)
    )
    return "\n".join(lines)


def _main_table(
    study: Study, panel: Mapping[str, Any], runs: Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]]
) -> str:
    paper = panel["paper"].get(panel["data"][0], {})
    columns = ("method", "test RMSE", "below biases", "MB in all", "MB to target", "of full's")
    rows = ["| " + " | ".join((*columns, "paper: RMSE", "KB", "of full's")) + " |", "|" + "---|" * 9]
    for (model, method), by_seed in runs.items():
        against = runs.get((model, study.reference), {})
        costs, shares, gains = [], [], []
        for seed, run in by_seed.items():
            biases = run["yardsticks"].get("client_biases", {}).get("test")
            if biases is not None:
                gains.append(biases - run["test_at_best_validation"])
            if seed in against:
                target = _best(against[seed]) * (1 + TOLERANCE)
                full, own = _bytes_to(against[seed], target), _bytes_to(run, target)
                costs.append(own / 1e6)
                shares.append(own / full)
        printed = paper.get(f"{model}-{method}", [])
        base = paper.get(f"{model}-{study.reference}", paper.get(f"gcn-{study.reference}", []))
        share = f"{printed[1] / base[1]:.0%}" if len(printed) > 1 and len(base) > 1 else ""
        rows.append(
            f"| {study.methods[method]['label']} ({model.upper()}) "
            f"| {_spread([run['test_at_best_validation'] for run in by_seed.values()], 4)} "
            f"| {_spread(gains, 4)} | {_spread([run['bytes']['total'] / 1e6 for run in by_seed.values()], 2)} "
            f"| {_spread(costs, 2)} | {_spread([100 * s for s in shares], 0, ' %')} "
            f"| {printed[0] if printed else ''} | {printed[1] if len(printed) > 1 else ''} | {share} |"
        )
    return "\n".join(rows) + "\n"


def _yardsticks(runs: Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]]) -> str:
    first = next(iter(runs.values()))
    found = [
        f"{name} {_spread([run['yardsticks'][name]['test'] for run in first.values() if name in run['yardsticks']], 4)}"
        for name in next(iter(first.values()))["yardsticks"]
    ]
    return f"Yardsticks, test RMSE on the same splits: {'; '.join(found) or 'none'}. Seeds: {len(first)}.\n"


def _by_column(
    study: Study,
    runs: Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]],
    title: str,
    columns: Sequence[float],
    value: Callable[[Mapping[str, Any], Mapping[str, Any], float], float],
) -> str:
    rows = [f"| {title} | " + " | ".join(f"{c:.1%}" if c < 0.1 else f"{c:.0%}" for c in columns) + " |"]
    rows.append("|---|" + "---|" * len(columns))
    for (model, method), by_seed in runs.items():
        against = runs.get((model, study.reference), {})
        cells = []
        for column in columns:
            values = [value(run, against[seed], column) for seed, run in by_seed.items() if seed in against]
            cells.append(_spread(values, 4 if value is _at_budget else 2))
        rows.append(f"| {study.methods[method]['label']} ({model.upper()}) | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _points(run: Mapping[str, Any]) -> list[dict[str, float]]:
    return [dict(zip(("round", "bytes", "validation", "test"), point, strict=False)) for point in run["curve"]]


def _best(run: Mapping[str, Any]) -> float:
    return min(point["validation"] for point in _points(run))


def _bytes_to(run: Mapping[str, Any], target: float) -> float:
    point = first_reaching(_points(run), target, run["better"])
    return math.nan if point is None else float(point["bytes"])


def _at_budget(run: Mapping[str, Any], against: Mapping[str, Any], share: float) -> float:
    """Test score of the round that is best on validation among those within the budget."""
    within = [point for point in _points(run) if point["bytes"] <= share * against["bytes"]["total"]]
    return float(min(within, key=lambda point: point["validation"])["test"]) if within else math.nan


def _to_level(run: Mapping[str, Any], against: Mapping[str, Any], level: float) -> float:
    return _bytes_to(run, _best(against) * (1 + level)) / 1e6


def _spread(values: Sequence[float], digits: int, unit: str = "") -> str:
    """Mean and standard deviation; how many seeds never got there, if any."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return "never" if values else ""
    text = f"{mean(known):.{digits}f}{unit}"
    if len(known) > 1:
        text += f" ± {stdev(known):.{digits}f}"
    return text + (f" ({len(values) - len(known)} never)" if len(known) < len(values) else "")
