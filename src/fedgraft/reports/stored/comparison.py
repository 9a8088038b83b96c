"""Runs side by side: scores, bytes, what each run paid until it reached a target, and intervals of paired scores."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import mean, stdev
from typing import Any, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text
from scipy.special import stdtr, stdtrit  # scipy.stats has tests too, and takes half a second to import

from fedgraft.errors import InputError, require_one_of
from fedgraft.experiment.recipes.units import human_bytes, human_failures, human_seconds
from fedgraft.reports.stored.stored_runs import (
    AFTER_LOCAL,
    COSTS,
    StoredRun,
    after_local_steps,
    baselines_of,
    default_target,
    joined_baselines,
    joined_raw_data,
)

METRICS = {"rmse": "lower", "accuracy": "higher", "auc": "higher"}
"""Metrics that a target may name, and which scores are better."""
NOT_REACHED = "not reached"
GIGA = 1e9

_SCORES = ("validation", "test", "test_at_best_validation")
_TO_TARGET = tuple(f"{cost}_to_target" for cost in COSTS)
_OF_SUMMARY = ("recipe", "dataset", "clients", "seed", "metric", "better", "rounds", "selections", *_SCORES)
_OF_COSTS = (
    *("flops", "scored", "failures", "seconds", "simulated_seconds", "digest"),
    *("baselines", "raw_data_bytes", "client_alone"),
)
_SHOWN_AS: Mapping[str, Callable[[Any], float]] = {
    **{"bytes": round, "rounds": round, "seconds": float, "simulated_seconds": float, "flops": int}
}
"""{cost to the target: the type that it has in a row}."""
_MOST_COSTS = 3
"""Costs to the target that a terminal of 80 columns has room for."""
_HEADINGS = {
    "validation": "validation",
    "test": "test",
    "test_at_best_validation": "test at\nbest val.",
    AFTER_LOCAL: "after\nlocal steps",
    "bytes": "bytes",
    "bytes_to_target": "bytes\nto target",
    "rounds_to_target": "after\nrounds",
    "seconds_to_target": "after\nseconds",
    "simulated_seconds_to_target": "after sim.\nseconds",
    "flops_to_target": "operations\nto target",
}
CONFIDENCE = 0.95
LEVEL = 0.05
"""Corrected p-values below it are told as differences."""


def parse_target(text: str, metric: str) -> float:
    """The score of a target such as "rmse=0.95".

    Args:
        text: what the user gave.
        metric: what the runs are scored by; the target must name it.
    """
    name, equals, number = text.partition("=")
    name = name.strip()
    if not equals:
        raise InputError(f"--target must be METRIC=SCORE, such as {metric}=0.95; got {text!r}.")
    if name != metric:
        require_one_of("--target: the metric", name, sorted({*METRICS, metric}))
        raise InputError(f"--target names {name!r}, but these runs are scored by {metric!r}; got {text!r}.")
    try:
        score = float(number)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"--target: the score must be a number, such as {metric}=0.95; got {text!r}.")
    return score


def compared(
    runs: Sequence[StoredRun], target: str | float | None = None, against: str | None = None
) -> list[dict[str, Any]]:
    """One row a run, ready for JSON.

    Args:
        runs: finished runs with one metric.
        target: the validation score to reach, as a number or as "rmse=0.95"; None = `stored_runs.default_target`:
            the best that any of the runs reaches, worsened by 0.2 %.
        against: what orders the rows, lowest first: its cost to the target in "rounds", "bytes", "seconds",
            "simulated_seconds" or "flops"; runs that do not reach it come last. None = as given.

    Returns:
        Rows of: run, folder, data (a fingerprint, None where not known), recipe, dataset, clients, seed, metric,
        better, rounds, selections, validation, test, test_at_best_validation, test_after_local_steps (at the best
        validation after these; None where they are not scored), bytes, bytes_down, bytes_up, flops, failures ({at
        what: how often clients failed}), seconds, simulated_seconds, digest, baselines, raw_data_bytes (what sending
        all data once would take), client_alone ({split: what clients reach alone}), target, and bytes_to_target,
        rounds_to_target, seconds_to_target, simulated_seconds_to_target, flops_to_target, which are None where the
        target was not reached. raw_data_bytes and client_alone are None where the data are at nodes.
    """
    if against is not None:
        require_one_of("against", against, COSTS)
    table = rows(runs, resolve_target(runs, target))
    if against is None:
        return table
    cost = f"{against}_to_target"
    return sorted(table, key=lambda row: math.inf if row[cost] is None else row[cost])


def resolve_target(runs: Sequence[StoredRun], target: str | float | None) -> float:
    """The score to reach; nan if none was given and no run has a validation score, or runs have different data sets."""
    if isinstance(target, str):
        return parse_target(target, runs[0].metric)
    if target is None and len({run.summary["dataset"] for run in runs}) > 1:
        return math.nan
    return default_target(runs) if target is None else float(target)


def rows(runs: Sequence[StoredRun], target: float) -> list[dict[str, Any]]:
    """Compare runs that are open already; the rows are those of `compare`."""
    return [_row(run, target) for run in runs]


def render(table: Sequence[dict[str, Any]], title: str = "", against: str | None = None) -> Table:
    """The rows as a table for a terminal; of costs to the target that of `against` first, as `compare` knows it.

    The best of each column, as `best_values` says, is bold and marked with a star. Baselines follow beneath: what a
    person would try first, and the bytes of sending all data once.
    """
    caption = Text(_caption(table), "table.caption")
    drawn = Table(title=title or None, caption=caption, box=box.SIMPLE_HEAD, padding=0)
    drawn.title_justify = drawn.caption_justify = "left"
    reaching = table[0]["target"] is not None
    after = [AFTER_LOCAL] if any(row[AFTER_LOCAL] is not None for row in table) else []
    costs = _costs(against)[: _MOST_COSTS - len(after)] if reaching else []
    columns = [*_SCORES, *after, "bytes", *costs]
    drawn.add_column("run", overflow="fold", min_width=8)
    for name in columns:
        drawn.add_column(_HEADINGS[name], justify="right", no_wrap=True)
    best = best_values(table)
    for row in table:
        cells = [Text(row["run"])]
        for name in columns:
            missed = name in costs[:1] and row["rounds_to_target"] is None
            text = NOT_REACHED if missed else shown(name, row[name])
            is_best = name in best and row[name] == best[name]
            mark = "*" if is_best else " " if name in best and row[name] is not None else ""
            cells.append(Text(text + mark, style="bold green" if is_best else ""))
        drawn.add_row(*cells)
    drawn.add_section()
    for name, score in joined_baselines(table):
        drawn.add_row(Text(name, style="dim"), "", Text(f"{score:.4f}" + (" " if "test" in best else ""), style="dim"))
    for name, size in joined_raw_data(table):
        drawn.add_row(Text(name, style="dim"), "", "", "", *("" for _ in after), Text(human_bytes(size), style="dim"))
    return drawn


def best_values(table: Sequence[dict[str, Any]]) -> dict[str, float]:
    """{column: best value} of scores and costs to the target; none of them where there is nothing to choose from.

    Totals have no best: a run that stops early is cheap and no better for it. Nor have runs on different data.
    """
    best = {}
    for name in (*_SCORES, AFTER_LOCAL, *_TO_TARGET):
        values = [row[name] for row in table if row[name] is not None]
        lower = table[0]["better"] == "lower" or name in _TO_TARGET
        if values and (len(values) < len(table) or len(set(values)) > 1):
            best[name] = min(values) if lower else max(values)
    return best if len(table) > 1 and not _differing(table) else {}


def shown(name: str, value: Any) -> str:
    """A cell as a person reads it."""
    if value is None:
        return NOT_REACHED if name == "bytes_to_target" else "-"
    if name.startswith("bytes"):
        return human_bytes(value)
    if name.startswith("flops"):
        return f"{value / GIGA:.3g} GFLOP"
    if name.startswith(("seconds", "simulated_seconds")):
        return human_seconds(value)
    if name in (*_SCORES, AFTER_LOCAL):
        return f"{value:.4f}"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def shown_score(value: float | None) -> str:
    """A score as a person reads it; "-" where there is none."""
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"


def _costs(against: str | None) -> list[str]:
    """Return which costs to the target a table shows, in their order."""
    usual = ["bytes", "rounds", "simulated_seconds"]
    first = usual[:1] if against is None else [against]
    return [f"{cost}_to_target" for cost in dict.fromkeys([*first, *usual])][:_MOST_COSTS]


def _row(run: StoredRun, target: float) -> dict[str, Any]:
    point = None if math.isnan(target) else run.reaching(target)
    summary, sizes = run.summary, run.summary["bytes"]
    return {
        **{"run": run.label, "folder": str(run.path), "data": run.data},
        **{name: summary[name] for name in _OF_SUMMARY},
        AFTER_LOCAL: after_local_steps(summary),
        **{"bytes": sizes["total"], "bytes_down": sizes["down"], "bytes_up": sizes["up"]},
        **{name: summary[name] for name in _OF_COSTS},
        "target": None if math.isnan(target) else target,
        **{f"{cost}_to_target": None if point is None else _SHOWN_AS[cost](point[COSTS[cost]]) for cost in _SHOWN_AS},
    }


def clients_text(summary: Mapping[str, Any]) -> str:
    """Return how many clients a run has, and how many of them were scored where that is a sample."""
    if not summary["scored"]:
        return str(summary["clients"])
    baselines = "; baselines see their data alone" if summary["baselines"] else ""
    return f"{summary['clients']}, scored on {summary['scored']} of them{baselines}"


def failures_text(failures: Mapping[str, int]) -> str:
    """Return a warning where clients of a run have failed; "" where none has."""
    counts = human_failures(failures)
    lacking = "; a scoring that lacks clients has no score" if failures["scoring"] else ""
    return f"clients failed, {counts}{lacking}." if counts else ""


def _differing(table: Sequence[dict[str, Any]]) -> str:
    """Return why scores of the rows are of different data; "" where they are not, as far as is known.

    Seeds deal and split the same data differently, so that only runs of one seed can tell.
    """
    if len({row["dataset"] for row in table}) > 1:
        return "Not the same data set: scores cannot be compared."
    known = {(row["seed"], row.get("data")) for row in table if row.get("data") is not None}
    if len({seed for seed, _ in known}) < len(known):
        return "Not the same data, or dealt and split differently: scores cannot be compared."
    return ""


def _caption(table: Sequence[dict[str, Any]]) -> str:
    metric, better, target = (table[0][name] for name in ("metric", "better", "target"))
    differing = _differing(table)
    lines = [differing] if differing else []
    lines.append(f"{metric}: {better} is better" + ("; * best" if best_values(table) else ""))
    if target is not None:
        lines.append(f"Target: validation {metric} {'≤' if better == 'lower' else '≥'} {target:.4g}.")
    lines += [f"{row['run']}: {clients_text(row)} clients." for row in table if row["scored"]]
    lines += [f"{row['run']}: {failed}" for row in table if (failed := failures_text(row["failures"]))]
    if any(baselines_of(row) for row in table):
        lines.append("Below the line: baselines, scored on the same test split.")
    return "\n".join(lines)


class Interval(NamedTuple):
    """A mean of paired differences and half the width of its interval; nan where there are fewer than two."""

    middle: float
    half: float

    @property
    def above(self) -> bool:
        """True where the whole interval lies above 0."""
        return self.middle - self.half > 0

    @property
    def below(self) -> bool:
        """True where the whole interval lies below 0."""
        return self.middle + self.half < 0

    def __format__(self, digits: str) -> str:
        if math.isnan(self.middle):
            return ""
        middle = f"{self.middle:+{digits}f}"
        return middle if math.isnan(self.half) else f"{middle} ± {self.half:{digits}f}"

    def __str__(self) -> str:
        return f"{self:.2}"


def interval(differences: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of paired differences and half the width of its interval, by default of 95 %.

    >>> str(interval([1.0, 2.0, 3.0]))
    '+2.00 ± 2.48'
    """
    if not differences:
        return Interval(math.nan, math.nan)
    return Interval(mean(differences), half_width(differences, confidence))


def half_width(values: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """Return half the width of a mean's interval by Student's t, by default of 95 %; nan of fewer than two values."""
    if len(values) < 2:
        return math.nan
    return float(stdtrit(len(values) - 1, (1 + confidence) / 2)) * stdev(values) / math.sqrt(len(values))


def p_value(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of Student's paired t-test; nan of fewer than two differences.

    Without any variance it is 0, but 1 where all differences are 0.

    >>> round(p_value([1.0, 2.0, 3.0]), 4)
    0.0742
    """
    count = len(differences)
    if count < 2:
        return math.nan
    middle, error = mean(differences), stdev(differences) / math.sqrt(count)
    if error == 0:
        return 0.0 if middle else 1.0
    return float(2 * stdtr(count - 1, -abs(middle / error)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for all of them by Holm (1979), in their order; a nan is no comparison and stays.

    >>> [round(p, 2) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if not math.isnan(p))
    corrected, least = [math.nan] * len(p_values), 0.0
    for rank, (p, place) in enumerate(known):
        least = max(least, min(1.0, (len(known) - rank) * p))
        corrected[place] = least
    return corrected
