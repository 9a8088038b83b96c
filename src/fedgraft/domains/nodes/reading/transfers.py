"""Reads a table of accounts and one of transfers between them as a directed graph; nothing is written or downloaded."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.labels import Floats
from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeReader, asked_carried
from fedgraft.domains.edge_data.edge_rows import both_ways
from fedgraft.domains.edge_data.graph_form import GraphForm
from fedgraft.domains.edge_data.scaled_tables import with_edge_rows
from fedgraft.domains.nodes.base.shards import NodeShard, WholeGraph
from fedgraft.domains.nodes.reading.client_tables import numbered, own_nodes
from fedgraft.domains.nodes.reading.tables import OWN_EDGES, OWN_NODES, usual_names
from fedgraft.domains.notes import LOG, tell
from fedgraft.domains.tables.columns import check_present, own_features
from fedgraft.domains.tables.reader import OWNER, named_once, read
from fedgraft.domains.tables.rows import Cells, Rows, arranged
from fedgraft.domains.tables.schema import Column, Table
from fedgraft.errors import InputError
from fedgraft.tables.table_files import Given, columns_of

ADDRESS = "https://github.com/IBM/AMLSim"
SETS = ("20K_cycle200", "20K_fanin200", "20K_fanin200cycle200")
CLASSES = ("normal", "fraud")
"""Names of what `isFraud` says, 0 and 1."""


ACCOUNTS = Table(
    "nodes",
    (
        Column("account", usual="nodeid", option="an account's id"),
        Column("fraud", "number", usual="isFraud", option="its class"),
        Column("balance", "number", usual="init_balance", option="its balance"),
    ),
)
"""One row per account. What else there is, `fraudStep`, tells the class, and is not read."""
TRANSFERS = Table(
    "transactions",
    (
        Column("source", usual="sourceNodeId", option="the account that pays"),
        Column("target", usual="targetNodeId", option="the account that is paid"),
        Column("amount", "number", usual="value", option="how much"),
        Column("time", "number", option="when"),
    ),
)
"""One row per transfer, by the ids of its ends; several may have the same."""


@dataclass(frozen=True, eq=False)
class Scale:
    """What columns are brought to one size by; mean and spread are float64 [columns]."""

    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, columns: Floats) -> Self:
        """Return what brings columns, float64 [rows, columns], to mean 0 and variance 1; constant ones to 0."""
        spread = columns.std(axis=0)
        return cls(columns.mean(axis=0), np.where(spread > 0, spread, 1))

    def scaled(self, columns: Floats) -> NDArray[np.float32]:
        """Return other rows of these columns, float32 [rows, columns]."""
        return np.asarray((columns - self.mean) / self.spread, np.float32)


@dataclass(frozen=True, eq=False)
class Transfers:
    """A set as its tables say it, accounts in the order of their ids.

    `ids` are object [accounts], `label` int64 [accounts], `features` float64 [accounts, 3]; `ends` int64 [2, transfers]
    and `columns` float64 [transfers, 2], loops included.
    """

    ids: NDArray[np.object_]
    label: NDArray[np.int64]
    features: Floats
    ends: Indices
    columns: Floats


def read_transfers(root: Path, name: str) -> WholeGraph:
    """The graph of all accounts, in the order of their ids, split by nobody; both tables are in the folder root/name.

    Edges are directed; those from an account to itself are left out, with a note, and repeats stay. Their columns are
    log(1 + amount) and time, features log(1 + transfers in), log(1 + transfers out) and log(1 + balance), of which
    below 0 is 0; each column is brought to mean 0 and variance 1 over all transfers, or accounts.
    """
    told = read_set(root, name)
    loops = told.ends[0] == told.ends[1]
    if count := int(loops.sum()):
        LOG.warning(f"{name}: {count:,} transfers from an account to itself left out.")
    values = Scale.of(told.columns).scaled(told.columns)
    pointers, senders, rows = both_ways(told.ends[:, ~loops], values[~loops], len(told.ids), directed=True)
    features, edges = Scale.of(told.features).scaled(told.features), (pointers, senders)
    return WholeGraph.unsplit(name, told.ids, features, told.label, edges, CLASSES, edge_rows=rows, scale_rows=False)


def read_set(root: Path, name: str) -> Transfers:
    """Read both tables of the folder root/name. Raises `InputError`, naming file, row, column and value."""
    folder = root / name
    paths = {table.name: folder / f"{table.name}.csv" for table in (ACCOUNTS, TRANSFERS)}
    if missing := next((path for path in paths.values() if not path.is_file()), None):
        raise InputError(
            f"Amlsim: no file {missing}; download it from {ADDRESS} (folder sample/{name}). Amlsim.root is the folder "
            f"above {name}."
        )
    accounts, transfers = (read(paths[table.name], table, table.names(), "Amlsim") for table in (ACCOUNTS, TRANSFERS))
    tell((*accounts.found, *transfers.found))
    code, ids = accounts["account"].codes()
    accounts.check_once(code, ids, "account")
    label = _labels(accounts["fraud"])
    order, place = arranged(code, ids)
    ends = place[np.stack([transfers[role].among(ids, "an account of nodes.csv") for role in ("source", "target")])]
    columns = columns_of_transfers(not_negative(transfers["amount"]), transfers["time"].numbers())
    features = features_of_accounts(ends, accounts["balance"].numbers()[order])
    return Transfers(ids[code[order]].astype(object), label[order], features, ends, columns)


def columns_of_transfers(amount: Floats, time: Floats) -> Floats:
    """Return what transfers carry before it is scaled, float64 [transfers, 2]."""
    return np.stack([np.log1p(amount), time], axis=1)


def features_of_accounts(ends: Indices, balance: Floats) -> Floats:
    """Return features before they are scaled, float64 [accounts, 3]; ends are -1 elsewhere, loops do not count."""
    ends = ends[:, ends[0] != ends[1]]
    counts = [np.bincount(ends[end][ends[end] >= 0], minlength=len(balance)) for end in (1, 0)]
    return np.stack([np.log1p(each) for each in (*counts, np.maximum(balance, 0))], axis=1)


def _labels(cells: Cells) -> NDArray[np.int64]:
    """The place in `CLASSES` of each account."""
    numbers = cells.numbers()
    if (wrong := ~np.isin(numbers, (0, 1))).any():
        raise cells.error(wrong, "0 or 1")
    return numbers.astype(np.int64)


def not_negative(cells: Cells) -> Floats:
    """Return numbers. Raises `InputError` for one below 0."""
    numbers = cells.numbers()
    if (numbers < 0).any():
        raise cells.error(numbers < 0, "at least 0")
    return numbers


# --- own transfers ----------------------------------------------------------------------------------------------------


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
