"""Tables of scores and costs as a page shows them: a row a run, or a row a group of seeds with means and spreads."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from fedgraft.contracts.values import SPLITS
from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.reports.figures.figure_style import RUN_COLOURS
from fedgraft.reports.stored import comparison
from fedgraft.reports.stored.seed_groups import SCORES, Group, group_rows, over, run_of, shown_difference, shown_over
from fedgraft.reports.stored.stored_runs import (
    AMONG_FEW,
    METRIC_NAMES,
    StoredRun,
    after_local_steps,
    joined_baselines,
    joined_raw_data,
)

SCORE_COLUMNS = {"validation": "validation", "test": "test", "test_at_best_validation": "test at best validation"}
"""Columns of the table of scores after the run's, and their headings; further measures follow."""
COST_COLUMNS = {
    "bytes": "bytes",
    "bytes_down": "down",
    "bytes_up": "up",
    "bytes_to_target": "bytes to target",
    "simulated_seconds_to_target": "simulated seconds to target",
    "flops": "operations",
    "flops_to_target": "operations to target",
    "rounds": "rounds",
    "selections": "selections",
    "seconds": "seconds",
    "simulated_seconds": "simulated seconds",
}
"""Columns of the table of costs, which has those that are known of any run."""
SEED_COLUMNS = {**SCORE_COLUMNS, **{name: COST_COLUMNS[name] for name in ("bytes", "bytes_to_target", "rounds")}}
"""Columns of the table of single runs, where there are several seeds."""

Texts = dict[str, str]


@dataclass(frozen=True)
class PageTables:
    """What the tables of a page hold.

    Args:
        names: of each run, or group.
        texts: {column: text} of each.
        groups: {heading: text of each} of groups alone: differences, seeds.
        measures: {heading: text of each} of scores after local steps, and of further measures on test.
        cost_columns: {column: heading} of costs that are known of any.
        best: (column, place) of cells that are the best of runs; none of groups, whose means may differ by chance.
        baselines: (name, score on test).
        raw_data: (name, bytes as text).
        seeds: where there are groups {column: text} of each run, else [].
        target: the validation score; None for none.
    """

    names: list[str]
    texts: list[Texts]
    groups: dict[str, list[str]]
    measures: dict[str, list[str]]
    cost_columns: dict[str, str]
    best: set[tuple[str, int]]
    baselines: list[tuple[str, float]]
    raw_data: list[tuple[str, str]]
    seeds: list[Texts]
    target: float | None

    @property
    def more(self) -> dict[str, list[str]]:
        """{heading: text of each} of what follows the scores."""
        return {**self.groups, **self.measures}

    @property
    def marked(self) -> set[str]:
        """Columns in which one is the best, so that others leave room for the mark."""
        return {name for name, _ in self.best}


def page_tables(groups: Sequence[Group], target: float) -> PageTables:
    """Return the tables of groups, which may all be single runs, for a target score; nan for none."""
    shown = [run_of(group) for group in groups]
    table, several = comparison.rows(shown, target), group_rows(groups)
    best = {} if several else comparison.best_values(table)
    texts = [{name: comparison.shown(name, row[name]) for name in (*SCORE_COLUMNS, *COST_COLUMNS)} for row in table]
    for each, row, run in zip(texts, several, shown, strict=bool(several)):
        each |= {name: shown_over(row[name], "{:.4f}".format) for name in SCORES}
        each["bytes"] = shown_over(row["bytes"], human_bytes)
        if run.seeds and run.reaching(target) is None:
            each["bytes_to_target"] = run.missed(target)
    every = comparison.rows([run for group in groups for run in group.runs], target)
    return PageTables(
        names=[run.label for run in shown],
        texts=texts,
        groups=_of_groups(several),
        measures={**_after_steps(groups), **_measures(groups)},
        cost_columns={name: text for name, text in COST_COLUMNS.items() if any(row[name] is not None for row in table)},
        best={(name, place) for name in best for place, row in enumerate(table) if row[name] == best[name]},
        baselines=joined_baselines(every),
        raw_data=[(name, human_bytes(size)) for name, size in joined_raw_data(every)],
        seeds=[
            {name: comparison.shown(name, row[name]) for name in SEED_COLUMNS} for row in (every if several else [])
        ],
        target=table[0]["target"],
    )


def _of_groups(rows: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """{heading: text of each group} of differences and seeds; {} where there are no groups."""
    if not rows:
        return {}
    differences = [shown_difference(row) for row in rows]
    columns = {f"difference to {rows[0]['group']}": differences} if any(differences) else {}
    return {**columns, "seeds": [", ".join(map(str, row["seeds"])) for row in rows]}


def _after_steps(groups: Sequence[Group]) -> dict[str, list[str]]:
    """{heading: text of each group} of scores after local steps, where any group has them."""
    scores = [over([after_local_steps(run.summary) for run in group.runs]) for group in groups]
    texts = [shown_over(score, "{:.4f}".format) for score in scores]
    return {"test after local steps": texts} if any(scores) else {}


def _measures(groups: Sequence[Group]) -> dict[str, list[str]]:
    """{what it is called: text of each group} of measures on test beside the score."""
    names = dict.fromkeys(
        name
        for group in groups
        for run in group.runs
        for name in run.measures
        if "threshold" not in run.summary or not name.startswith(AMONG_FEW)  # the page of classes tells those
    )
    return {METRIC_NAMES.get(name, name): [_measure(group.runs, name) for group in groups] for name in names}


def _measure(runs: Sequence[StoredRun], name: str) -> str:
    return shown_over(over([run.measures.get(name) for run in runs]), "{:.4f}".format)


MOST_CLIENTS = 100
"""Clients that a page lists."""


@dataclass(frozen=True)
class Share:
    """A client's examples of a class: how many, what part of its examples in [0, 100], the colour of the class."""

    name: str
    count: int
    percent: float
    colour: str


@dataclass(frozen=True)
class DataPart:
    """The data that some runs have in common.

    Args:
        runs: the labels of these runs.
        text: sizes in a sentence.
        classes: {class: colour}.
        clients: (number, client, shares of classes) of the first `MOST_CLIENTS`; a client has "name" and a count for
            each of `SPLITS`.
        left: clients that are not among them.
    """

    runs: tuple[str, ...]
    text: str
    classes: dict[str, str]
    clients: tuple[tuple[int, dict[str, Any], tuple[Share, ...]], ...]
    left: int


def data_parts(runs: Sequence[StoredRun]) -> list[DataPart]:
    """Return the data of each run that tells them, runs with the same data together."""
    by_data: list[tuple[dict[str, Any], list[str]]] = []
    for run in runs:
        if (data := run.summary["data"]) is None or not data["clients"]:
            continue
        labels = next((labels for other, labels in by_data if other == data), None)
        if labels is None:
            by_data.append((data, [run.label]))
        else:
            labels.append(run.label)
    return [_part(data, labels) for data, labels in by_data]


def _part(data: dict[str, Any], labels: Sequence[str]) -> DataPart:
    colours = {name: RUN_COLOURS[number % len(RUN_COLOURS)] for number, name in enumerate(data["classes"])}
    rows = data["clients"]
    listed = tuple((number, row, _shares(row, colours)) for number, row in enumerate(rows[:MOST_CLIENTS]))
    return DataPart(tuple(labels), _sizes(rows), colours, listed, max(0, len(rows) - MOST_CLIENTS))


def _sizes(rows: Sequence[dict[str, Any]]) -> str:
    """Say how many examples there are, and how many a client has to train on."""
    totals = [sum(row[split] for row in rows) for split in SPLITS]
    training = [row[SPLITS[0]] for row in rows]
    of = ", ".join(f"{total:,} {split}" for total, split in zip(totals, SPLITS, strict=True))
    spread = f"{min(training):,} to {max(training):,}, median {median(training):,.0f}"
    return f"{sum(totals):,} examples ({of}) at {len(rows):,} clients. Training examples of a client: {spread}."


def _shares(row: dict[str, Any], colours: dict[str, str]) -> tuple[Share, ...]:
    total = sum(row["classes"])
    return tuple(
        Share(name, count, 100 * count / total, colour)
        for (name, colour), count in zip(colours.items(), row["classes"], strict=True)
        if count
    )
