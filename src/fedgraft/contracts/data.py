"""On which data? The contract of data sets, and what only some of them can do."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic

import pandas as pd

from fedgraft.contracts.table_files import Given
from fedgraft.contracts.task import Shard


class Data(ABC, Generic[Shard]):
    """Hand over one shard per client."""

    task: ClassVar[str]
    """Name of the task that understands these shards."""

    @abstractmethod
    def load(self, seed: int) -> list[Shard]:
        """Load one shard per client, split into train, validation and test; equal seeds give equal shards."""


class GivenData(Data[Shard]):
    """Ability: take tables in memory, which a run stores and reads instead."""

    @classmethod
    def options_from(cls, given: object) -> dict[str, Any] | None:
        """Return the options that data given without a name stand for, such as one table; None (default) for none."""
        return None

    @abstractmethod
    def tables(self) -> dict[str, pd.DataFrame]:
        """Return {option: table} of what was given in memory. Columns that are not read stay with their owner."""


class QueriedData(Data[Shard]):
    """Ability: read questions to a trained model from tables with the columns of the user's own tables."""

    @abstractmethod
    def questions(
        self, task: Any, tables: Mapping[str, pd.DataFrame], own: Mapping[str, Given]
    ) -> dict[str, pd.DataFrame]:
        """Return the tables of questions as the run's task reads them: columns renamed, tables that it needs added.

        `own` holds the tables of one client's own shard; {} where the run's data answer.
        """


class OwnShardData(Data[Shard]):
    """Ability: read one client's own shard from its tables, for a trained model used where the run's data are not."""

    own_tables: ClassVar[tuple[str, ...]]
    """Names of the tables that such a shard is made of, such as "data"; the first one is required."""

    @abstractmethod
    def own_shard(self, task: Any, tables: Mapping[str, Given]) -> Shard:
        """Return the shard of a client named "own", all of it known, read as the run's data are.

        `task` is the run's, fitted to its data; `tables` holds the first of `own_tables` and perhaps others.
        """


class SiteData(Data[Shard]):
    """Ability: read one client's data at its site from tables of its own, where nobody has those of all clients."""

    site_tables: ClassVar[tuple[str, ...]]
    """Options that name such tables, such as "ratings"; the first one is required."""

    @abstractmethod
    def site_shard(self, task: Any, tables: Mapping[str, Given], client: int, name: str, seed: int) -> Shard:
        """Return the shard of a client, split by `seed`, from its tables alone.

        Args:
            task: the recipe's; what all sites must have in common, such as names of classes, it must know.
            tables: {one of `site_tables`: table}.
            client: which client it is, 0, 1 ...
            name: of the client.
            seed: the experiment's.

        Raises `InputError`, naming the option, where the recipe does not say what all sites must have in common.
        """
