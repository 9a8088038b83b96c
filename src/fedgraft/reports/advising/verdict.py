"""The verdict: rows with means over paired seeds, whether federation is better than every client alone, and why."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Final, Literal, TypeAlias

from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.reports.advising.cells import TIME, WORK, Cell, equal, human_operations
from fedgraft.reports.advising.questions import (
    ALONE,
    LEAST_SEEDS,
    LOCAL,
    ONE_PLACE,
    TOGETHER,
    Candidate,
    Question,
    Trial,
)
from fedgraft.reports.stored.comparison import Interval, interval

CONFIDENCE = 0.9
"""Of the intervals that decide."""
SHARES = (0.25, 0.5, 1.0)
"""Shares of a run's bytes at which its score is told."""
MEGABYTE = 10**6
Answer: TypeAlias = Literal["federate", "do not federate"]
FEDERATE: Final = "federate"
KEEP_APART: Final = "do not federate"


@dataclass(frozen=True)
class Row:
    """What was found of a recipe or a baseline.

    Args:
        kind: federated, by clients alone, or in one place.
        name: of it.
        cells: {seed: result}, without those that were refused.
        figure: of a recipe that it is held against; see `Alone`. A model that is trained alone: "pooled", one round for
            all clients, and a mean over clients like its own.
        candidate: the recipe, or whose model is trained.
        note: why there is no result; "" where there is.
    """

    kind: str
    name: str
    cells: Mapping[int, Cell]
    figure: str
    candidate: Candidate
    note: str = ""

    def mean(self, split: str, seeds: Sequence[int] | None = None) -> float:
        """Return the mean score over seeds, by default all of its own; nan where one is not known."""
        scores = [self.cells[seed][split] for seed in (self.cells if seeds is None else seeds)]
        return math.nan if None in scores else float(mean(scores))

    @property
    def validation(self) -> dict[int, float]:
        """{seed: score on validation}."""
        return {seed: cell["validation"] for seed, cell in self.cells.items()}

    @property
    def bytes(self) -> float | None:
        """Mean bytes of a run; None for a baseline."""
        return mean(cell["bytes"]["total"] for cell in self.cells.values()) if self.kind == TOGETHER else None

    @property
    def points(self) -> list[float | None]:
        """Mean over seeds of the best validation score with each of `SHARES` of a run's bytes; None before any."""
        by_seed = [[_best(cell, share * cell["bytes"]["total"]) for share in SHARES] for cell in self.cells.values()]
        return [
            None if None in scores else mean(s for s in scores if s is not None)
            for scores in zip(*by_seed, strict=True)
        ]

    def per_megabyte(self, sign: int) -> list[float | None]:
        """Return how much better a further megabyte makes the score, between one of `SHARES` and the next."""
        points, total = self.points, self.bytes or 0.0
        steps = zip(points, points[1:], SHARES, SHARES[1:], strict=False)
        return [
            None if a is None or b is None or not total else sign * (b - a) / ((late - early) * total / MEGABYTE)
            for a, b, early, late in steps
        ]


@dataclass(frozen=True)
class Verdict:
    """What to do.

    Args:
        advice: "federate" or "do not federate".
        sentence: says it, with figures.
        rows: all of them, kinds in order.
        best: the recipe that is advised, or where none is the best on validation; None where none could be run on two
            seeds.
        equals: names of recipes that are equal to the best on validation, see `standing.equal`, without `best`.
        gains: {recipe: mean paired gain over the best that clients reach alone}.
        metric: of scores; better: which are.
    """

    advice: Answer
    sentence: str
    rows: list[Row]
    best: Row | None
    equals: Sequence[str]
    gains: Mapping[str, Interval]
    metric: str
    better: str

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower is."""
        return -1 if self.better == "lower" else 1

    @property
    def better_off(self) -> float | None:
        """Share of clients whose test score is better with the best recipe than with a model of their own.

        Over all seeds; None where it is not known.
        """
        models = [row for row in self.rows if row.kind == ALONE and row.figure == "pooled" and row.cells]
        if self.best is None or not models:
            return None
        alone = next((row for row in models if row.candidate == self.best.candidate), models[0])
        pairs = [
            (together, apart)
            for seed, cell in self.best.cells.items()
            if seed in alone.cells and len(cell["test_per_client"]) == cell["clients"]
            for together, apart in zip(cell["test_per_client"], alone.cells[seed]["test_per_client"], strict=True)
            if together is not None and apart is not None
        ]
        return mean(self.sign * (together - apart) > 0 for together, apart in pairs) if pairs else None


def rows_of(question: Question, results: Mapping[Trial, Cell], heavy: Mapping[str, float]) -> list[Row]:
    """Return a row for each recipe and each baseline that has results or was refused.

    `heavy` are {recipe: operations that a run of it would take} of those that were stopped for it.
    """
    figures = {alone.name: alone.figure for alone in question.choice.alone}
    by_row: dict[tuple[str, str], dict[Trial, Cell]] = {}
    for job, cell in results.items():
        by_row.setdefault(job.row, {})[job] = cell
    rows = []
    for (kind, name), cells in by_row.items():
        job = next(iter(cells))
        refused = next((str(cell["refused"]) for cell in cells.values() if "refused" in cell), "")
        kept = {} if refused else {each.seed: cell for each, cell in sorted(cells.items(), key=lambda c: c[0].seed)}
        figure = "pooled" if job.baseline == LOCAL else figures.get(name, "validation")
        rows.append(Row(kind, name, kept, figure, job.candidate, refused))
    left = [each for each in question.choice.recipes if each.name in heavy and (TOGETHER, each.name) not in by_row]
    rows += [
        Row(TOGETHER, each.name, {}, "", each, f"would take {human_operations(heavy[each.name])} a run")
        for each in left
    ]
    return sorted(rows, key=lambda row: (TOGETHER, ALONE, ONE_PLACE).index(row.kind))


def judge(question: Question, rows: list[Row], missing: Mapping[Trial, str]) -> Verdict:
    """Return the verdict: "federate" only where a recipe is shown to be better than all that clients reach alone.

    Paired by seed, with figures that were chosen alike: see `Alone`. That is asked of the recipes that are equal to the
    best one, and of the first of the list: one more recipe on it never takes a gain away that is there without it. Of
    those that show a gain one that is equal to the best is advised, if there is any, for the fewest bytes. `missing`
    are {job that was not done: the option whose limit left it out}.
    """
    cells = [cell for row in rows if row.kind == TOGETHER for cell in row.cells.values()]
    better = cells[0]["better"] if cells else "higher"
    metric, sign = cells[0]["metric"] if cells else "score", -1 if better == "lower" else 1
    federated = [row for row in rows if row.kind == TOGETHER and len(row.cells) >= LEAST_SEEDS]
    alone = [row for row in rows if row.kind == ALONE and len(row.cells) >= LEAST_SEEDS]
    rivals = {row.name: _rival(row, alone, sign) for row in federated}
    gains = {name: gain for name, (gain, _) in rivals.items() if gain is not None}

    def verdict(advice: Answer, sentence: str, best: Row | None, equals: Sequence[Row] = ()) -> Verdict:
        others = [row.name for row in equals if row is not best]
        return Verdict(advice, sentence + _left_out(question, rows, missing), rows, best, others, gains, metric, better)

    if not federated:
        return verdict(KEEP_APART, _none_ran(question, rows, missing), None)
    shared = set.intersection(*(set(row.cells) for row in federated)) or {0}
    top = max(federated, key=lambda row: sign * row.mean("validation", [*shared] if shared != {0} else None))
    equals = [row for row in federated if row is top or equal(top.validation, row.validation)]
    tested = [*equals, *(row for row in federated if row.name == question.choice.recipes[0].name and row not in equals)]
    shown = [row for row in tested if row.name in gains and gains[row.name].above]
    best = min([row for row in shown if row in equals] or shown or [top], key=lambda row: row.bytes or 0)
    gain, rival = rivals[best.name]
    trained = any(row.name.endswith("'s model") and row.kind == ALONE for row in rows)
    if gain is None or rival is None or (not trained and any(job.baseline == LOCAL for job in missing)):
        limit = next(iter(missing.values()), WORK)
        sentence = (
            f"Do not federate yet: {best.name} has {metric} {best.mean('validation'):.4f} on validation, but its model "
            f"was not trained at each client alone; give more {limit}, or fewer rounds=N."
        )
        return verdict(KEEP_APART, sentence, best)
    sentence = _compared(best, gain, rival, metric) + _beside(best, equals, top, metric)
    return verdict(FEDERATE if shown else KEEP_APART, sentence, best, equals)


def _rival(row: Row, alone: Sequence[Row], sign: int) -> tuple[Interval | None, Row | None]:
    """A recipe's mean paired gain over the best of what clients reach alone, and what that is."""
    gains = []
    for other in alone:
        seeds = sorted(row.cells.keys() & other.cells.keys())
        differences = [sign * (row.cells[seed][other.figure] - other.cells[seed]["validation"]) for seed in seeds]
        if len(differences) >= LEAST_SEEDS:
            gains.append((interval(differences, CONFIDENCE), other))
    return min(gains, key=lambda each: each[0].middle, default=(None, None))


def _compared(best: Row, gain: Interval, rival: Row, metric: str) -> str:
    seeds = sorted(best.cells.keys() & rival.cells.keys())
    figures = (
        f"{metric} on validation is {best.mean(rival.figure, seeds):.4f} against "
        f"{rival.mean('validation', seeds):.4f} of clients alone ({rival.name}), a gain of {gain:.4} "
        f"({CONFIDENCE:.0%} interval, {len(seeds)} paired seeds)"
    )
    spent = f"{human_bytes(best.bytes or 0)}{_beside_raw_data(best)}"
    if gain.above:
        return f"Federate with {best.name}: {figures}, for {spent}."
    why = "they are equal within the spread" if gain.middle > 0 else "that is no gain"
    return f"Do not federate: of the best recipe, {best.name}, {figures}: {why} for {spent}."


def _beside_raw_data(best: Row) -> str:
    """Say how a run's bytes stand to those of sending all data once, where they are more."""
    raw = next((cell.get("raw_data_bytes") for cell in best.cells.values()), None)
    if not raw or not best.bytes or best.bytes <= raw:
        return ""
    share = best.bytes / raw
    times = f"{share:,.0f}" if share >= 100 else f"{share:.3g}"
    return f", {times} times what sending all data once takes ({human_bytes(raw)})"


def _beside(best: Row, equals: Sequence[Row], top: Row, metric: str) -> str:
    """Say which recipes are as good, and which one looks better without a shown gain."""
    told = [
        f"{row.name} ({row.mean('validation'):.4f}, {human_bytes(row.bytes or 0)})" for row in equals if row is not best
    ]
    if best in equals:
        return f" Equal to it within the spread: {', '.join(told)}." if told else ""
    return f" {top.name} has {metric} {top.mean('validation'):.4f} on validation, but its gain is not shown."


def _left_out(question: Question, rows: Sequence[Row], missing: Mapping[Trial, str]) -> str:
    """Say which recipes were not tried on two seeds, and for which limit."""
    counted = {row.name: len(row.cells) for row in rows if row.kind == TOGETHER}
    left = {
        job.name: limit
        for job, limit in missing.items()
        if job.kind == TOGETHER and counted.get(job.name, 0) < LEAST_SEEDS
    }
    names = [name for name in (each.name for each in question.choice.recipes) if name in left]
    by_limit = {limit: [name for name in names if left[name] == limit] for limit in (WORK, TIME)}
    return "".join(f" Not tried within {limit}: {', '.join(each)}." for limit, each in by_limit.items() if each)


def _none_ran(question: Question, rows: Sequence[Row], missing: Mapping[Trial, str]) -> str:
    tried = [row for row in rows if row.kind == TOGETHER]
    if tried and all(row.note.startswith("the budget") for row in tried) and not missing:
        return f"Do not federate: {human_bytes(question.budget)} pay for no round of any recipe."
    notes = "; ".join(f"{row.name}: {row.note or 'one seed'}" for row in tried)
    wanted = f"; give more {next(iter(missing.values()))}" if missing else ""
    return f"Do not federate yet: no recipe was run on two seeds ({notes.rstrip('.') or 'none ended'}){wanted}."


def _best(cell: Cell, most: float) -> float | None:
    """The best validation score of a run's curve with at most so many bytes."""
    scores = [score for spent, score in cell["curve"] if spent <= most]
    return (min if cell["better"] == "lower" else max)(scores, default=None)
