"""One client's own part of a graph at its site, from its own tables, with what training needs: classes, a split."""

from dataclasses import replace
from typing import Protocol

import pandas as pd

from fedgraft.contracts.table_files import Given, table_of
from fedgraft.domains.node_tables import labels_among, read_numbers, read_split
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.own_tables import own_part
from fedgraft.domains.nodes.reading.tables import Columns
from fedgraft.domains.tables.columns import Source, check_one_client, encode
from fedgraft.wire.layouts import Array


class FittedTask(Protocol):
    """The values of a recipe's task that all sites have in common."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, in order; none where nodes have numbers."""

    @property
    def sparse(self) -> bool:
        """True where features are a sparse matrix."""


def site_part(
    nodes: Given, edges: Given, columns: Columns, task: FittedTask, name: str, are_numbers: bool = False
) -> tuple[NodeShard, bool]:
    """Return one client's nodes and the edges between them, and whether the table names a split.

    It has no halo: edges to nodes that are not in the table are left out, with a note, for nobody here knows whose they
    are.

    Args:
        nodes: one row per node.
        edges: one row per edge.
        columns: their names; `features` says which, in order.
        task: the recipe's.
        name: of the client.
        are_numbers: whether labels are numbers, not classes.
    """
    table = table_of(nodes, "--data nodes").rename(columns=str)
    where = "--data nodes" if isinstance(nodes, pd.DataFrame) else str(nodes)
    source: Source = [(where, len(table))]
    shard = own_part(table, where, edges, columns, task.class_names, task.sparse)
    if columns.client in table:
        names = encode(table, columns.client, source)[1].tolist()
        check_one_client(names, f"column {columns.client!r} of {where}", name)
    shard = replace(shard, name=name)
    if not columns.label:
        return shard, False
    label: Array
    if are_numbers:
        label = read_numbers(table, columns.label, source)
    else:
        label = labels_among(table, columns.label, source, task.class_names)
    shard = replace(shard, label=label)
    if columns.split in table:
        shard = replace(shard, split=read_split(table, columns.split, columns.label, source, shard.label))
    return shard, columns.split in table
