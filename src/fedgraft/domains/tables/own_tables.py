"""What data sets of a user's own tables have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fedgraft.contracts.data import GivenData, QueriedData, SiteData, StayingData
from fedgraft.contracts.table_files import Given
from fedgraft.contracts.task import Shard
from fedgraft.contracts.values import SPLITS
from fedgraft.domains.dealing import Collection
from fedgraft.domains.tables.schema import ALL_OTHERS, Names, Table, renamed, with_text_names
from fedgraft.errors import require


@dataclass(frozen=True, kw_only=True)
class SplitOptions(StayingData[Shard]):
    """Options of data sets that split rows by a keyed hash.

    Args:
        split_seed: of the split where the data name none; None (default) = the experiment's seed, or with `--from` that
            of the other run.
    """

    split_seed: int | None = None

    def check_split(self) -> None:
        """Raise `InputError` for a seed that is none."""
        sound = self.split_seed is None or self.split_seed >= 0
        require(sound, f"{type(self).__name__}.split_seed", "at least 0, or left out", self.split_seed)

    def split_seed_of(self, seed: int) -> int:
        """Return the seed of the split in an experiment with this one."""
        return seed if self.split_seed is None else self.split_seed


class OwnTables(GivenData[Shard], QueriedData[Shard], SiteData[Shard]):
    """Abilities of data sets whose options give tables and name their columns, by the schemas of these tables."""

    schemas: ClassVar[tuple[Table, ...]]
    """Of the tables that options give."""
    asked: ClassVar[tuple[Table, ...]]
    """Of the tables of questions."""

    def names(self, **renamed: Any) -> Names:
        """Return {role: name} of the columns of all tables, as options say, or as `renamed` does."""
        return {role: name for schema in self.schemas for role, name in schema.names(self, **renamed).items()}

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return DataFrames, with the columns that options name, and those that the schema keeps unnamed."""
        values = {schema: getattr(self, schema.name) for schema in self.schemas}
        frames = {schema: with_text_names(table) for schema, table in values.items() if isinstance(table, pd.DataFrame)}
        named = {value for value in vars(self).values() if isinstance(value, str)}
        tables = {}
        for schema, table in frames.items():
            features = [getattr(self, column.role) for column in schema.columns if column.kind == "features"]
            every = schema.rest or ALL_OTHERS in features
            kept = named.union(*(map(str, columns or ()) for columns in features))
            tables[schema.name] = table[[name for name in table if every or name in kept]]
        return tables

    def questions(
        self, task: Any, tables: Mapping[str, pd.DataFrame], own: Mapping[str, Given]
    ) -> dict[str, pd.DataFrame]:
        """Return tables of questions by the usual names of columns."""
        return renamed(tables, {schema.name: schema.usual(schema.names(self)) for schema in self.asked})


def columns_of(collection: Collection[Any], names: Names) -> dict[str, Any]:
    """Return columns that say the label of each example and, where the data said them, its client and its split."""
    whole = collection.whole
    named_classes = [whole.classes[label] if label >= 0 else None for label in whole.label] if whole.classes else None
    columns = {names["label"]: whole.label if named_classes is None else named_classes}
    if collection.client_names:
        columns[names["client"]] = np.array(collection.client_names, dtype=object)[collection.client]
    if collection.split:
        columns[names["split"]] = [SPLITS[split] if split >= 0 else None for split in whole.split]
    return columns
