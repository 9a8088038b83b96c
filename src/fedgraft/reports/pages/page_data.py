"""Show what the clients of runs have: sizes, and shares of classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from fedgraft.contracts.values import SPLITS
from fedgraft.reports.figures.figure_style import RUN_COLOURS
from fedgraft.reports.stored.stored_runs import StoredRun

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
