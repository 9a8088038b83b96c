"""One client's own part of a graph at its site, from its own tables, with what training needs: classes, a split."""

from dataclasses import replace
from typing import Protocol

import numpy as np
import pandas as pd

from fedgraft.contracts.table_files import Given, table_of
from fedgraft.contracts.values import Indices
from fedgraft.domains.node_tables import read_split
from fedgraft.domains.nodes.own_tables import own_part
from fedgraft.domains.nodes.shards import NodeShard
from fedgraft.domains.nodes.tables import Columns
from fedgraft.domains.tables import Source, check_classes, check_one_client, encode, row_of
from fedgraft.errors import InputError, nearest


class FittedTask(Protocol):
    """The values of a recipe's task that all sites have in common."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, in order."""

    @property
    def sparse(self) -> bool:
        """True where features are a sparse matrix."""


def site_part(nodes: Given, edges: Given, columns: Columns, task: FittedTask, name: str) -> tuple[NodeShard, bool]:
    """Return one client's nodes and the edges between them, and whether the table names a split.

    It has no halo: edges to nodes that are not in the table are left out, with a note, for nobody here knows whose they
    are.

    Args:
        nodes: one row per node.
        edges: one row per edge.
        columns: their names; `features` says which, in order.
        task: the recipe's.
        name: of the client.
    """
    table = table_of(nodes, "--data nodes").rename(columns=str)
    where = "--data nodes" if isinstance(nodes, pd.DataFrame) else str(nodes)
    source: Source = [(where, len(table))]
    shard = own_part(table, where, edges, columns, task.class_names, task.sparse)
    if columns.client in table:
        names = encode(table, columns.client, source)[1].tolist()
        check_one_client(names, f"column {columns.client!r} of {where}", name)
    shard = replace(shard, name=name, label=_labels(table, columns.label, source, task.class_names))
    if columns.split in table:
        shard = replace(shard, split=read_split(table, columns.split, columns.label, source, shard.label))
    return shard, columns.split in table


def _labels(table: pd.DataFrame, column: str, source: Source, classes: tuple[str, ...]) -> Indices:
    """Return the class of each node, int64 [nodes], -1 where it is unknown."""
    label = np.full(len(table), -1, np.int64)
    if column not in table:
        raise InputError(f"{source[0][0]}: no column {column!r} (data.label).{nearest(column, map(str, table))}")
    check_classes(table, column, source)
    known = np.flatnonzero(table[column].notna().to_numpy())
    if not len(known):
        return label
    code, names = encode(table.iloc[known], column, [(source[0][0], len(known))])
    places = {name: place for place, name in enumerate(classes)}
    for number, name in enumerate(names.tolist()):
        if name not in places:
            row = row_of(source, known[code == number][0])
            listed = ", ".join(map(repr, classes))
            raise InputError(f"{row}: {column!r} must be one of task.class_names, {listed}; got {name!r}.")
    label[known] = np.array([places[name] for name in names.tolist()])[code]
    return label
