"""Reads a bank's own accounts and transfers for a model that was trained on a set of AMLSim: with the set's columns."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeReader, asked_carried
from fedgraft.domains.edge_data.scaled_edges import with_edge_rows
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.client_tables import OWN_EDGES, OWN_NODES, numbered, own_features, own_nodes
from fedgraft.domains.nodes.reading.tables import GraphForm, usual_names
from fedgraft.domains.nodes.reading.transfers import (
    ACCOUNTS,
    TRANSFERS,
    Scale,
    columns_of_transfers,
    features_of_accounts,
    not_negative,
    read_set,
)
from fedgraft.domains.tables.features import check_present
from fedgraft.domains.tables.reader import OWNER, named_once, read
from fedgraft.domains.tables.rows import Rows
from fedgraft.errors import InputError
from fedgraft.tables.table_files import Given, columns_of

ACCOUNT, BALANCE = (ACCOUNTS.column(role).usual_name for role in ("account", "balance"))
SOURCE, TARGET, AMOUNT, TIME = (TRANSFERS.column(role).usual_name for role in TRANSFERS.roles)
NAMES: Final = usual_names(node=ACCOUNT, source=SOURCE, target=TARGET, edge_features=(AMOUNT, TIME))
"""Names of the columns of AMLSim's own tables."""


@dataclass(frozen=True, eq=False)
class OwnTransfers:
    """How a bank's own tables are read, by the scales of the set that a model was trained on."""

    accounts: Scale
    transfers: Scale

    @classmethod
    def of_set(cls, root: Path, name: str) -> Self:
        """Return it for a set in root/name. Raises `InputError` where its tables are not there."""
        try:
            told = read_set(root, name)
        except InputError as error:
            raise InputError(f"{error} Tables with AMLSim's columns are brought to the scale of that set.") from error
        return cls(Scale.of(told.features), Scale.of(told.columns))

    @property
    def reader(self) -> EdgeReader:
        """How a table of transfers is read."""
        return EdgeReader(self._values, directed=True, texts=())

    def shard(self, task: Any, tables: Mapping[str, Given]) -> NodeShard:
        """Return one bank's accounts and the transfers between them."""
        features = partial(self._own_features, links=_links(tables.get(OWN_EDGES), f"--{OWN_EDGES}"))
        part = own_nodes(task, tables, GraphForm("data", NAMES, reader=self.reader), features)
        shard: NodeShard = with_edge_rows(part, self._values).whole
        return shard

    def asked(self, tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """Return tables of questions as tasks read them; of a new account transfers count that are asked with it."""
        asked, links = dict(tables), _links(tables.get("edges"), f"{OWNER}.edges")
        if links is not None:
            renamed = tables["edges"].rename(columns={SOURCE: "source", TARGET: "target"})
            asked["edges"] = asked_carried(renamed, NAMES, self.reader)
        if (nodes := tables.get("nodes")) is not None and BALANCE in nodes:
            rows = Rows.of_frame(named_once(nodes, f"{OWNER}.nodes"), f"{OWNER}.nodes")
            given = rows.column(BALANCE).filled
            values = np.full((len(rows), len(self.accounts.mean)), np.nan)
            values[given] = self._features(rows.take(given), links)
            made = pd.DataFrame(values, columns=list(numbered(values.shape[1])), index=nodes.index)
            asked["nodes"] = pd.concat([nodes, made], axis=1)
        return asked

    def _own_features(self, rows: Rows, others: Collection[str], links: Rows | None) -> NDArray[np.float32]:
        check_present(rows, [BALANCE], "an account's balance", others)
        return self._features(rows, links)

    def _features(self, rows: Rows, links: Rows | None) -> NDArray[np.float32]:
        """Features of accounts, which count transfers with accounts elsewhere, too, float32 [rows, 3]."""
        ends = np.zeros((2, 0), np.int64)
        if links is not None and len(rows):
            ids = rows.column(ACCOUNT).texts()
            ends = np.stack([links[role].among(ids) for role in ("source", "target")])
        return self.accounts.scaled(features_of_accounts(ends, rows.column(BALANCE).numbers()))

    def _values(self, carried: CarriedRows) -> NDArray[np.float32]:
        return self.transfers.scaled(columns_of_transfers(*np.asarray(carried.columns.numbers).T))


def _links(given: Given | None, parameter: str) -> Rows | None:
    """Read transfers, of which amounts and times are numbers; there may be none."""
    if given is None:
        return None
    table = replace(TRANSFERS, may_be_empty=True)
    links = read(given, table, table.names(), "Amlsim", parameter)
    not_negative(links["amount"])
    links["time"].numbers()
    return links


def are_raw(tables: Mapping[str, Given]) -> bool:
    """Return whether one of a bank's own tables has the set's columns."""
    return any(_has(tables, name, column) for name, column in ((OWN_NODES, ACCOUNT), (OWN_EDGES, SOURCE)))


def scaled_shard(task: Any, tables: Mapping[str, Given]) -> NodeShard:
    """Return one bank's accounts and transfers, whose columns "0", "1" ... are scaled already.

    Raises `InputError` for transfers without columns, if the model reads some.
    """
    columns, reader = numbered(task.edge_features), None
    if columns and _has(tables, OWN_EDGES, columns[0]):
        reader = EdgeReader(_as_they_are, directed=True, texts=())
    elif OWN_EDGES in tables and "columns" in task.encoder.reads(task.features, len(columns)):
        raise InputError(
            f"--{OWN_EDGES}: no column {SOURCE!r}, and none of {', '.join(map(repr, columns))}: the model reads what "
            f"transfers carry. Give tables as AMLSim writes them ({ACCOUNT}, {BALANCE}; {SOURCE}, {TARGET}, {AMOUNT}, "
            f"{TIME}), or these columns, scaled already."
        )
    names = usual_names(edge_features=columns if reader else ())
    features = partial(own_features, names=numbered(task.features), is_sparse=task.sparse)
    part = own_nodes(task, tables, GraphForm("data", names, reader=reader), features)
    shard: NodeShard = with_edge_rows(part, _as_they_are).whole
    return shard


def _as_they_are(carried: CarriedRows) -> NDArray[np.float32]:
    return np.asarray(carried.columns.numbers, np.float32)


def _has(tables: Mapping[str, Given], name: str, column: str) -> bool:
    return name in tables and column in columns_of(tables[name], f"--{name}")
