"""Tables of scores and costs as a page shows them: a row a run, or a row a group of seeds with means and spreads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.reports.stored import comparison
from fedgraft.reports.stored.seed_groups import SCORES, Group, group_rows, over, shown_difference, shown_over
from fedgraft.reports.stored.seed_means import run_of
from fedgraft.reports.stored.stored_runs import (
    AMONG_FEW,
    METRIC_NAMES,
    StoredRun,
    after_local_steps,
    joined_raw_data,
    joined_yardsticks,
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
        yardsticks: (name, score on test).
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
    yardsticks: list[tuple[str, float]]
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
        yardsticks=joined_yardsticks(every),
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
        if "decision" not in run.summary or not name.startswith(AMONG_FEW)  # the page of classes tells those
    )
    return {METRIC_NAMES.get(name, name): [_measure(group.runs, name) for group in groups] for name in names}


def _measure(runs: Sequence[StoredRun], name: str) -> str:
    return shown_over(over([run.measures.get(name) for run in runs]), "{:.4f}".format)
