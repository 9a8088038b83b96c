"""What data sets have in common whose columns, of features and of edges, are brought to one size for all clients."""

from abc import abstractmethod
from collections.abc import Collection as Collection_
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Self

import numpy as np
import pandas as pd

from fedgraft.contracts.data import AgreedData, Purpose
from fedgraft.contracts.option_groups import Grouped
from fedgraft.contracts.task import ClassCounts, Shard
from fedgraft.contracts.values import Indices
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeReader, LabelReader, Make, Values
from fedgraft.domains.examples import Features, in_form
from fedgraft.domains.labels.class_notes import CLASSES, classes_of_all, published_classes
from fedgraft.domains.notes import LOG, tell
from fedgraft.domains.tables.column_statistics import agreed, all_alike, are_sparse, statistics_of
from fedgraft.domains.tables.columns import Columns, check_present, known_features, read_columns, some
from fedgraft.domains.tables.labels import in_order
from fedgraft.domains.tables.own_tables import ALL, EdgeColumns, Scaling
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.transforms import Transforms, notes_on
from fedgraft.errors import InputError
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Array, Tree

ALIKE = "alike"
"""What is called so, of what a client publishes, that must be the same at all: {option of a task: value}."""
HINT = " Columns that are no features are left out by naming the others in {option}."


PUBLISHED: Final = "edges"
"""What a client calls, of what it publishes, the statistics of its edges' columns."""
OF_EDGES: Final = "edges: "
"""What the name of an edges' column begins with among transforms."""


def with_edge_rows(collection: Collection[Any], make: Make) -> Collection[Any]:
    """Return a graph with what its edges carry, made of their rows."""
    if (edges := collection.edges) is None:
        return collection
    rows = edges.edge_rows(make(edges.carried))
    return replace(collection, whole=replace(collection.whole, edge_rows=rows), edges=None)


@dataclass(frozen=True, kw_only=True)
class ScaledTables(AgreedData[Shard], Grouped):
    """Ability of data sets of own tables: bring columns of features, and of what edges carry, to one size."""

    features_option: ClassVar[str] = "features"
    """The option that names columns of features."""
    own_columns: ClassVar[bool] = False
    """Whether clients may have columns of features of their own, which are empty at the others."""
    alike_options: ClassVar[tuple[str, ...]] = ()
    """Options of a task that tables tell and that must be the same at all clients."""
    own_classes: ClassVar[bool] = False
    """Whether clients may have classes of their own, whose names are all in text's order."""

    scaled: Scaling = field(default=Scaling())
    edge_columns: EdgeColumns = field(default=EdgeColumns())

    @abstractmethod
    def read(self) -> Collection[Any]:
        """Read the data of all clients, before they are dealt, with `columns` that features are still made of."""

    @abstractmethod
    def owners(self, collection: Collection[Any], seed: int) -> tuple[Array, int]:
        """Return the number of the client of each row of columns, [rows], and how many clients there are."""

    @property
    def agreement(self) -> Tree:
        """What is made of each column; None where it is not known yet."""
        transforms = self.scaled.transforms
        return None if transforms is None else {name: {**each} for name, each in transforms.items()}

    def agreeing(self, agreement: Any) -> Self:
        """Return this data set with a transform for each column."""
        return replace(self, scaled=replace(self.scaled, transforms=agreement))

    def published(self, task: Any, seed: int) -> Sequence[Tree]:
        """Return the statistics of each client's columns, and of its classes."""
        collection, trees = self.collection, self._of_columns(seed)
        classes = self.classes_in(collection)
        if not trees or not self._tells_classes(task, classes):
            return [{**each, **self._alike(task, collection)} for each in trees]
        labels = self.labels_by_client(collection, seed)
        parts = [self._of_classes(label, classes, split) for label, split in labels]
        return [{**each, **self._alike(task, collection), **part} for each, part in zip(trees, parts, strict=True)]

    def _of_columns(self, seed: int) -> Sequence[dict[str, Tree]]:
        """The statistics of each client's columns; none where there are no columns."""
        collection = self.collection
        if collection.columns is None:
            return []
        owner, clients = self.owners(collection, seed)
        where = collection.whole.name
        trees = [self._statistics_of(collection.columns.take(owner == k), where) for k in range(clients)]
        if collection.edges is None:
            return trees
        of_edges = [self._of_edges(carried, where) for carried in self.edges_of_clients(collection, seed)]
        return [{**tree, PUBLISHED: edges} for tree, edges in zip(trees, of_edges, strict=True)]

    def edges_of_clients(self, collection: Collection[Any], seed: int) -> Sequence[CarriedRows]:
        """Return the rows of the edges that have an end of each client's."""
        owner, clients = self.owners(collection, seed)
        receiving = np.repeat(owner, collection.whole.degree)
        return [collection.edges.of_client(client, receiving) for client in range(clients)]

    def _of_edges(self, carried: CarriedRows, where: str) -> dict[str, Tree]:
        """What a client publishes of the edges that have an end of its own; without one it knows no column's kind."""
        if not len(carried):
            return {"rows": 0}
        option = "data.edge_features"
        return statistics_of(carried.columns, self.scaled.min_examples, self.scaled.scaling, where, option=option)

    def _statistics_of(self, columns: Columns, where: str) -> dict[str, Tree]:
        """What a client publishes of its columns; `where` names its table in errors."""
        return statistics_of(columns, self.scaled.min_examples, self.scaled.scaling, where, self.own_columns)

    def _of_classes(self, label: Indices, classes: Sequence[str], split: Array) -> dict[str, Tree]:
        """What a client publishes of its classes."""
        return {CLASSES: published_classes(label, classes, split, self.scaled.min_examples)}

    def _alike(self, task: Any, collection: Collection[Any]) -> dict[str, Tree]:
        """What a client publishes that must be the same at all, where the recipe does not say it."""
        alike = {name: value for name, value in self.alike_of(collection).items() if not getattr(task, name, value)}
        return {ALIKE: alike} if alike else {}

    @staticmethod
    def _tells_classes(task: Any, classes: Sequence[str]) -> bool:
        """Whether clients tell of classes: where there are some, and the recipe does not say all that they are for."""
        if not classes or "class_names" not in {each.name for each in fields(task)}:
            return False
        names = task.class_names
        judged = getattr(task, "judged", CLASSES) and (getattr(task, "positive_class", CLASSES) or len(names) != 2)
        return not (names and judged)

    def alike_of(self, collection: Collection[Any]) -> dict[str, Tree]:
        """Return {one of `alike_options`: value} of what must be the same in all clients' tables; {} by default."""
        return {}

    def classes_in(self, collection: Collection[Any]) -> tuple[str, ...]:
        """Return the names of the classes of what was read; () for none."""
        classes: tuple[str, ...] = collection.whole.classes
        return classes

    def labels_in(self, collection: Collection[Any], seed: int) -> tuple[Indices, Array]:
        """Return the classes, int64 [examples], and the split of one client's examples."""
        return collection.whole.label, collection.whole.split

    @abstractmethod
    def labels_by_client(self, collection: Collection[Any], seed: int) -> Sequence[tuple[Indices, Array]]:
        """Return the classes, int64 [examples], and the split of each client's examples."""

    @abstractmethod
    def collection_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose) -> Collection[Any]:
        """Return one client's own data, split, with `columns` that features are still made of.

        Arguments as of `client_shard`. Classes are those of the recipe, or those that occur where it names none.
        """

    def published_by(self, task: Any, tables: Mapping[str, Given], purpose: Purpose) -> Tree:
        """Return the statistics of one client's columns, and of its classes."""
        collection = self.collection_at(task, tables, purpose)
        tree, classes = {**self._of_own(collection), **self._alike(task, collection)}, self.classes_in(collection)
        if not self._tells_classes(task, classes):
            return tree
        label, split = self.labels_in(collection, purpose.seed)
        return {**tree, **self._of_classes(label, classes, split)}

    def _of_own(self, collection: Collection[Any]) -> dict[str, Tree]:
        """The statistics of one client's columns."""
        tree = self._statistics_of(collection.columns, "--data")
        if not self.edge_columns.carries:
            return tree
        return {**tree, PUBLISHED: self._of_edges(collection.edges.carried, "--data")}

    def named(self, published: Sequence[Any]) -> Self:
        """Return this data set with the columns that are features, which clients have alike, by name."""
        if self.own_columns or getattr(self, self.features_option) is not None:
            return self
        named: dict[str, Any] = {self.features_option: tuple(published[0]["names"])}
        return replace(self, **named)

    def known_of(self, task: Any, published: Sequence[Any]) -> Mapping[str, Any]:
        """Return the width of features, classes, and what else must be the same in all clients' tables."""
        alike = all_alike([each.get(ALIKE, {}) for each in published])
        known = {name: alike[name] for name in self.alike_options if name in alike}
        if names := list(published[0]["names"]) if published else []:
            known |= {"features": len(self.made.names(names)), "sparse": are_sparse(published, self.made)}
        if (classes := self.classes_of(task, published)) is not None and classes.names and classes.alike:
            known |= {"classes": len(classes.names), "class_names": classes.names}
        width, edges = len(self.edges_made.names(self.carried_names)), self.edge_columns
        carried = {"edge_features": width, "edge_weights": bool(edges.weight) or edges.repeating == "sum"}
        return {**known, **{name: value for name, value in carried.items() if value}}

    def classes_of(self, task: Any, published: Sequence[Any]) -> ClassCounts | None:
        """Return the classes of all clients."""
        said, ordered = getattr(task, "class_names", ()), sorted if self.own_classes else in_order
        return classes_of_all(published, self.scaled.min_examples, said, ordered, self.own_classes)

    def fitted(self, published: Sequence[Any]) -> Self:
        """Return this data set with a transform for each column, from all clients' statistics; a note says which."""
        fitted = replace(self, **self._agreed_options(published))
        if "collection" in vars(self):  # what was read is read once
            vars(fitted)["collection"] = vars(self).pop("collection")
        return fitted

    def _agreed_options(self, published: Sequence[Any]) -> dict[str, Any]:
        """{option: value} of what clients agree on, by what each has published."""
        transforms = agreed(published, self.scaled.scaling) if published else {}
        tell(notes_on(published, transforms))
        carries = self.edge_columns.carries and published
        return {"transforms": {**transforms, **(self._agreed_of_edges(published) if carries else {})}}

    def _agreed_of_edges(self, published: Sequence[Any]) -> dict[str, Any]:
        """{name: transform} of the columns of edges, also of what stays as it is."""
        parts = [each.get(PUBLISHED) if isinstance(each, Mapping) else None for each in published]
        telling: list[Any] = [each for each in parts if not (isinstance(each, Mapping) and each.get("rows") == 0)]
        transforms = agreed(telling, self.scaled.scaling, "data.edge_features") if telling else {}
        tell(notes_on(telling, transforms, "Columns of edges"))
        if wrong := next((name for name in published[0]["names"] if name.startswith(OF_EDGES)), ""):
            raise InputError(f"Column {wrong!r} of nodes must have another name: {OF_EDGES!r} begins those of edges.")
        names = telling[0]["names"] if telling else ()
        return {f"{OF_EDGES}{name}": transforms.get(name, {}) for name in names}

    @cached_property
    def collection(self) -> Collection[Any]:
        """As `read` returns it; kept until it is loaded."""
        return self.read()

    @property
    def made(self) -> Transforms:
        """What is made of the columns of features; nothing where that is not known yet."""
        every = (self.scaled.transforms or {}).items()
        return Transforms({name: each for name, each in every if not name.startswith(OF_EDGES)})

    @property
    def edges_made(self) -> Transforms:
        """What is made of the columns of edges, likewise."""
        every = (self.scaled.transforms or {}).items()
        return Transforms({name.removeprefix(OF_EDGES): each for name, each in every if name.startswith(OF_EDGES)})

    @property
    def scale_rows(self) -> bool:
        """Whether tasks may bring each row of features to one length."""
        return self.scaled.scaling == "rows" or (self.scaled.scaling == "auto" and not self.made.scales)

    def encoded(self, collection: Collection[Any]) -> Collection[Any]:
        """Return the collection with features, and with what edges carry."""
        if collection.columns is None:
            return self.with_edges(collection)
        features, scale_rows = self.features_of(collection.columns, ""), self.scale_rows
        ends = np.cumsum([0, *(len(part.split) for part in collection.parts)])
        parts = [
            replace(part, features=features[start:end], scale_rows=scale_rows)
            for part, start, end in zip(collection.parts, ends[:-1], ends[1:], strict=True)
        ]
        whole = replace(collection.whole, features=features, scale_rows=scale_rows)
        return self.with_edges(replace(collection, whole=whole, parts=tuple(parts), columns=None))

    def load(self, seed: int) -> Sequence[Shard]:
        """Load one shard per client, dealt and split by `seed` where the data do not say how."""
        if self.scaled.transforms is None:
            return self.fitted(self._of_columns(seed)).load(seed)
        collection = vars(self).pop("collection", None) or self.read()
        return self.dealt(self.encoded(collection), seed)

    @abstractmethod
    def dealt(self, collection: Collection[Any], seed: int) -> Sequence[Shard]:
        """Return one shard per client of what was read, with features."""

    @property
    def void(self) -> Mapping[str, Any]:
        """Return the option that scales rows, where it has no effect."""
        return {} if self.scale_rows else {"scale": 0.0}

    @abstractmethod
    def feature_columns(self, task: Any, shard: Any) -> Sequence[str]:
        """Return the columns that features are made of, in order; arguments as of `plain`."""

    def plain(self, task: Any, shard: Any) -> str:
        """Return a Python module with a function `features(table)`, from the columns of these tables."""
        return self.made.plain(self.feature_columns(task, shard)) if self.made.by_name else ""

    def features_of(self, columns: Columns, where: str) -> Features:
        """Return what is made of columns, float32 [rows, features]; notes, behind `where`, are of texts not known."""
        tell(self.made.unknown(columns), where)
        return self.made.features(columns)

    def read_columns(self, rows: Rows, names: Sequence[str], owner: str) -> Columns:
        """Return columns of a table by name, texts where they are known to be; `owner` as of `reader.read`."""
        texts = None if self.scaled.transforms is None else self.made.texts
        return read_columns(rows, names, HINT.format(option=f"{owner}.{self.features_option}"), texts)

    def own_features(self, rows: Rows, others: Collection_[str], names: Sequence[str], is_sparse: bool) -> Features:
        """Return the features of a client's own rows, from columns of these names; arguments as of `known_features`."""
        what = "a feature of the run's data"
        if not self.made.by_name:
            return known_features(rows, names, is_sparse, what, others)
        check_present(rows, names, what, others)
        return in_form(self.features_of(self.read_columns(rows, names, "data"), f"{rows.where}: "), is_sparse)

    def asked_features(
        self, table: pd.DataFrame, names: Sequence[str], where: str, may_be_empty: bool = False
    ) -> pd.DataFrame:
        """Return a table of questions with features in place of the columns of these names, where it has these.

        A row without any of them has no features either, unless it may be empty. `where` is what errors call the table.
        """
        present = [name for name in names if name in table]
        if not self.made.by_name or not present:
            return table
        rows = Rows.of_frame(table, where)
        columns = self.read_columns(rows, present, "data")
        given = table[present].notna().any(axis=1).to_numpy() | may_be_empty
        values = self.made.dense(columns)
        self._note_missing(columns.take(given), where)
        tell(self.made.unknown(columns.take(given)), f"{where}: ")
        values[~given] = np.nan
        made = pd.DataFrame(values, columns=list(self.made.names(present)), index=table.index)
        return pd.concat([table.drop(columns=present), made], axis=1)

    def _note_missing(self, columns: Columns, where: str) -> None:
        """Say which numbers are missing of columns that lacked none in training."""
        numbers = np.asarray(columns.numbers)
        lost = [
            name
            for place, name in enumerate(columns.numeric)
            if np.isnan(numbers[:, place]).any() and not self.made.by_name.get(name, {}).get("missing")
        ]
        if lost:
            LOG.warning(f"{where}: {some(lost)} lack numbers, which none did in training: the mean stands for them.")

    # --- what edges carry ---------------------------------------------------------------------------------------------

    @property
    def edge_label(self) -> str:
        """The column of `edges` with what is to be told of them; "" for none."""
        return ""

    @property
    def edge_names(self) -> tuple[str, ...] | None:
        """Columns that edges carry, but for the time, or None = all others, until clients agree on these."""
        if self.edge_columns.edge_features == ALL:
            return tuple(name for name in self.edges_made.by_name if name != self.edge_columns.time) or None
        names = self.edge_columns.edge_features
        return tuple(names) if isinstance(names, list | tuple) else (names,) * bool(names)

    def edge_reader(self, labels: LabelReader | None = None) -> EdgeReader | None:
        """Return how edges are read, with their `labels` if they have some; None where they carry nothing."""
        if not self.edge_columns.carries:
            return None
        texts = None if self.scaled.transforms is None else self.edges_made.texts
        return EdgeReader(self.values_of, self.edge_columns.one_way, self.edge_columns.repeating, texts, labels)

    def values_of(self, carried: CarriedRows) -> Values:
        """Return what is made of edges' columns, float32 [edges, width]."""
        tell(self.edges_made.unknown(carried.columns), "Edges: ")
        return self.edges_made.dense(carried.columns).astype(np.float32)

    @property
    def carried_names(self) -> tuple[str, ...]:
        """All columns that edges carry, with the time."""
        return (*(self.edge_names or ()), *([self.edge_columns.time] if self.edge_columns.time else []))

    def with_edges(self, collection: Collection[Any]) -> Collection[Any]:
        """Return the collection with what its edges carry."""
        return with_edge_rows(collection, self.values_of)
