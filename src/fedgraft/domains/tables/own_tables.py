"""What data sets of a user's own tables have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
import pandas as pd

from fedgraft.contracts.data import ClientTables, Data, Purpose
from fedgraft.contracts.option_groups import Grouped, OptionGroup, settable
from fedgraft.contracts.ranges import NonNegativeInt, PositiveInt
from fedgraft.contracts.task import Shard
from fedgraft.contracts.values import SPLITS
from fedgraft.domains.dealing import Collection
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.schema import ALL_OTHERS, FORMS, Forms, Names, Table, renamed, with_text_names
from fedgraft.domains.tables.times import check_time_format
from fedgraft.errors import InputError, require_one_of
from fedgraft.tables.table_files import Given, TextForm, check_names, is_folder
from fedgraft.tables.table_files import columns_of as columns_of_table
from fedgraft.tables.text_form import WORDS, check_encoding, check_separator

ALL: Final = "all"
"""In place of names of columns: all that have no other role."""
Repeats: TypeAlias = Literal["keep", "sum", "last"]


@dataclass(frozen=True, kw_only=True)
class SplitOptions(Data[Shard]):
    """Options of data sets that split rows by a keyed hash.

    Args:
        split_seed: of the split where the data name none; None (default) = the experiment's seed, or with `--from` that
            of the other run.
    """

    split_seed: NonNegativeInt | None = None

    def split_seed_of(self, seed: int) -> int:
        """Return the seed of the key of the hash in an experiment with this one."""
        return seed if self.split_seed is None else self.split_seed

    def splitting(self, purpose: Purpose) -> Purpose:
        """Return a purpose that says the seed of the key."""
        return replace(purpose, split_seed=self.split_seed_of(purpose.seed))


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Options of data sets whose examples have labels.

    Args:
        na_labels: label that stands for an unknown one, such as "-1", or several; "" (default) = an empty field.
    """

    na_labels: str | int | float | tuple[str | int | float, ...] = ""

    @property
    def unknowns(self) -> tuple[str, ...]:
        """The labels that stand for unknown ones, as text."""
        several = self.na_labels if isinstance(self.na_labels, list | tuple) else (self.na_labels,)
        return tuple(text for each in several if (text := str(each).strip()))


@dataclass(frozen=True)
class TextFiles(OptionGroup):
    """Options of how files of tables are written.

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

    def check(self, owner: str, schemas: Sequence[Table]) -> None:
        """Raise `InputError`, naming the option, for what cannot be said of files of such tables."""
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
        for name, columns in self.forms(schemas[0]).columns.items():
            require_one_of(f"{owner}.columns: a table", name, [schema.name for schema in schemas])
            check_names(columns, f"{owner}.columns")

    def forms(self, first: Table) -> Forms:
        """Return how files of the tables are written; `first` is the one whose columns are named alone."""
        separator = WORDS.get(self.separator, self.separator)
        form = TextForm(separator, self.encoding, self.decimal, self.header, (), self.time_format)
        if isinstance(self.columns, Mapping):
            return Forms(form, {name: tuple(columns) for name, columns in self.columns.items()})
        return Forms(form, {first.name: tuple(self.columns)} if self.columns else {})


@dataclass(frozen=True)
class Scaling(OptionGroup):
    """Options of how columns of features are brought to one size for all clients.

    Args:
        scaling: what is done with columns of features: "auto" (default) takes off the mean of each column of numbers
            and divides by its spread, over all clients, of the signed logarithm where it is heavy-tailed, and leaves
            columns of 0 and 1 and bags of words as they are; "standard" does the first with all; "rows" leaves columns
            alone, and tasks may bring each row to one length; "none" leaves all as it is.
        min_examples: rows of a client that must be behind what it tells of a column, >= 1.
        transforms: what is made of each column; None (default) = what clients agree on, which a run stores here.
    """

    scaling: Literal["auto", "standard", "rows", "none"] = "auto"
    min_examples: PositiveInt = 5
    transforms: dict[str, dict[str, Any]] | None = None


@dataclass(frozen=True)
class EdgeColumns(OptionGroup):
    """Options of edges that carry something, and go from their source to their target.

    Args:
        edge_features: columns of `edges` with numbers or texts that edges carry, or "all" = all that have no other
            role; "" (default) = none. They are brought to one size as columns of features are: `scaling`.
        weight: column of `edges`, how many edges a row stands for, a finite number >= 0; "" (default) = one each.
        time: column of `edges`, numbers or dates, which edges carry, too; "" (default) = none.
    """

    edge_features: str | tuple[str, ...] = ""
    weight: str = ""
    time: str = ""

    @property
    def carries(self) -> bool:
        """Whether edges carry something, if only that they repeat."""
        return True

    @property
    def one_way(self) -> bool:
        """Whether edges go from their source to their target."""
        return True

    @property
    def repeating(self) -> Repeats:
        """What becomes of several edges of the same two ends."""
        return "keep"


@dataclass(frozen=True)
class RepeatedEdges(EdgeColumns):
    """Options of edges that may also go one way, or both, and carry nothing.

    Args:
        directed: whether edges go from their source to their target.
        duplicate_edges: of several edges of the same two ends, in the same direction if they are directed: "keep";
            "sum" adds their numbers and weights (one each where there are none); "last" keeps the last one by time,
            else by row; "" (default) = "keep" where one of the options above is given, else edges carry nothing and the
            same two ends have one.
    """

    directed: bool = False
    duplicate_edges: Literal["", "keep", "sum", "last"] = ""

    @property
    def carries(self) -> bool:
        """Whether edges carry something, if only that they repeat."""
        return bool(self.edge_features or self.weight or self.time or self.directed or self.duplicate_edges)

    @property
    def one_way(self) -> bool:
        """Whether edges go from their source to their target."""
        return self.directed

    @property
    def repeating(self) -> Repeats:
        """What becomes of several edges of the same two ends."""
        return self.duplicate_edges or "keep"


@dataclass(frozen=True, kw_only=True)
class OwnTables(ClientTables[Shard], Grouped):
    """Abilities of data sets whose options give tables and name their columns, by the schemas of these tables."""

    judged_by_data: ClassVar[bool] = True

    files: TextFiles = TextFiles()

    schemas: ClassVar[tuple[Table, ...]]
    """Of the tables that options give."""
    asked: ClassVar[tuple[Table, ...]]
    """Of the tables of questions."""

    def __post_init__(self) -> None:
        """Check what is said of files. Raises `InputError`, naming the option."""
        super().__post_init__()
        self.files.check(type(self).__name__, self.schemas)

    def names(self, **renamed: Any) -> Names:
        """Return {role: name} of the columns of all tables, as options or `renamed` say, and how files are written."""
        names = {role: name for schema in self.schemas for role, name in schema.names(self, **renamed).items()}
        return {**names, FORMS: self.forms}

    @property
    def forms(self) -> Forms:
        """How files of the tables are written, as options say."""
        return self.files.forms(self.schemas[0])

    @property
    def asked_form(self) -> TextForm:
        """How tables of questions are written: as the user's own, but that they have other columns."""
        return replace(self.forms.every, header=None)

    def partition_of(self, usual: str, *known: str) -> str:
        """Return the option `partition`, where "auto" is "given" if the first table names clients, else the usual one.

        `known` are columns of that table. A number of clients says that they are not named.
        """
        data: Any = self
        if data.partition != "auto":
            return str(data.partition)
        table, client = self.schemas[0].name, data.client
        if is_folder(given := getattr(self, table)):
            return "given"
        if data.clients is not None:
            return usual
        columns = columns_of_table(given, f"{type(self).__name__}.{table}", self.forms.of(table), (*known, client))
        return "given" if client in columns else usual

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return DataFrames, with the columns that options name, and those that the schema keeps unnamed."""
        values = {schema: getattr(self, schema.name) for schema in self.schemas}
        frames = {schema: with_text_names(table) for schema, table in values.items() if isinstance(table, pd.DataFrame)}
        named = {value for name in settable(type(self)) if isinstance(value := getattr(self, name), str)}
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
