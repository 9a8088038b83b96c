"""Reads a table of accounts and one of transfers between them as a directed graph; nothing is written or downloaded."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.labels import Floats
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


def read_transfers(root: Path, name: str) -> WholeGraph:
    """The graph of all accounts, in the order of their ids, split by nobody; both tables are in the folder root/name.

    Edges are directed; those from an account to itself are left out, with a note, and repeats stay. Their columns are
    log(1 + amount) and time, features log(1 + transfers in), log(1 + transfers out) and log(1 + balance), of which
    below 0 is 0; each column is brought to mean 0 and variance 1 over all transfers, or accounts.
    """
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
    values = _scaled([np.log1p(_not_negative(transfers["amount"])), transfers["time"].numbers()])
    loops = ends[0] == ends[1]
    if count := int(loops.sum()):
        LOG.warning(f"{name}: {count:,} transfers from an account to itself left out.")
    ends = ends[:, ~loops]
    pointers, senders, rows = both_ways(ends, values[~loops], len(ids), directed=True)
    counts = [np.bincount(ends[end], minlength=len(ids)) for end in (1, 0)]
    balance = np.maximum(accounts["balance"].numbers()[order], 0)
    return WholeGraph(
        name=name,
        ids=ids[code[order]].astype(object),
        features=_scaled([np.log1p(each) for each in (*counts, balance)]),
        label=label[order],
        classes=CLASSES,
        split=np.full(len(ids), -1, np.int8),
        pointers=pointers,
        senders=senders,
        edge_rows=rows,
        scale_rows=False,
    )


def _labels(cells: Cells) -> NDArray[np.int64]:
    """The place in `CLASSES` of each account."""
    numbers = cells.numbers()
    if (wrong := ~np.isin(numbers, (0, 1))).any():
        raise cells.error(wrong, "0 or 1")
    return numbers.astype(np.int64)


def _not_negative(cells: Cells) -> Floats:
    numbers = cells.numbers()
    if (numbers < 0).any():
        raise cells.error(numbers < 0, "at least 0")
    return numbers


def _scaled(columns: list[Floats]) -> NDArray[np.float32]:
    """float32 [rows, columns], of mean 0 and variance 1 each; of a column that is constant 0."""
    values = np.stack(columns, axis=1)
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1), np.float32)
