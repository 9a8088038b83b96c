"""Your own graph whose edges have a class or a number each, such as transfers between accounts: two tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pandas as pd

from fedgraft.contracts import ANSWER, SPLITS, Floats, Purpose
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.edge_columns import CarriedRows, LabelReader, Values
from fedgraft.domains.edge_data.scaled_tables import OF_EDGES, PUBLISHED
from fedgraft.domains.edges.order_of_time import TRAIN, agreed_order, order_of, places_of, split_of, told_times
from fedgraft.domains.edges.queries import ASKED_EDGES, asked_by_role
from fedgraft.domains.edges.shards import EdgeShard, edges_of, places_by_hash, read_edge_labels
from fedgraft.domains.labels.class_notes import class_notes
from fedgraft.domains.labels.known import is_known
from fedgraft.domains.nodes.base.partitions import NodeDealing
from fedgraft.domains.nodes.base.shards import WholeGraph
from fedgraft.domains.nodes.reading.graph_tables import SHARES, GraphTables
from fedgraft.domains.nodes.reading.tables import read_nodes
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.own_tables import ALL, EdgeColumns, LabelOptions
from fedgraft.domains.tables.schema import Names, Table, check_said
from fedgraft.errors import InputError, require
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Array, Tree

TIMES: Final = "times"
"""What a client calls, of what it publishes of edges, their times."""


@dataclass(frozen=True)
class Edges(LabelOptions, GraphTables[EdgeShard]):
    """Own graph whose edges have a class or a number each: a table of nodes, and one of edges.

    An edge goes from its source to its target, and the same two may have many. It is the client's whose its source is:
    that trains on it, and answers for it. The client of its target has it in its table, too, if it is to hear of it;
    where that does not list it, or takes no part, it is an edge to a node of which nothing is known.
    With `time` edges are in its order: the first 64 % train, the next 16 % are for validation, the last 20 % for test,
    and each is told by those before it; without, these parts are drawn by a hash of both ids. A label may be empty,
    where it is unknown: such an edge carries messages alone. Labels are no inputs.
    Ids and classes are kept as text ("007" stays "007"), whole numbers as such ("1.0" is "1"). Without a column of
    features a node has none but the numbers of its edges.

    Source: none. Differs: times are brought into one order by mean times of groups of edges, so that parts are of about
        these shares.

    Args:
        edge_features: columns of `edges` with numbers or texts that edges carry, and that are known of an edge when it
            is told; "all" (default) = all that have no other role.
        time: column of `edges`, numbers or dates, by which edges are ordered; they do not carry it. "" (default) =
            none.
        label: column of `edges`, the class, text or a whole number, or the number; empty where it is unknown.
        labels: "classes" or "numbers".
        partition: how nodes are dealt that name no client: "iid"; "hash", by the hash of a node's id, the same in every
            run; "louvain", "louvain_even" or "metis", as of `pyg_nodes`.
    """

    task: ClassVar[str] = "edge"
    splits_by_agreement: ClassVar[bool] = True
    asked: ClassVar[tuple[Table, ...]] = (ASKED_EDGES,)

    edge_columns: EdgeColumns = field(default=EdgeColumns(edge_features=ALL), kw_only=True)
    label: str = "label"
    labels: Literal["classes", "numbers"] = "classes"
    partition: Literal["iid", "hash", "louvain", "louvain_even", "metis"] = "iid"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.label), "Edges.label", "the column of what is to be told of an edge", self.label)
        if self.edges is None:
            raise InputError("Edges.edges must be given: a .csv or .parquet file, a folder of them, or a DataFrame.")

    @property
    def edge_label(self) -> str:
        """The column of labels."""
        return self.label

    @property
    def carried_names(self) -> tuple[str, ...]:
        """All columns that edges carry; the time is none."""
        return self.edge_names or ()

    def names(self, **renamed: Any) -> Names:
        """Return {role: name} of the columns of all tables; of nodes no label is read."""
        return super().names(**{"label": "", **renamed})

    def label_reader(self, task: Any) -> LabelReader:
        """Return what reads labels, of the classes of a task; those that occur where it says none."""
        return partial(
            read_edge_labels,
            classes=task.class_names if task else (),
            are_numbers=self.labels == "numbers",
            na_labels=self.unknowns,
            hashed=not self.edge_columns.time,
        )

    # --- what clients agree on ----------------------------------------------------------------------------------------

    def _of_edges(self, carried: CarriedRows, where: str) -> dict[str, Tree]:
        if not self.edge_columns.time or not len(carried):
            return super()._of_edges(carried, where)
        assert carried.time is not None, "as it was read"
        early = carried.take(np.flatnonzero(order_of(carried.time) < TRAIN))  # nothing is told of later columns
        return {**super()._of_edges(early, where), TIMES: told_times(carried.time, self.scaled.min_examples)}

    def _agreed_options(self, published: Sequence[Any]) -> dict[str, Any]:
        options = super()._agreed_options(published)
        if not (self.edge_columns.time and published):
            return options
        parts = [each[PUBLISHED] for each in published]
        order = agreed_order([part.get(TIMES) for part in parts if part["rows"]])
        return {**options, "transforms": {**options["transforms"], f"{OF_EDGES}{self.edge_columns.time}": order}}

    def known_of(self, task: Any, published: Sequence[Any]) -> Mapping[str, Any]:
        """Return how many numbers are known of an edge, too."""
        known = super().known_of(task, published)
        return {**known, **({"columns": known["edge_features"]} if "edge_features" in known else {})}

    def classes_in(self, collection: Collection[Any]) -> tuple[str, ...]:
        """Return the names of the classes of edges."""
        classes: tuple[str, ...] = collection.edges.carried.edge_labels.classes
        return classes

    def labels_in(self, collection: Collection[Any], seed: int) -> tuple[Array, Array]:
        """Return the label and the split, by its own order, of each edge that goes out from one client."""
        return self._split_alone(collection.edges.carried.outgoing(), seed)

    def labels_by_client(self, collection: Collection[WholeGraph], seed: int) -> list[tuple[Array, Array]]:
        """Return the same of each client."""
        owner, clients = self.owners(collection, seed)
        receiving = np.repeat(owner, collection.whole.degree)
        return [self._split_alone(collection.edges.from_client(k, receiving), seed) for k in range(clients)]

    def _split_alone(self, carried: CarriedRows, seed: int) -> tuple[Array, Array]:
        label = carried.edge_labels.label
        place = self._places(carried, seed) if carried.time is None else order_of(carried.time)
        return label, np.where(is_known(label), split_of(place), -1)

    def _places(self, carried: CarriedRows, seed: int) -> Floats:
        """Return the place of each edge in the order of all, float64 [edges] in [0, 1)."""
        if self.edge_columns.time:
            assert carried.time is not None, "as it was read"
            return places_of(carried.time, **(self.scaled.transforms or {})[f"{OF_EDGES}{self.edge_columns.time}"])
        return places_by_hash(carried, seed)

    # --- where the data of all are ------------------------------------------------------------------------------------

    def read(self) -> Collection[WholeGraph]:
        """Read the graph, before it is dealt to clients."""
        assert self.edges is not None, "options were checked"
        columns = partial(self.read_columns, owner="Edges")
        collection = read_nodes(self.nodes, self.edges, self.form("Edges"), columns)
        carried = collection.edges.carried
        labels = carried.edge_labels.take(np.unique(carried.number, return_index=True)[1])  # two clients list one
        where = "Edges.edges" if isinstance(self.edges, pd.DataFrame) else str(self.edges)
        if not is_known(labels.label).any():
            raise InputError(f"{where}: no edge has a label in column {self.label!r} (data.label); one is needed.")
        notes = class_notes(labels.label, labels.classes, where, self.unknowns) if labels.classes else ()
        return replace(collection, notes=(*collection.notes, *notes))

    def owners(self, collection: Collection[WholeGraph], seed: int) -> tuple[Array, int]:
        """Return the number of each node's client, [nodes], and how many clients there are."""
        return self._dealing().owners(collection, seed)

    def encoded(self, collection: Collection[Any]) -> Collection[Any]:
        """Return the collection with features and with what edges carry; rows of edges stay, for their labels."""
        return replace(super().encoded(collection), edges=collection.edges)

    def dealt(self, collection: Collection[WholeGraph], seed: int) -> list[EdgeShard]:
        """Return one shard per client of what was read, with features."""
        carried, classes = collection.edges.carried, collection.edges.carried.edge_labels.classes
        graphs = self._dealing().load(collection, seed, self.clients)
        place, listed = self._places(carried, seed), collection.edges.counted or {}
        nothing, form = np.zeros(0, np.int64), (place, self._columns_of, classes, bool(self.edge_columns.time))
        shards = [edges_of(graph, carried, listed.get(k, nothing), *form) for k, graph in enumerate(graphs)]
        self._check_split(shards)
        return shards

    def _check_split(self, shards: Sequence[EdgeShard]) -> None:
        """Raise `InputError` where no edge is in one of the splits."""
        split = np.concatenate([shard.split for shard in shards])
        for part, name in enumerate(SPLITS):
            if not (split == part).any():
                why = (
                    f"by column {self.edge_columns.time!r} (data.time)"
                    if self.edge_columns.time
                    else "by the hash of their ids"
                )
                raise InputError(f"No edge with a label is for {name}, as they are split {why}; one is needed.")

    # --- where those of one client are --------------------------------------------------------------------------------

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> EdgeShard:
        """Read one client's nodes and the edges at them, with the columns of the run's tables."""
        classes = () if self.labels == "numbers" else task.class_names
        if purpose.trains:
            check_said(self.features, task.class_names if self.labels == "classes" else None)
        part = self.part_at(task, tables, purpose)
        carried, graph = part.edges.carried, self.with_edges(part).whole
        if purpose.trains:
            labels = carried.edge_labels
            tell(class_notes(labels.label, labels.classes, str(tables["edges"]), self.unknowns))
        else:
            self.check_width(task, graph)
        place, mine = self._places(carried, purpose.seed), np.arange(len(carried))
        return edges_of(graph, carried, mine, place, self._columns_of, classes, bool(self.edge_columns.time))

    def _columns_of(self, carried: CarriedRows) -> Values:
        """As `values_of`, without a word of what it has told."""
        return self.edges_made.dense(carried.columns).astype(np.float32)

    # --- what is asked ------------------------------------------------------------------------------------------------

    def questions(
        self, task: Any, tables: Mapping[str, pd.DataFrame], own: Mapping[str, Given]
    ) -> dict[str, pd.DataFrame]:
        """Return edges by the usual names of columns, and what a model reads of each in columns "0", "1" ...

        Whose ends are, as their columns say it, tells nodes of one id apart, and who answers.
        """
        if "edges" not in tables:
            return dict(tables)
        read = self.edge_names or (), self.edges_made.texts, self.values_of
        return {**tables, "edges": asked_by_role(tables["edges"], self.names(), *read, whose=not own)}

    def plain(self, task: Any, shard: Any) -> str:
        """Return a Python module with functions `features(table)` of nodes and `edge_features(table)`."""
        if not (self.made.by_name or self.edges_made.by_name):
            return ""
        return self.made.plain(self.feature_columns(task, shard)) + self.edges_made.plain_edges(self.carried_names)

    def _dealing(self) -> NodeDealing:
        return NodeDealing("Edges", self.clients or SHARES, self.partition)
