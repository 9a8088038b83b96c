"""Reads a table of accounts and one of transfers between them as a directed graph; nothing is written or downloaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.labels import Floats
from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_rows import both_ways
from fedgraft.domains.nodes.base.shards import WholeGraph
from fedgraft.domains.notes import LOG, tell
from fedgraft.domains.tables.reader import read
from fedgraft.domains.tables.rows import Cells, arranged
from fedgraft.domains.tables.schema import Column, Table
from fedgraft.errors import InputError

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
    return WholeGraph(
        name=name,
        ids=told.ids,
        features=Scale.of(told.features).scaled(told.features),
        label=told.label,
        classes=CLASSES,
        split=np.full(len(told.ids), -1, np.int8),
        pointers=pointers,
        senders=senders,
        edge_rows=rows,
        scale_rows=False,
    )


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
