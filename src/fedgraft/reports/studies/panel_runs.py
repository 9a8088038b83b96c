"""What a panel's cells have found, by what its tables have in rows and columns."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean
from typing import Any, TypeAlias

from fedgraft.contracts.scores import first_reaching
from fedgraft.experiment.recipes.units import human_failures
from fedgraft.reports.studies.markdown import figures
from fedgraft.reports.studies.study import Cell, Study, panel_cells

Run: TypeAlias = Mapping[str, Any]
"""What a page needs of a run's summary."""
POINT = ("round", "bytes", "validation", "test", "flops", "simulated_seconds")
"""What a point of a cell's curve holds."""
Point: TypeAlias = dict[str, Any]
"""{name of `POINT`: its value}; results of earlier versions lack the last ones."""
Results: TypeAlias = Mapping[Cell, Run]
"""{cell: its run}, of the cells that have run."""


@dataclass(frozen=True, eq=False)
class PanelRuns:
    """A panel of a study, or one of its settings alone, and the runs of its cells, of which so many seeds count."""

    study: Study
    panel: Mapping[str, Any]
    results: Results
    seeds: int

    @cached_property
    def runs(self) -> dict[Cell, Run]:
        """{cell: its run}, of its own cells that have run."""
        return {cell: self.results[cell] for cell in panel_cells(self.panel, self.seeds) if cell in self.results}

    @cached_property
    def lower(self) -> bool:
        """Whether lower scores are better, as of errors."""
        return any(run.get("better") == "lower" for run in self.runs.values())

    @property
    def measure(self) -> str:
        """What scores are, with their unit."""
        metrics = sorted({str(run.get("metric", "accuracy")) for run in self.runs.values()}) or ["accuracy"]
        return ", ".join(metrics).replace("_", " ") + ("" if self.lower else ", %")

    @property
    def unit(self) -> float:
        """What scores are multiplied by: 100 for percent, but errors by 1."""
        return 1.0 if self.lower else 100.0

    @property
    def digits(self) -> int:
        """Digits of a score behind the point: two of percent, four of errors."""
        return 4 if self.lower else 2

    @cached_property
    def settings(self) -> list[str]:
        """Names of its settings."""
        return list(dict.fromkeys(cell.split.key for cell in panel_cells(self.panel, 1)))

    @cached_property
    def by_setting(self) -> dict[tuple[str, str, str], list[Run]]:
        """{(model, method, setting): its runs, one a seed}."""
        runs: dict[tuple[str, str, str], list[Run]] = {}
        for cell, run in self.runs.items():
            runs.setdefault((cell.model, cell.method, cell.split.key), []).append(run)
        return runs

    @cached_property
    def by_model(self) -> dict[tuple[str, str], dict[int, Run]]:
        """{(model, method): {seed: its run}}, of a panel with one setting."""
        runs: dict[tuple[str, str], dict[int, Run]] = {}
        for cell, run in self.runs.items():
            runs.setdefault((cell.model, cell.method), {})[cell.split.seed] = run
        return runs

    @property
    def of_models(self) -> dict[tuple[str, str], list[Run]]:
        """{(model, method): its runs, one a seed}, of a panel with one setting."""
        return {run: [*by_seed.values()] for run, by_seed in self.by_model.items()}

    @cached_property
    def by_method(self) -> dict[str, dict[int, Run]]:
        """{method: {seed: its run}}, of a panel with one setting and one model."""
        runs: dict[str, dict[int, Run]] = {}
        for (_, method), by_seed in self.by_model.items():
            runs.setdefault(method, {}).update(by_seed)
        return runs

    @cached_property
    def yardsticks(self) -> dict[str, dict[str, list[float]]]:
        """{setting: {yardstick: its scores in percent, errors as they are, one a seed}}."""
        known: dict[str, dict[str, dict[int, float]]] = {}
        for cell, run in self.runs.items():
            for name, scores in run.get("yardsticks", {}).items():
                known.setdefault(cell.split.key, {}).setdefault(name, {})[cell.split.seed] = self.unit * scores["test"]
        return {setting: {name: [*each.values()] for name, each in names.items()} for setting, names in known.items()}

    @property
    def raw_data(self) -> str:
        """What `raw_data_line` says of its runs."""
        return raw_data_line(self.runs.values())

    @property
    def failures(self) -> str:
        """A line on the runs in which clients failed, and at what; "" where none did."""
        lines = [
            f"{self.label(cell.method)}, {cell.model}, {cell.split.key}, seed {cell.split.seed}: {failures}"
            for cell, run in self.runs.items()
            if (failures := human_failures(run.get("failures")))
        ]
        what = "Clients failed, so that these are not the figures of the methods alone"
        return f"{what}: {'; '.join(lines)}.\n" if lines else ""

    def label(self, method: str) -> str:
        """Return what a method is called."""
        return str(self.study.methods[method]["label"])

    def row_label(self, model: str, method: str) -> str:
        """Return what a row is called: the method, and its model where the study names one."""
        return f"{self.label(method)}, {model}" if model else self.label(method)

    def printed(self, setting: str) -> Mapping[str, Any]:
        """Return the paper's numbers in a setting; {} without any."""
        numbers: Mapping[str, Any] = self.panel["paper"].get(setting, {})
        return numbers


def points_of(run: Run) -> list[Point]:
    """Return the points of a cell's curve in which all clients were scored."""
    return scored_points(run["curve"])


def scored_points(curve: Iterable[Sequence[Any]]) -> list[Point]:
    """Return the points of a curve that have a score on validation, by the names of `POINT`."""
    return [dict(zip(POINT, point, strict=False)) for point in curve if point[2] is not None]


def spent_to(run: Run, target: float, cost: str) -> float:
    """Return a cost, of `POINT`, until the validation score first was as good as a target; nan if it never was."""
    point = first_reaching(points_of(run), target, run["better"])
    return math.nan if point is None else float(point[cost])


def raw_data_text(runs: Iterable[Run]) -> str:
    """Return the MB of sending all data once, the mean over runs; "" where none knows: earlier ones do not."""
    known = [run["raw_data_bytes"] for run in runs if run.get("raw_data_bytes") is not None]
    return figures(mean(known) / 1e6) if known else ""


def raw_data_line(runs: Iterable[Run]) -> str:
    """Return a line that says what sending all data once would take; "" where no run knows."""
    size = raw_data_text(runs)
    return f"Sending all data once would take {size} MB.\n" if size else ""
