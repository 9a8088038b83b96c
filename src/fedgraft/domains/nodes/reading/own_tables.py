"""A client's own part of a graph from tables of its own, for a model that is used where the run's data are not."""

import logging

import numpy as np
import pandas as pd

from fedgraft.contracts.table_files import Given
from fedgraft.domains.node_tables import feature_rows, named_once, texts_of
from fedgraft.domains.nodes.base.shards import NodeShard, undirected
from fedgraft.domains.nodes.reading.tables import Columns
from fedgraft.domains.tables.columns import encode, read_table, row_of
from fedgraft.errors import InputError

LOG = logging.getLogger("fedgraft.data")


def own_part(
    table: pd.DataFrame, where: str, edges: Given, columns: Columns, classes: tuple[str, ...], is_sparse: bool
) -> NodeShard:
    """One client's own part of a graph from its own two tables, for a model that is used where the run's data are not.

    It has no halo: edges to nodes that are not in the table of nodes are left out, with a note. Labels are not read.

    Args:
        table: one row per node.
        where: what errors call it.
        edges: one row per edge.
        columns: names of columns; `features` says which, in order.
        classes: names of the classes; none where labels are numbers.
        is_sparse: whether features are; then columns and values that are missing are 0.
    """
    table = named_once(table, where)
    table, source = read_table(table, where, {"data.node": columns.node}, list(table.columns))
    code, names = encode(table, columns.node, source)
    row_of_name = np.zeros(len(names), np.int64)
    row_of_name[code[::-1]] = np.arange(len(code))[::-1]
    if len(names) < len(code):
        row = int((row_of_name[code] != np.arange(len(code))).argmax())
        raise InputError(f"{row_of(source, row)}: node {str(names[code[row]])!r} is listed twice.")
    ends = {f"data.{option}": getattr(columns, option) for option in ("source", "target")}
    links, links_source = read_table(edges, "--data-edges", ends, may_be_empty=True)
    both = np.stack([texts_of(links, column, links_source) for column in ends.values()])
    place = np.minimum(np.searchsorted(names, both), len(names) - 1)
    inside = (names[place] == both).all(axis=0)
    if left_out := int((~inside).sum()):
        LOG.warning(f"{links_source[0][0]}: {left_out:,} edges to nodes that are not in {where} left out.")
    pointers, senders, notes = undirected(row_of_name[place[:, inside]], len(code), f"{links_source[0][0]}, row")
    for note in notes:
        LOG.warning(f"{links_source[0][0]}: {note}")
    table = table.drop(columns=[name for name in columns.others if name in table])
    rows, features = np.arange(len(code)), columns.features or ()
    return NodeShard(
        name="own",
        ids=names[code].astype(object),
        features=feature_rows(table, rows, features, is_sparse, source, "a feature of the run's data"),
        label=np.full(len(code), -1 if classes else np.nan),
        classes=classes,
        split=np.full(len(code), -1, np.int8),
        pointers=pointers,
        senders=senders,
        halo_owner=np.zeros(0, np.int32),
        halo_place=np.zeros(0, np.int32),
    )
