"""What data sets have in common whose edges carry something, brought to one size as nodes' columns are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from fedgraft.contracts.task import Shard
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeReader, LabelReader, Make, Repeats, Values
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.column_statistics import agreed, statistics_of
from fedgraft.domains.tables.scaled_tables import ScaledTables
from fedgraft.domains.tables.schema import ALL_OTHERS
from fedgraft.domains.tables.transforms import Transforms, notes_on
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Tree

ALL: Final = "all"
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
class ScaledEdges(ScaledTables[Shard]):
    """Ability of data sets of own tables: edges carry columns, weights and times, have directions, and repeat.

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
    def edge_label(self) -> str:
        """The column of `edges` with what is to be told of them; "" for none."""
        return ""

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

    @property
    def edge_names(self) -> tuple[str, ...] | None:
        """Columns that edges carry, but for the time, or `ALL_OTHERS`, until clients agree on these."""
        if self.edge_features == ALL:
            return tuple(name for name in self.edges_made.by_name if name != self.time) or ALL_OTHERS
        names = self.edge_features
        return tuple(names) if isinstance(names, list | tuple) else (names,) * bool(names)

    def edge_reader(self, labels: LabelReader | None = None) -> EdgeReader | None:
        """Return how edges are read, with their `labels` if they have some; None where they carry nothing."""
        if not self.carries:
            return None
        texts = None if self.transforms is None else self.edges_made.texts
        return EdgeReader(self.values_of, self.one_way, self.repeating, texts, labels)

    def values_of(self, carried: CarriedRows) -> Values:
        """Return what is made of edges' columns, float32 [edges, width]."""
        tell(self.edges_made.unknown(carried.columns), "Edges: ")
        return self.edges_made.dense(carried.columns).astype(np.float32)

    @property
    def made(self) -> Transforms:
        """What is made of the columns of nodes."""
        return Transforms({name: each for name, each in super().made.by_name.items() if not name.startswith(OF_EDGES)})

    @property
    def edges_made(self) -> Transforms:
        """What is made of the columns of edges."""
        every = super().made.by_name.items()
        return Transforms({name.removeprefix(OF_EDGES): each for name, each in every if name.startswith(OF_EDGES)})

    def _of_columns(self, seed: int) -> Sequence[dict[str, Tree]]:
        trees, collection = super()._of_columns(seed), self.collection
        if collection.edges is None:
            return trees
        of_clients, where = self.edges_of_clients(collection, seed), collection.whole.name
        return [
            {**tree, PUBLISHED: self._of_edges(carried, where)} for tree, carried in zip(trees, of_clients, strict=True)
        ]

    def edges_of_clients(self, collection: Collection[Any], seed: int) -> Sequence[CarriedRows]:
        """Return the rows of the edges that have an end of each client's."""
        owner, clients = self.owners(collection, seed)
        receiving = np.repeat(owner, collection.whole.degree)
        return [collection.edges.of_client(client, receiving) for client in range(clients)]

    def _of_own(self, collection: Collection[Any]) -> dict[str, Tree]:
        tree = super()._of_own(collection)
        return {**tree, PUBLISHED: self._of_edges(collection.edges.carried, "--data")} if self.carries else tree

    def _of_edges(self, carried: CarriedRows, where: str) -> dict[str, Tree]:
        """What a client publishes of the edges that have an end of its own; without one it knows no column's kind."""
        if not len(carried):
            return {"rows": 0}
        option = "data.edge_features"
        return statistics_of(carried.columns, self.least_examples, self.scaling, where, option=option)

    def _agreed_options(self, published: Sequence[Any]) -> dict[str, Any]:
        options = super()._agreed_options(published)
        if not (self.carries and published):
            return options
        parts = [each.get(PUBLISHED) if isinstance(each, Mapping) else None for each in published]
        telling: list[Any] = [each for each in parts if not (isinstance(each, Mapping) and each.get("rows") == 0)]
        transforms = agreed(telling, self.scaling, "data.edge_features") if telling else {}
        tell(notes_on(telling, transforms, "Columns of edges"))
        if wrong := next((name for name in published[0]["names"] if name.startswith(OF_EDGES)), ""):
            raise InputError(f"Column {wrong!r} of nodes must have another name: {OF_EDGES!r} begins those of edges.")
        names = telling[0]["names"] if telling else ()
        renamed = {f"{OF_EDGES}{name}": transforms.get(name, {}) for name in names}  # also of what stays as it is
        return {**options, "transforms": {**options["transforms"], **renamed}}

    def known_of(self, task: Any, published: Sequence[Any]) -> Mapping[str, Any]:
        """Return the width of what edges carry, too, and whether they have weights."""
        width = len(self.edges_made.names(self.carried_names))
        carried = {"edge_features": width, "edge_weights": bool(self.weight) or self.repeating == "sum"}
        return {**super().known_of(task, published), **{name: value for name, value in carried.items() if value}}

    @property
    def carried_names(self) -> tuple[str, ...]:
        """All columns that edges carry, with the time."""
        return (*(self.edge_names or ()), *([self.time] if self.time else []))

    def encoded(self, collection: Collection[Any]) -> Collection[Any]:
        """Return the collection with features, and with what edges carry."""
        return self.with_edges(super().encoded(collection))

    def with_edges(self, collection: Collection[Any]) -> Collection[Any]:
        """Return the collection with what its edges carry."""
        return with_edge_rows(collection, self.values_of)


@dataclass(frozen=True, kw_only=True)
class RepeatedEdges(ScaledEdges[Shard]):
    """Ability of data sets of own tables: edges may also go one way, or both, and carry nothing.

    Args:
        directed: whether edges go from their source to their target.
        repeats: what becomes of several edges of the same two ends, in the same direction if they are directed: "keep";
            "sum" adds their numbers and weights (one each where there are none); "last" keeps the last one by time,
            else by row; "" (default) = "keep" where one of the options above is given, else edges carry nothing and the
            same two ends have one.
    """

    directed: bool = False
    repeats: Literal["", "keep", "sum", "last"] = ""

    @property
    def carries(self) -> bool:
        """Whether edges carry something, if only that they repeat."""
        return bool(self.edge_features or self.weight or self.time or self.directed or self.repeats)

    @property
    def one_way(self) -> bool:
        """Whether edges go from their source to their target."""
        return self.directed

    @property
    def repeating(self) -> Repeats:
        """What becomes of several edges of the same two ends."""
        return self.repeats or "keep"
