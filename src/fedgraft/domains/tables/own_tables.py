"""What data sets of a user's own tables have in common."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from fedgraft.contracts.data import ClientTables, Data, GivenData, Purpose
from fedgraft.contracts.ranges import NonNegativeInt
from fedgraft.contracts.task import Shard
from fedgraft.contracts.values import SPLITS
from fedgraft.domains.dealing import Collection
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.schema import ALL_OTHERS, FORMS, Forms, Names, Table, renamed, with_text_names
from fedgraft.domains.tables.times import check_time_format
from fedgraft.errors import InputError, require_one_of
from fedgraft.tables.table_files import Given, TextForm, check_names
from fedgraft.tables.text_form import WORDS, check_encoding, check_separator


@dataclass(frozen=True, kw_only=True)
class SplitOptions(Data[Shard]):
    """Options of data sets that split rows by a keyed hash.

    Args:
        split_seed: of the split where the data name none; None (default) = the experiment's seed, or with `--from` that
            of the other run.
        split_by: what says a row's split there: "ids" (default), a hash of what the row is called, so that it stays
            where it is; or "rows", drawn row by row, by class, as versions did before: another order of rows, or one
            row more, is another split.
    """

    split_seed: NonNegativeInt | None = None
    split_by: Literal["ids", "rows"] = "ids"

    def check_split(self) -> None:
        """Raise `InputError` for a seed that is none."""
        if not self.by_ids and self.split_seed is not None:
            raise InputError(f"{type(self).__name__}.split_seed is for split_by = 'ids'; got {self.split_seed}.")

    @property
    def by_ids(self) -> bool:
        """Whether rows are in the order of their ids and split by them; else in their own, and split by lot."""
        return self.split_by == "ids"

    def split_seed_of(self, seed: int) -> int | None:
        """Return the seed of the key in an experiment with this one; None where the split is drawn row by row."""
        return (seed if self.split_seed is None else self.split_seed) if self.by_ids else None

    def splitting(self, purpose: Purpose) -> Purpose:
        """Return a purpose that says the seed of the key."""
        return replace(purpose, split_seed=self.split_seed_of(purpose.seed))


@dataclass(frozen=True, kw_only=True)
class OwnTables(GivenData[Shard], ClientTables[Shard]):
    """Abilities of data sets whose options give tables and name their columns, by the schemas of these tables.

    Args:
        separator: of fields of a text, such as ";", "tab", "::" or " " (any blanks); "" (default) = found out, and said
            where it is no comma.
        encoding: of a text, such as "cp1252"; "" (default) = found out, and said where it is not UTF-8.
        decimal: "." or ",", the decimal point of a text; "" (default) = found out, and said where it is a comma.
        header: whether the first row of a text names the columns; unset (default) = found out, and said where not.
        columns: their names where it does not, of the first table that the data set takes, or {table: names}; none
            (default) = "0", "1" ...
        time_format: of a column of times, as `strptime` has it, such as "%d/%m/%Y"; "" (default) = numbers, or dates
            that can be read in one way.
    """

    separator: str = ""
    encoding: str = ""
    decimal: Literal["", ".", ","] = ""
    header: bool | None = None
    columns: tuple[str, ...] | dict[str, tuple[str, ...]] | None = None
    time_format: str = ""

    schemas: ClassVar[tuple[Table, ...]]
    """Of the tables that options give."""
    asked: ClassVar[tuple[Table, ...]]
    """Of the tables of questions."""

    def __post_init__(self) -> None:
        """Check what is said of files. Raises `InputError`, naming the option."""
        super().__post_init__()
        owner = type(self).__name__
        if self.separator:
            check_separator(f"{owner}.separator", self.separator)
        if self.encoding:
            check_encoding(f"{owner}.encoding", self.encoding)
        if self.time_format:
            check_time_format(f"{owner}.time_format", self.time_format)
        if self.decimal == "," and self.separator in (",", "comma"):
            raise InputError(f"{owner}.decimal must be another sign than {owner}.separator; got ',' for both.")
        if self.columns and self.header:
            raise InputError(f"{owner}.columns must be left out where {owner}.header = true: the first row names them.")
        for name, columns in self._columns().items():
            require_one_of(f"{owner}.columns: a table", name, [schema.name for schema in self.schemas])
            check_names(columns, f"{owner}.columns")

    def names(self, **renamed: Any) -> Names:
        """Return {role: name} of the columns of all tables, as options or `renamed` say, and how files are written."""
        names = {role: name for schema in self.schemas for role, name in schema.names(self, **renamed).items()}
        return {**names, FORMS: self.forms}

    @property
    def forms(self) -> Forms:
        """How files of the tables are written, as options say."""
        separator = WORDS.get(self.separator, self.separator)
        form = TextForm(separator, self.encoding, self.decimal, self.header, (), self.time_format)
        return Forms(form, self._columns())

    @property
    def asked_form(self) -> TextForm:
        """How tables of questions are written: as the user's own, but that they have other columns."""
        return replace(self.forms.every, header=None)

    def _columns(self) -> dict[str, tuple[str, ...]]:
        """{table: names of columns where there is no header}."""
        if isinstance(self.columns, Mapping):
            return {name: tuple(columns) for name, columns in self.columns.items()}
        return {self.schemas[0].name: tuple(self.columns)} if self.columns else {}

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return DataFrames, with the columns that options name, and those that the schema keeps unnamed."""
        values = {schema: getattr(self, schema.name) for schema in self.schemas}
        frames = {schema: with_text_names(table) for schema, table in values.items() if isinstance(table, pd.DataFrame)}
        named = {value for value in vars(self).values() if isinstance(value, str)}
        tables, names = {}, self.names()
        for schema, table in frames.items():
            features = [names[column.role] for column in schema.columns if column.kind == "features"]
            every = schema.rest or ALL_OTHERS in features
            kept = named.union(*(map(str, columns or ()) for columns in features))
            tables[schema.name] = table[[name for name in table if every or name in kept]]
            if unread := [str(name) for name in table if name not in tables[schema.name]]:
                tell([schema.not_read(unread, names, list(map(str, tables[schema.name])))])
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
