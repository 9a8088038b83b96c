"""The three tables of a study: a pivot of cells, paired differences, and what is spent until a target is reached."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import mean
from typing import Any, Final, NamedTuple, TypeAlias

from fedgraft.contracts.scores import first_reaching
from fedgraft.reports.stored.comparison import LEVEL, Interval, holm, interval, p_value
from fedgraft.reports.studies.cells import (
    Column,
    Key,
    PanelRuns,
    Run,
    figures,
    figures_spread,
    filled,
    points_of,
    spread,
    table,
)

LEAST_SEEDS: Final = 5
"""Paired seeds from which on a method may be called first."""
Text: TypeAlias = Callable[[Key], str]
Shown: TypeAlias = tuple[str, Text] | str
"""A heading and what is below it; or the name of one of `MEASURES`."""


# --- pivot ------------------------------------------------------------------------------------------------------------


def pivot(
    panel: PanelRuns, title: str, cell: Callable[[str, Key], str], last: Sequence[tuple[str, Text]] = (), more: Any = ()
) -> str:
    """Return a table with methods down and settings across; then `last` columns, and `more` rows."""
    rows = [
        (panel.row_label(key), *(cell(setting, key) for setting in panel.columns), *(text(key) for _, text in last))
        for key in panel.keys
    ]
    return table((title, *panel.columns, *(head for head, _ in last)), [*rows, *more])


def listed(panel: PanelRuns, keys: Iterable[Key], columns: Sequence[Shown]) -> str:
    """Return a table of one setting, methods down and measures across, without measures that no method has."""
    named = [(each, partial(panel.shown(each), panel.setting)) if isinstance(each, str) else each for each in columns]
    return filled([head for head, _ in named], [[text(key) for _, text in named] for key in keys])


# --- paired differences -----------------------------------------------------------------------------------------------


def paired(one: Mapping[int, float], other: Mapping[int, float]) -> list[float]:
    """Return the differences of two methods' scores, {seed: score}, over the seeds that both have."""
    return [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]


@dataclass(frozen=True)
class Differences:
    """The paired differences of a table, with intervals, and p-values that are corrected by Holm over all of it.

    Args:
        values: {(column, row): a difference a seed}; nan where a method never gets somewhere, which still counts as a
            comparison.
        reference: the method whose own places are no comparisons.
        tested: whether they have intervals and p-values; else they are means alone.
    """

    values: Mapping[Any, Sequence[float]]
    reference: str = ""
    tested: bool = True

    @cached_property
    def p_values(self) -> dict[Any, float]:
        """{place: corrected p-value}; fewer than two paired seeds are no comparison."""
        raw = {
            place: 1.0 if any(map(math.isnan, values)) else p_value(values)
            for place, values in self.values.items()
            if self.tested and len(values) > 1 and place[1][1] != self.reference
        }
        return dict(zip(raw, holm([*raw.values()]), strict=True))

    def text(self, place: Any, digits: int) -> str:
        """Return a mean difference with its interval, and "*" where its corrected p-value is below `LEVEL`."""
        difference = interval(self.values.get(place, ()))
        shown = difference if self.tested else Interval(difference.middle, math.nan)
        return f"{shown:.{digits}}{'*' if self.p_values.get(place, 1.0) < LEVEL else ''}"

    def beside(self, column: str, key: Key, digits: int) -> str:
        """Return `text` of a column and a row; "" for the reference itself."""
        return "" if key[1] == self.reference else self.text((column, key), digits)

    def note(self, label: str) -> str:
        """Return the sentence that says what an asterisk means in this table."""
        return (
            f"An asterisk: p < {LEVEL} in a two-sided paired t-test, corrected by Holm over all {len(self.p_values)} "
            f"comparisons with {label} in this table."
        )


def differences(columns: Mapping[str, Column[float]], reference: str, tested: bool = True) -> Differences:
    """Compare all methods in all columns with the reference method with the same model."""
    places = {
        (name, key): paired(scores, column.get((key[0], reference), {}))
        for name, column in columns.items()
        for key, scores in column.items()
    }
    return Differences(places, reference, tested)


def standings(column: Column[float], lower: bool) -> dict[Key, str]:
    """Return what a column says of its best method and of those that cannot be told from it, " (first)" for one.

    The best is the one with the highest mean, or the lowest where `lower` scores are better. It is first where its
    corrected intervals from all others exclude 0, over `LEAST_SEEDS` paired seeds or more. One alone is nothing. Who
    lacks a seed that others have is left out: its mean is one of other splits.
    """
    sign, most = -1 if lower else 1, max(map(len, column.values()), default=0)
    whole = [run for run in column if len(column[run]) == most]
    best, *others = sorted(whole, key=lambda run: -sign * mean(column[run].values())) or [("", "")]
    if not others:
        return {}
    level = 1 - LEVEL / len(others)
    behind = {run: [sign * each for each in paired(column[best], column[run])] for run in others}
    alike = [run for run in others if not interval(behind[run], level).above]
    enough = min(map(len, behind.values())) >= LEAST_SEEDS
    word = "first" if enough and not alike else "lowest" if lower else "highest"
    return {best: f" ({word})"} | dict.fromkeys(alike, f" (with the {word})")


# --- targets ----------------------------------------------------------------------------------------------------------
# Each seed has its own target, and each method's crossing is read off its own curve. A mean over curves has no part: it
# may cross where one of the seeds never does.

Crossings: TypeAlias = Mapping[int, Mapping[str, Any] | None]
"""{seed: the first point, by the names of `POINT`, in which its run is at its target; None if it never is}."""


class Cost(NamedTuple):
    """A cost of a curve's points: its unit, its name in `POINT`, and how much of that a unit is."""

    unit: str
    name: str
    size: float


MB, GFLOP, SECONDS = Cost("MB", "bytes", 1e6), Cost("GFLOP", "flops", 1e9), Cost("s", "simulated_seconds", 1.0)
MARK, MARKED = " †", " A †: on seeds that options were chosen on, as there are no others; not tested."


def goals(runs: Mapping[int, Run], target: Mapping[str, Any]) -> dict[int, float]:
    """Return {seed: the target that the best validation score of its run sets}, points below it or a share of it.

    Only of the seeds whose run has a score.
    """
    bests = {seed: [float(point["validation"]) for point in points_of(run)] for seed, run in runs.items()}
    share, below = target.get("share", 1.0), target.get("below", 0.0)
    return {seed: max(scores) * share - below / 100 for seed, scores in bests.items() if scores}


def crossings(runs: Mapping[int, Run], goal: Mapping[int, float]) -> Crossings:
    """Return {seed: the point in which its run is at its target, None if it never is}, of seeds that have both."""
    return {seed: first_reaching(points_of(run), goal[seed], "higher") for seed, run in runs.items() if seed in goal}


def reached(points: Crossings) -> str:
    """Return the rounds of crossings, mean and spread, and how many seeds get there; "" for no seed at all.

    >>> reached({1: {"round": 10}, 2: {"round": 14}, 3: None})
    '12.0 ± 2.8, 2 of 3 seeds'
    """
    rounds = [point["round"] for point in points.values() if point is not None]
    told = f"{len(rounds)} of {len(points)} seeds"
    return f"{spread(rounds, 1)}, {told}" if rounds else told if points else ""


def seconds(points: Crossings) -> str:
    """Return the mean of simulated seconds until crossings, such as " (31.4 s)"; "" where one does not know them.

    >>> seconds({1: {"simulated_seconds": 30.0}, 2: {"simulated_seconds": 34.0}, 3: None})
    ' (32 s)'
    """
    found = [point for point in points.values() if point is not None]
    known = [point["simulated_seconds"] for point in found if "simulated_seconds" in point]
    return f" ({figures(mean(known))} s)" if known and len(known) == len(found) else ""


def target_name(panel: PanelRuns, target: Mapping[str, Any]) -> str:
    """Return the name of a target, such as "99 % of the best of FedAvg"."""
    best = f"the best of {panel.label(target.get('reference', panel.study.reference))}"
    return f"{100 * target['share']:g} % of {best}" if "share" in target else f"{best}, less {target['below']:g} points"


@dataclass(frozen=True)
class Savings:
    """What methods save of a reference's costs, paired by seed.

    A method has a saving only where both it and the reference get to the target on every seed that they share: over
    the lucky ones alone it would look cheaper than it is.

    Args:
        costs: {cost: {(model, method): {seed: what was spent, nan if the target was never reached}}}.
        reference: the method whose costs are the measure, with the same model.
        tested: whether savings have intervals and are tested; else they are means alone.
    """

    costs: Mapping[str, Column[float]]
    reference: str
    tested: bool = True

    @cached_property
    def differences(self) -> Differences:
        """Percent saved, of those that get there on every seed."""
        found = {
            (name, key): _saved(own, column.get((key[0], self.reference), {}))
            for name, column in self.costs.items()
            for key, own in column.items()
        }
        there = {place: each for place, each in found.items() if each and not any(map(math.isnan, each))}
        return Differences(there, self.reference, self.tested)

    def text(self, cost: str, key: Key) -> str:
        """Return a saving in percent with its interval, "never" or "not on every seed"; "" for the reference itself."""
        column = self.costs.get(cost, {})
        own = column.get(key, {})
        if key[1] == self.reference or not own:
            return ""
        if all(map(math.isnan, own.values())):
            return "never"
        if (cost, key) not in self.differences.values:
            return "not on every seed" if own.keys() & column.get((key[0], self.reference), {}).keys() else ""
        return self.differences.text((cost, key), 1)

    def note(self, label: str) -> str:
        """Return what savings and asterisks mean, given the reference's label."""
        savings = f"% fewer: than {label}, seed by seed, and only where all seeds get there"
        return f"{savings}, with 95 % intervals. {self.differences.note(label)}" if self.tested else f"{savings}."


class Crossed(NamedTuple):
    """Where the methods of a setting are at their seeds' targets, and what they save by then."""

    points: Mapping[Key, Crossings]
    goals: Sequence[float]
    savings: Savings


def crossed(
    panel: PanelRuns, costs: Sequence[Cost], target: Mapping[str, Any], runs: Column[Run], tested: bool, against: str
) -> Crossed:
    """Return where runs of a setting are at a target, and what they save by then of the costs of a method `against`."""
    method = target.get("reference", panel.study.reference)
    every = {key[0]: goals(by_seed, target) for key, by_seed in runs.items() if key[1] == method}
    points = {key: crossings(by_seed, every.get(key[0], {})) for key, by_seed in runs.items()}
    spent = {cost.unit: {key: _costs(own, cost) for key, own in points.items()} for cost in costs}
    return Crossed(points, [goal for each in every.values() for goal in each.values()], Savings(spent, against, tested))


def targets(panel: PanelRuns, costs: Sequence[Cost]) -> str:
    """Return the table of a setting, methods down and costs until the target across; "" where nobody sets a target.

    Seeds that options were chosen on have no part in what is tested. Methods without others are marked, and described.
    """
    target, reference, rows = panel.study.target, panel.study.reference, []
    runs, tested = panel.claimed(panel.columns, reference)
    found = crossed(panel, costs, target, runs.get(panel.setting, {}), tested, reference)
    rest = crossed(panel, costs, target, panel.only, False, reference)
    if not found.goals:
        return ""
    for key in panel.keys:
        own = found if found.points.get(key) else rest
        if points := own.points.get(key, {}):
            cells = [(_spent(points, cost), own.savings.text(cost.unit, key)) for cost in costs]
            label = panel.label(key[1]) + (MARK if own is rest else "")
            rows.append((label, reached(points), *(text for pair in cells for text in pair)))
    head = [column for cost in costs for column in (cost.unit, f"% fewer {cost.unit}")]
    note = (
        f"{panel.chosen_note(tested)}The target, which the study fixes beforehand, is "
        f"{target_name(panel, target)}, on validation with the same seed; {100 * mean(found.goals):.2f} in the mean. "
        "Rounds and what is spent are means over the seeds that get there. "
        f"{found.savings.note(panel.label(reference))}{MARKED if any(row[0].endswith(MARK) for row in rows) else ''}\n"
    )
    return note + "\n" + table(("to the target", "rounds", *head), rows)


def _saved(own: Mapping[int, float], base: Mapping[int, float]) -> list[float]:
    """Return percent saved of the other's cost over shared seeds; nan where one never gets there or costs nothing."""
    both = [(own[seed], base[seed]) for seed in sorted(own.keys() & base.keys())]
    return [100 * full / full - 100 * cost / full if full else math.nan for cost, full in both]


def _costs(points: Crossings, cost: Cost) -> dict[int, float]:
    """Return {seed: a cost of its point in the cost's unit, nan of none}; without seeds whose run did not count it."""
    known = {seed: math.nan if point is None else point.get(cost.name) for seed, point in points.items()}
    return {seed: value / cost.size for seed, value in known.items() if value is not None}


def _spent(points: Crossings, cost: Cost) -> str:
    """Return mean and standard deviation over the seeds that get there; "" where none does."""
    return figures_spread([value for value in _costs(points, cost).values() if not math.isnan(value)])
