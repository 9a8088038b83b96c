"""A client's own part of a graph from tables of its own, for a model that is used where the run's data are not."""

import logging
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.table_files import Given
from fedgraft.contracts.values import Indices
from fedgraft.domains.nodes.shards import Features, NodeShard, undirected
from fedgraft.domains.nodes.tables import Columns, feature
from fedgraft.domains.tables import Source, encode, read_table, row_of
from fedgraft.errors import InputError, nearest

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
        classes: names of the classes.
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
    others = [columns.node, columns.label, columns.client, columns.split]
    table = table.drop(columns=[name for name in others if name in table])
    rows, features = np.arange(len(code)), columns.features or ()
    return NodeShard(
        name="own",
        ids=names[code].astype(object),
        features=feature_rows(table, rows, features, is_sparse, source, "a feature of the run's data"),
        label=np.full(len(code), -1),
        classes=classes,
        split=np.full(len(code), -1, np.int8),
        pointers=pointers,
        senders=senders,
        halo_owner=np.zeros(0, np.int32),
        halo_place=np.zeros(0, np.int32),
    )


def feature_rows(
    table: pd.DataFrame, rows: Indices, columns: Sequence[str], is_sparse: bool, source: Source, what: str
) -> Features:
    """Features of some rows; where they are sparse, what is missing is 0, and columns that are none are noted.

    Args:
        table: columns of features and others that could be meant to be.
        rows: int64 [rows], which.
        columns: names of the features, in order.
        is_sparse: whether they are.
        source: where the rows come from.
        what: what errors call a feature.

    Returns:
        float32 [rows, columns], dense or CSR.
    """
    place = {name: number for number, name in enumerate(columns)}
    given = [name for name in columns if name in table]
    missing = [name for name in columns if name not in table]
    others = [name for name in map(str, table.columns) if name not in place]
    if missing and not (is_sparse and given):
        hint = nearest(missing[0], others)
        raise InputError(f"{source[0][0]}: no column {missing[0]!r}, {what} ({len(missing)} such columns).{hint}")
    if missing and others:
        LOG.warning(f"{source[0][0]}: column {others[0]!r} is no feature ({len(others)} such columns).")
    values = np.zeros((len(rows), len(columns)), np.float32)
    for name in given:
        values[:, place[name]] = feature(table[name].iloc[rows], source, rows, empty_is_zero=is_sparse)
    return sparse.csr_matrix(values) if is_sparse else values


def named_once(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """The table with text for names of columns, each once."""
    table = table.rename(columns=str)
    if len(again := table.columns[table.columns.duplicated()]):
        raise InputError(f"{where}: two columns are named {again[0]!r}; one is needed.")
    return table


def texts_of(table: pd.DataFrame, column: str, source: Source) -> NDArray[np.str_]:
    """Ids as text, none for no row."""
    if not len(table):
        return np.zeros(0, np.str_)
    code, names = encode(table, column, source)
    found: NDArray[np.str_] = names[code]
    return found
