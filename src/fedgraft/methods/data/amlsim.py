"""Accounts of AMLSim and the transfers between them, dealt to banks: which accounts are of fraud?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pandas as pd

from fedgraft.contracts.data import ANSWER, Purpose
from fedgraft.contracts.ranges import OneOf, PositiveFloat, PositiveInt
from fedgraft.domains.dealing import Fold
from fedgraft.domains.nodes.base.partitions import DealtNodes
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.client_tables import OwnNodes
from fedgraft.domains.nodes.reading.transfers import (
    ACCOUNT,
    SETS,
    SOURCE,
    OwnTransfers,
    are_raw,
    read_transfers,
    scaled_shard,
)
from fedgraft.tables.table_files import Given


@dataclass(frozen=True)
class Amlsim(DealtNodes[NodeShard], OwnNodes):
    """Tell accounts of fraud from normal ones by their transfers: a directed graph with repeats, cut over banks.

    An edge is a transfer and carries two columns, log(1 + amount) and time. An account has three features, log(1 +
    transfers in), log(1 + transfers out) and log(1 + first balance). Each column is brought to mean 0 and variance 1
    over all transfers, or accounts: a scale of the set, by no label. Transfers between banks are known to both. As
    fraud is rare, models are judged by average precision unless `evaluation.metric` says otherwise. Questions, and a
    bank's own tables, have the columns of the set, to whose scale they are brought; or columns "0", "1" ... that are
    scaled already.

    Source: Suzumura and Kanezashi, "AMLSim", https://github.com/IBM/AMLSim, folder sample/ (Apache-2.0), simulated.
        fedgraft does not ship it.
    Differs: banks and the split by five folds are ours. Transfers from an account to itself are left out, with a note.
        `fraudStep` is not read: it tells the class.

    Args:
        root: the folder above the set's, as of sample/: root/20K_cycle200/nodes.csv and transactions.csv.
        set: 20K_cycle200, 20K_fanin200 or 20K_fanin200cycle200: 20,000 accounts, and which patterns of fraud there are.
        clients: banks over which the accounts are dealt, >= 1.
        partition: "hash", by the hash of an account's id, the same in every run; or one of the data set `pyg_nodes`.
        alpha: of "dirichlet", > 0.
        fold: which of five folds is the test set, 0..4.
        shares: of training, validation and test accounts, as of `pyg_nodes`.
        between: whether transfers between banks are kept; features count them in any case.
    """

    task: ClassVar[str] = "node"
    judged_by_data: ClassVar[bool] = True

    root: Path
    set: Annotated[str, OneOf(SETS)] = "20K_cycle200"
    clients: PositiveInt = 5
    partition: Literal["hash", "iid", "dirichlet", "louvain", "louvain_even", "metis"] = "hash"
    alpha: PositiveFloat = 0.5
    fold: Fold = 0
    shares: Literal["64:16:20", "80:10:10", "20:40:40"] = "64:16:20"
    between: bool = True

    def load(self, seed: int) -> list[NodeShard]:
        """Load one shard per bank; `seed` splits the accounts, and deals them but by hash."""
        return self.dealing.deal(read_transfers(Path(self.root), self.set), seed)

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> NodeShard:
        """Read one bank's accounts and the transfers between them, with the set's columns or scaled already."""
        shard = self._own.shard(task, tables) if are_raw(tables) else scaled_shard(task, tables)
        return replace(shard, scale_rows=False)

    def questions(
        self, task: Any, tables: Mapping[str, pd.DataFrame], own: Mapping[str, Given]
    ) -> dict[str, pd.DataFrame]:
        """Return accounts and transfers, with the set's columns or scaled already, as the run's task reads them."""
        raw = {name for name, column in (("nodes", ACCOUNT), ("edges", SOURCE)) if column in tables.get(name, ())}
        asked = {**tables, **self._own.asked({name: tables[name] for name in raw})} if raw else dict(tables)
        return {name: table.rename(columns={ACCOUNT: "node"}) for name, table in asked.items()}

    @cached_property
    def _own(self) -> OwnTransfers:
        return OwnTransfers.of_set(Path(self.root), self.set)
