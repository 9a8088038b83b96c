"""The finished cells of a panel, one record each by setting, run and seed: what all tables are made from."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean, stdev
from typing import Any, Final, TypeAlias, TypeVar

from fedgraft.contracts.scores import first_reaching
from fedgraft.experiment.recipes.units import human_failures
from fedgraft.reports.studies.study import SCORING, Cell, Study, panel_cells

Run: TypeAlias = Mapping[str, Any]
"""What a page needs of a run's summary."""
Results: TypeAlias = Mapping[Cell, Run]
"""{cell: its run}, of the cells that have run."""
Key: TypeAlias = tuple[str, str]
"""A model and a method: a row of a table."""
T = TypeVar("T")
Column: TypeAlias = Mapping[Key, Mapping[int, T]]
"""{(model, method): {seed: value}} of a setting."""
POINT: Final = ("round", "bytes", "validation", "test", "flops", "simulated_seconds")
"""What a point of a cell's curve holds; results of earlier versions lack the last ones."""
SCORE: Final = "test_at_best_validation"
LEAST_FRESH: Final = 2
"""Seeds that must be left for an interval."""
SCORED: Final = "MB with scoring at clients"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, with a line break at its end.

    >>> print(table(("method", "MB"), [("FedAvg", "3.1")]), end="")
    | method | MB |
    |---|---|
    | FedAvg | 3.1 |
    """
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def filled(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table without the columns that have nothing in any row."""
    columns = [index for index in range(len(head)) if any(row[index] for row in rows)]
    return table([head[index] for index in columns], [[row[index] for index in columns] for row in rows])


def spread(values: Sequence[float], digits: int = 2, unit: str = "") -> str:
    """Return mean and standard deviation, and how many values are nan ("never"), if any; "" for no values.

    >>> spread([1.0, 2.0, float("nan")], 1)
    '1.5 ± 0.7 (1 never)'
    """
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return "never" if values else ""
    text = f"{mean(known):.{digits}f}{unit}"
    if len(known) > 1:
        text += f" ± {stdev(known):.{digits}f}"
    return text + (f" ({len(values) - len(known)} never)" if len(known) < len(values) else "")


def figures_spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation, as many digits of both as `figures` gives the mean; "" for no values.

    >>> figures_spread([18.0, 22.0])
    '20.0 ± 2.8'
    """
    if not values:
        return ""
    middle = mean(values)
    digits = max(0, 2 - math.floor(math.log10(abs(middle)))) if middle else 2
    return f"{middle:,.{digits}f}" + (f" ± {stdev(values):,.{digits}f}" if len(values) > 1 else "")


def figures(value: float) -> str:
    """Return a number with three figures, and with more where there are more before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


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
    def columns(self) -> dict[str, dict[Key, dict[int, Run]]]:
        """{setting: {(model, method): {seed: its run}}}, of all settings."""
        found: dict[str, dict[Key, dict[int, Run]]] = {cell.split.key: {} for cell in panel_cells(self.panel, 1)}
        for cell, run in self.runs.items():
            found[cell.split.key].setdefault((cell.model, cell.method), {})[cell.split.seed] = run
        return found

    @property
    def by_setting(self) -> dict[str, list[Run]]:
        """{setting: all its runs}."""
        return {name: [run for of in column.values() for run in of.values()] for name, column in self.columns.items()}

    @property
    def setting(self) -> str:
        """The name of the only setting, or of the first."""
        return next(iter(self.columns))

    @property
    def only(self) -> dict[Key, dict[int, Run]]:
        """What the only setting has, or the first."""
        return self.columns[self.setting]

    @cached_property
    def keys(self) -> list[Key]:
        """All (model, method), in the order of the panel."""
        return [(model, method) for model, method in self.panel["runs"]]

    def of(self, setting: str, key: Key) -> list[Run]:
        """Return the runs of a cell of a table, one a seed."""
        return [*self.columns[setting].get(key, {}).values()]

    def shown(self, measure: str) -> Callable[[str, Key], str]:
        """Return what shows one of `MEASURES` of a cell of a table."""
        return lambda setting, key: MEASURES[measure](self.of(setting, key))

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

    @property
    def points(self) -> str:
        """What differences of scores are counted in, as a word before "more"; errors have none."""
        return "" if self.lower else "points "

    @cached_property
    def scores(self) -> dict[str, Column[float]]:
        """{setting: {(model, method): {seed: test score of the round best on validation}}}, of runs that have one."""
        return {setting: self.scores_of(column) for setting, column in self.columns.items()}

    def scores_of(self, column: Column[Run]) -> Column[float]:
        """Return what `scores` has of a column of runs."""
        known = {
            key: {seed: self.unit * float(run[SCORE]) for seed, run in by_seed.items() if run.get(SCORE) is not None}
            for key, by_seed in column.items()
        }
        return {key: by_seed for key, by_seed in known.items() if by_seed}

    @cached_property
    def baselines(self) -> dict[str, dict[str, dict[int, Mapping[str, float]]]]:
        """{setting: {baseline: {seed: its scores}}}, of settings that have any."""
        found: dict[str, dict[str, dict[int, Mapping[str, float]]]] = {}
        for cell, run in self.runs.items():
            for name, scores in run.get("baselines", {}).items():
                found.setdefault(cell.split.key, {}).setdefault(name, {})[cell.split.seed] = scores
        return found

    def baseline(self, setting: str, name: str) -> list[float]:
        """Return the test scores of a baseline in percent, errors as they are, one a seed."""
        by_seed = self.baselines.get(setting, {}).get(name, {})
        return [self.unit * scores["test"] for scores in by_seed.values()]

    def baselines_text(self, setting: str, joint: str = ", ") -> str:
        """Return each baseline of a setting with mean and spread; "" for none."""
        names = self.baselines.get(setting, {})
        return joint.join(f"{name} {spread(self.baseline(setting, name), self.digits)}" for name in names)

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
        """Return the label of a method."""
        return str(self.study.methods[method]["label"])

    def row_label(self, key: Key) -> str:
        """Return the label of a row: of the method, with its model where the study names one."""
        return f"{self.label(key[1])}, {key[0]}" if key[0] else self.label(key[1])

    def printed(self, setting: str, name: str, default: Any) -> Any:
        """Return the paper's number of a method, by its name or by "MODEL-METHOD", as the layout has it."""
        return self.panel["paper"].get(setting, {}).get(name, default)

    def bracketed(self, setting: str, name: str) -> str:
        """Return the paper's number in brackets after a space; "" for none."""
        return "" if (number := self.printed(setting, name, None)) is None else f" [{number}]"

    # --- what options were chosen on, which has no part in what is claimed ---

    @property
    def chosen_on(self) -> str:
        """The panel's seeds and sets that options were chosen on, such as "seeds 1, 2; set pubmed"; "" for none."""
        sets = [data for data in self.study.tuned.get("sets", []) if data in self.panel["data"]]
        named = (("seed", self.study.tuned.get("seeds", [])), ("set", sets))
        return "; ".join(f"{what}{'s' * (len(of) > 1)} {', '.join(map(str, of))}" for what, of in named if of)

    def chosen_note(self, tested: bool) -> str:
        """Return what was left out, or that nothing could be tested, as a sentence and a space; "" where neither is."""
        if not self.chosen_on:
            return ""
        if tested:
            return f"Left out, as options were chosen on them: {self.chosen_on}. "
        few = f"Fewer than {LEAST_FRESH} fresh seeds are left, so nothing is tested. "
        return f"Options were chosen on {self.chosen_on}. {few}"

    def fresh(self, columns: Mapping[str, Column[T]]) -> dict[str, dict[Key, dict[int, T]]]:
        """Return the columns without the sets and seeds that options were chosen on, and no run without any seed."""
        tuned = self.study.tuned
        data = {cell.split.key: cell.split.data for cell in panel_cells(self.panel, 1)}
        left: dict[str, dict[Key, dict[int, T]]] = {}
        for setting, column in columns.items():
            if data[setting] not in tuned.get("sets", []):
                of = left.setdefault(setting, {})
                for key, by_seed in column.items():
                    if kept := {seed: each for seed, each in by_seed.items() if seed not in tuned.get("seeds", [])}:
                        of[key] = kept
        return left

    def claimed(self, columns: Mapping[str, Column[T]], reference: str) -> tuple[Mapping[str, Column[T]], bool]:
        """Return what is claimed of columns, and whether it is tested.

        That is what is fresh; where no method has enough of that beside the reference, it is all, and nothing is
        tested.
        """
        left = self.fresh(columns)
        tested = not self.chosen_on or any(
            len(by_seed.keys() & column.get((key[0], reference), {}).keys()) >= LEAST_FRESH
            for column in left.values()
            for key, by_seed in column.items()
            if key[1] != reference
        )
        return (left, True) if tested else (columns, False)


def score_of(run: Run) -> float:
    """Return the test score of the round best on validation; nan without one."""
    return math.nan if run[SCORE] is None else float(run[SCORE])


def points_of(run: Run) -> list[dict[str, Any]]:
    """Return the points of a cell's curve that have a score on validation, by the names of `POINT`."""
    return [dict(zip(POINT, point, strict=False)) for point in run["curve"] if point[2] is not None]


def spent_to(run: Run, target: float, cost: str) -> float:
    """Return a cost, of `POINT`, until the validation score first was as good as a target; nan if it never was."""
    point = first_reaching(points_of(run), target, run["better"])
    return math.nan if point is None else float(point[cost])


def total(run: Run) -> float:
    """Return the bytes of all messages of a run."""
    return float(run["bytes"]["total"])


def mean_of(runs: Iterable[Run], value: str | Callable[[Run], float], unit: float = 1.0) -> str:
    """Return the mean of what runs know, in a unit and three figures; "" where none does."""
    of = value if callable(value) else lambda run: run.get(value)
    values = [found for run in runs if (found := of(run)) is not None]
    return figures(mean(values) / unit) if values else ""


def scored_megabytes(runs: Sequence[Run]) -> str:
    """Return the mean MB of runs, with the mean of what scoring would take, of those that know it; "" where none does.

    >>> scored_megabytes([{"bytes": {"total": 1_000_000}, "scoring_bytes": 500_000}, {"bytes": {"total": 2_000_000}}])
    '2'
    """
    scoring = [run[SCORING] for run in runs if run.get(SCORING) is not None]
    return figures((mean(map(total, runs)) + mean(scoring)) / 1e6) if scoring else ""


def raw_data_line(runs: Iterable[Run]) -> str:
    """Return a line that says what sending all data once would take; "" where no run knows: earlier ones do not."""
    size = mean_of(runs, "raw_data_bytes", 1e6)
    return f"Sending all data once would take {size} MB.\n" if size else ""


MEASURES: Final[Mapping[str, Callable[[Sequence[Run]], str]]] = {
    "MB": lambda runs: mean_of(runs, total, 1e6),
    SCORED: scored_megabytes,
    "GFLOP": lambda runs: mean_of(runs, lambda run: run["flops"] or 0, 1e9),
    "clients a round": lambda runs: mean_of(runs, lambda run: run["selections"] / run["rounds"]),
    "simulated s": lambda runs: mean_of(runs, "simulated_seconds"),
    "ms of choosing a round": lambda runs: mean_of(runs, lambda run: 1e3 * run["selection_seconds"] / run["rounds"]),
    "seeds": lambda runs: str(len(runs)),
}
"""{heading: what shows it of runs}."""
