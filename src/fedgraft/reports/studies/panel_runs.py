"""The runs and the yardsticks of a study's panel, by what its tables have in rows and columns."""

from collections.abc import Iterable, Mapping
from statistics import mean
from typing import Any, TypeAlias

from fedgraft.reports.studies.markdown import figures
from fedgraft.reports.studies.study import Cell, panel_cells

Run: TypeAlias = Mapping[str, Any]
"""What a page needs of a run's summary."""
Results: TypeAlias = Mapping[Cell, Run]
"""{cell: its run}, of the cells that have run."""


def runs_by_setting(panel: Mapping[str, Any], results: Results, seeds: int) -> dict[tuple[str, str, str], list[Run]]:
    """Return {(model, method, setting): its runs, one a seed}."""
    found: dict[tuple[str, str, str], list[Run]] = {}
    for cell in panel_cells(panel, seeds):
        if cell in results:
            found.setdefault((cell.model, cell.method, cell.split.key), []).append(results[cell])
    return found


def runs_of(panel: Mapping[str, Any], results: Results, seeds: int) -> dict[tuple[str, str], list[Run]]:
    """Return {(model, method): its runs, one a seed}, of a panel with one setting."""
    by_setting = runs_by_setting(panel, results, seeds)
    return {(model, method): runs for (model, method, _), runs in by_setting.items()}


def runs_by_seed(panel: Mapping[str, Any], results: Results, seeds: int) -> dict[str, dict[int, Run]]:
    """Return {method: {seed: its run}}, of a panel with one setting and one model."""
    found: dict[str, dict[int, Run]] = {}
    for cell in panel_cells(panel, seeds):
        if cell in results:
            found.setdefault(cell.method, {})[cell.split.seed] = results[cell]
    return found


def yardsticks_by_setting(panel: Mapping[str, Any], results: Results, seeds: int) -> dict[str, dict[str, list[float]]]:
    """Return {setting: {yardstick: its scores in percent, one a seed}}."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for cell in panel_cells(panel, seeds):
        for name, scores in results.get(cell, {}).get("yardsticks", {}).items():
            found.setdefault(cell.split.key, {}).setdefault(name, {})[cell.split.seed] = 100 * scores["test"]
    return {
        setting: {name: list(by_seed.values()) for name, by_seed in each.items()} for setting, each in found.items()
    }


def yardsticks_of(panel: Mapping[str, Any], results: Results, seeds: int) -> dict[str, list[float]]:
    """Return {yardstick: its scores in percent, one a seed}, of a panel with one setting."""
    return next(iter(yardsticks_by_setting(panel, results, seeds).values()), {})


def raw_data_text(runs: Iterable[Run]) -> str:
    """Return the MB of sending all data once, the mean over runs; "" where none knows: earlier ones do not."""
    known = [run["raw_data_bytes"] for run in runs if run.get("raw_data_bytes") is not None]
    return figures(mean(known) / 1e6) if known else ""


def raw_data_line(runs: Iterable[Run]) -> str:
    """Return a line that says what sending all data once would take; "" where no run knows."""
    size = raw_data_text(runs)
    return f"Sending all data once would take {size} MB.\n" if size else ""
