"""Edges of own tables and what is to be told of them: labels as they are read, and a client's shard made of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fedgraft.contracts.labels import Floats
from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.border_columns import ENDS, SIDES
from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeLabels, Make, repeats_before
from fedgraft.domains.edges.shards import EdgeShard
from fedgraft.domains.edges.stages import EVER, split_of
from fedgraft.domains.keyed_split import Hashes, joined, named
from fedgraft.domains.labels.known import is_known
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.tables.labels import read_labels, without
from fedgraft.domains.tables.rows import Rows
from fedgraft.wire.layouts import Array

NUMBERS_HINT: Final = " Numbers are for data.labels = 'numbers'."


def read_edge_labels(
    rows: Rows, classes: Sequence[str], are_numbers: bool, unknown: Sequence[str], hashed: bool
) -> EdgeLabels:
    """Return the labels of a table of edges; none is known where it has no column of them.

    Args:
        rows: of the table.
        classes: of the recipe; () = those that occur.
        are_numbers: whether labels are numbers.
        unknown: labels that stand for unknown ones.
        hashed: whether edges are told apart by hashes, too.
    """
    hashes, names = _hashes(rows) if hashed else None, tuple(classes)
    label: Array = np.full(len(rows), np.nan if are_numbers else -1)
    if "edge_label" in rows and not (are_numbers and not len(without(rows["edge_label"], unknown).filled)):
        label, names = read_labels(rows["edge_label"], names, unknown, are_numbers, NUMBERS_HINT)
    return EdgeLabels(label, () if are_numbers else names, hashes)


def _hashes(rows: Rows) -> Hashes:
    """uint64 [rows], of the ids of both ends, and of how many rows of the same file before have the same ends.

    Ends of one id that are said to be of different clients are different ones.
    """
    if not len(rows):
        return np.zeros(0, np.uint64)
    ends = [rows[role].distinct() for role in ENDS]
    source, target = (named(names)[code] for code, names in ends)
    whose = [_codes(rows, side) for side in SIDES if side in rows]
    before = repeats_before(np.stack([rows.file, *(code for code, _ in ends), *whose]))
    return joined(joined(source, target), before.astype(np.uint64))


def _codes(rows: Rows, role: str) -> Indices:
    """int64 [rows], a number for each text of a column; -1 where it is empty."""
    cells = rows[role]
    code = np.full(len(rows), -1)
    if len(cells.filled):
        code[cells.filled] = cells.take(cells.filled).codes()[0]
    return code


def edges_of(
    graph: NodeShard,
    carried: CarriedRows,
    mine: Indices,
    place: Floats,
    make: Make,
    classes: tuple[str, ...],
    is_timed: bool,
) -> EdgeShard:
    """Return a client's shard: the edges whose sources are own nodes, in the order of sources, targets and rows.

    Behind these are those whose targets nobody else lists: of such a target nothing is known, and no message is sent.

    Args:
        graph: its nodes and the edges at them; the number of an edge is its row in the table.
        carried: rows of the table that are edges, with their labels.
        mine: int64 [n], which of these its own table lists.
        place: of each of these in the order of all, float64 [rows] in [0, 1).
        make: what a model reads of rows.
        classes: names of the classes; () for numbers.
        is_timed: whether the order is by time.
    """
    rows: Any = graph.edge_rows
    number = np.zeros(int(carried.number.max(initial=-1)) + 1, np.int64)
    number[carried.number] = np.arange(len(carried))
    row, own = number[rows.number], np.flatnonzero(~rows.along)
    receiver = np.repeat(np.arange(graph.own), graph.degree)
    alone, source = _alone(carried, mine, rows.number)
    label, order = carried.edge_labels.label[np.append(row[own], alone)], place[np.append(row[own], alone)]
    ends = np.stack([receiver[own], graph.senders[own].astype(np.int64)])
    return EdgeShard(
        name=graph.name,
        ids=graph.ids,
        ends=np.concatenate([ends, np.stack([source, np.full(len(source), -1)])], axis=1),
        label=label,
        split=np.where(is_known(label), split_of(order), -1).astype(np.int8),
        classes=classes,
        label_names=(),
        graph=replace(graph, edge_rows=replace(rows, order=np.where(rows.number < 0, EVER, place[row]))),
        columns=np.concatenate([rows.values[own], make(carried.take(alone))]),
        order=order,
        timed=is_timed,
    )


def _alone(carried: CarriedRows, mine: Indices, joined: Indices) -> tuple[Indices, Indices]:
    """(which of a client's rows go out and are none of the `joined`, by number; places of their sources)."""
    labels = carried.labels
    if labels is None or labels.source is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    alone = mine[(labels.source[mine] >= 0) & ~np.isin(carried.number[mine], joined)]
    alone = alone[np.argsort(labels.source[alone], kind="stable")]
    return alone, labels.source[alone]
