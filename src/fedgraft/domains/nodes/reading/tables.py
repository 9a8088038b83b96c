"""Reads a user's own graph from a table of nodes and one of edges, with errors that name file, row and column.

A table is a CSV or Parquet file, a folder of those or a DataFrame. Ids and classes are kept as text, as written ("007"
is not "7").
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.table_files import SUFFIXES, Given, table_of
from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.labels.known import numbers_hint
from fedgraft.domains.node_tables import feature, read_labels, read_numbers, read_split
from fedgraft.domains.nodes.base.shards import WholeGraph, undirected
from fedgraft.domains.nodes.reading.pyg_objects import Collection, compact
from fedgraft.domains.tables import Source, encode, read_table, row_of, unread
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array

Splits = NDArray[np.int8]


@dataclass(frozen=True)
class Columns:
    """Names of columns. `client` and `split` may be missing in the table unless they are renamed here.

    Args:
        node: of nodes, the id; client: who holds it.
        label: of nodes, the class or number, empty = unknown; "" where none is read.
        split: of nodes, "train", "validation" or "test", empty = none.
        features: of nodes, numeric columns; None = every other column.
        source: of edges, the id of one end; target: of the other.
    """

    node: str = "node"
    label: str = "label"
    client: str = "client"
    split: str = "split"
    features: tuple[str, ...] | None = None
    source: str = "source"
    target: str = "target"

    @property
    def others(self) -> tuple[str, ...]:
        """Columns of nodes that are no features unless they are named; "label" among them where no classes are read."""
        return self.node, self.label or Columns.label, self.client, self.split


def read_nodes(nodes: Given, edges: Given, columns: Columns, owner: str, are_numbers: bool = False) -> Collection:
    """Two tables as one graph.

    Args:
        nodes: one row per node; a folder holds one file per client, named after it.
        edges: one row per edge, listed one way or both; of a folder all files are read.
        columns: their names.
        owner: what errors call the parameters: "Nodes" for Nodes.nodes ...
        are_numbers: whether labels are numbers, not classes.
    """
    table, source, client, names = _node_table(nodes, columns, owner)
    code, ids = encode(table, columns.node, source)
    order = np.argsort(code, kind="stable")
    if len(again := order[1:][code[order[1:]] == code[order[:-1]]]):
        row = int(again.min())
        raise InputError(
            f"{row_of(source, row)}: node {str(ids[code[row]])!r} of column {columns.node!r} is listed twice "
            f"({len(again)} such rows)."
        )
    if columns.client in table:
        client, found = encode(table, columns.client, source)
        names = tuple(found.tolist())
    label, classes, split = _known_of(table, columns, source, are_numbers)
    is_split = bool(columns.label) and columns.split in table
    if is_split and (missing := [name for part, name in enumerate(SPLITS) if not (split == part).any()]):
        raise InputError(f"{source[0][0]}: column {columns.split!r} leaves no node for {missing[0]}; one is needed.")
    where = f"{owner}.nodes" if isinstance(nodes, pd.DataFrame) else str(nodes)
    pointers, senders, notes = undirected(*_ends(edges, columns, owner, ids, order, where))
    notes = (*notes, *unread(edges, f"{owner}.edges", (columns.source, columns.target)))
    whole = WholeGraph(
        name=where,
        ids=ids[code].astype(object),
        features=compact(_features(table, columns, source, owner)),
        label=label,
        classes=classes,
        split=split,
        pointers=pointers,
        senders=senders,
    )
    return Collection(whole, client, names, is_split, notes)


def _known_of(
    table: pd.DataFrame, columns: Columns, source: Source, are_numbers: bool
) -> tuple[Array, tuple[str, ...], Splits]:
    """(class or number of each row, names of classes, split of each row), all of it none where no label is read."""
    if not columns.label:
        return np.full(len(table), -1, np.int64), (), np.full(len(table), -1, np.int8)
    label: Array
    classes: tuple[str, ...] = ()
    if are_numbers:
        label = read_numbers(table, columns.label, source)
    else:
        label, classes = read_labels(table, columns.label, source, numbers_hint("node"))
    return label, classes, read_split(table, columns.split, columns.label, source, label)


def _node_table(nodes: Given, columns: Columns, owner: str) -> tuple[pd.DataFrame, Source, Indices, tuple[str, ...]]:
    """The rows, where they come from, and the client of each and the clients' names where files are clients."""
    wanted = {f"{owner}.node": columns.node} | ({f"{owner}.label": columns.label} if columns.label else {})
    optional = []
    for option in ("client", "split"):
        column = getattr(columns, option)
        if column == option:
            optional.append(column)
        else:
            wanted[f"{owner}.{option}"] = column
    for column in columns.features or ():
        wanted[f"{owner}.features: {column}"] = column

    tables: list[pd.DataFrame] = []
    source: Source = []
    paths = _files(nodes, f"{owner}.nodes")
    for path in paths:
        # Which columns there are is known once a file is read; it is read once.
        table = table_of(path, f"{owner}.nodes")
        name = f"{owner}.nodes" if isinstance(path, pd.DataFrame) else str(path)
        others = [str(column) for column in table.columns] if columns.features is None else optional
        table, rows = read_table(table, name, wanted, others)
        if tables and (differ := set(table.columns) ^ set(tables[0].columns)):
            column = min(differ, key=str)
            raise InputError(f"{name}: column {column!r} is here or in {source[0][0]}, but not in both files.")
        tables.append(table)
        source += rows
    if isinstance(nodes, pd.DataFrame) or not Path(nodes).is_dir():
        return tables[0], source, np.zeros(len(tables[0]), np.int64), ()
    if columns.client in tables[0]:
        raise InputError(
            f"{source[0][0]}: column {columns.client!r} names clients, but each file of the folder {nodes} is one."
        )
    names = tuple(path.stem for path in paths if isinstance(path, Path))
    client = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    return pd.concat(tables, ignore_index=True), source, client, names


def _files(given: Given, parameter: str) -> list[Path] | list[pd.DataFrame]:
    if isinstance(given, pd.DataFrame):
        return [given]
    path = Path(given)
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(f"{parameter}: folder {path} holds no file that ends in {' or '.join(SUFFIXES)}.")
    for first, second in pairwise(files):
        if first.stem == second.stem:
            raise InputError(f"{parameter}: folder {path} holds two files named {first.stem!r}; each must be one.")
    return files


def _features(table: pd.DataFrame, columns: Columns, source: Source, owner: str) -> Array:
    names = columns.features
    if names is None:
        others = columns.others
        names = tuple(name for name in map(str, table.columns) if name not in others)
        if unnamed := [name for name in names if name.startswith("Unnamed: ")]:  # as pandas calls a file's
            raise InputError(
                f"{source[0][0]}: column {int(unnamed[0][9:]) + 1} has no name, such as an index written along; name "
                f"it in the header, leave it out, or name those that are features in {owner}.features."
            )
    if not names:
        raise InputError(
            f"{source[0][0]}: no column of features ({owner}.features); one is needed, if only of ones or of degrees."
        )
    hint = f" Columns that are no features are left out by naming the others in {owner}.features."
    values = np.zeros((len(table), len(names)), np.float32)
    for place, name in enumerate(names):
        values[:, place] = feature(table[name], source, np.arange(len(table)), hint=hint)
    return values


def _ends(
    edges: Given, columns: Columns, owner: str, ids: Array, row_of_id: Indices, where: str
) -> tuple[Indices, int, str]:
    """(int64 [2, edges] rows of the table of nodes, how many nodes, what an edge is called)."""
    wanted = {f"{owner}.{option}": getattr(columns, option) for option in ("source", "target")}
    tables: list[pd.DataFrame] = []
    source: Source = []
    for path in _files(edges, f"{owner}.edges"):
        table, rows = read_table(path, f"{owner}.edges", wanted, may_be_empty=True)
        tables.append(table)
        source += rows
    table = pd.concat(tables, ignore_index=True) if len(tables) > 1 else tables[0]
    ends = np.zeros((2, len(table)), np.int64)
    for end, column in enumerate((columns.source, columns.target)):
        if not len(table):
            break
        code, named = encode(table, column, source)
        place = np.minimum(np.searchsorted(ids, named), len(ids) - 1)
        missing = (ids[place] != named)[code]
        if missing.any():
            row = int(missing.argmax())
            raise InputError(
                f"{row_of(source, row)}: {column!r} must be a node of {where}; got {str(table[column].iloc[row])!r} "
                f"({int(missing.sum())} such rows)."
            )
        ends[end] = row_of_id[place[code]]
    return ends, len(ids), f"{owner}.edges, row"
