"""Your own graphs, with a class or a number each, from CSV or Parquet files, DataFrames or PyG objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts import ANSWER, Indices, PositiveInt, Purpose, randomness
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.edge_columns import NO_COLUMNS, asked_carried
from fedgraft.domains.edge_data.scaled_tables import ScaledTables
from fedgraft.domains.graphs.pyg_objects import tables_of
from fedgraft.domains.graphs.shards import (
    FEWEST,
    HELD_OUT,
    GraphShard,
    check_graphs,
    check_labels,
    deal,
    with_degrees,
)
from fedgraft.domains.graphs.tables import ASKED, EDGES, GRAPHS, NODES, names_of, read_graphs
from fedgraft.domains.keyed_split import split_by_hash
from fedgraft.domains.labels.class_notes import untrained_notes
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.own_tables import LabelOptions, OwnTables, RepeatedEdges, SplitOptions
from fedgraft.domains.tables.reader import OWNER
from fedgraft.domains.tables.schema import Names, Table, check_one_client
from fedgraft.errors import InputError, require
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Array


@dataclass(frozen=True)
class Graphs(LabelOptions, SplitOptions[GraphShard], ScaledTables[GraphShard], OwnTables[GraphShard]):
    """Own graphs with a class or a number each: tables of graphs, nodes and edges, or PyG objects.

    Source: none. Differs: graphs are split by the hash of their ids, so that each keeps its split as the table grows;
        not by class, as published sets are. Of PyG objects the id of a graph is its position.
    Ids, kinds and classes are kept as text ("007" stays "007"). Edges are undirected, listed one way or both, and carry
    nothing, unless `edge_features`, `weight`, `time`, `directed` or `duplicate_edges` say otherwise; then a row is an
    edge, but an undirected one that is listed both ways is one, with each way what its row there says. A graph may have
    no edge. Where a client's nodes have neither a kind nor attributes, their degree is a one-hot feature. At a
    site: `graphs`, `nodes` and `edges` of its own, with `vocabulary` = "client".

    Args:
        graphs: path of a .csv or .parquet file, or a DataFrame; one row per graph. Or PyG `Data` objects (x, y,
            edge_index) in a list, where each may say its `client`, or in {client: list}; what their edges carry are
            edge_attr, columns "0", "1" ..., and the attributes that `weight` and `time` name.
        nodes: the same for nodes, one row each; not with PyG objects.
        edges: likewise.
        graph: column of all three, the graph's id.
        label: column of `graphs`, the class, text or a whole number; or the number.
        client: column of `graphs`; where there is none, all graphs are dealt to `clients`.
        split: column of `graphs`, "train", "validation" or "test"; where there is none, 8:1:1 by
            `split_seed`.
        node: column of `nodes`, an id that is unique in its graph.
        kind: column of `nodes`, text or a whole number, such as an atom's symbol; may be missing.
        attributes: numeric columns of `nodes`; None (default) = all others. One that is empty at all nodes of a client
            is none of its attributes.
        source: column of `edges`, a node of the row's graph.
        target: column of `edges`, likewise.
        vocabulary: "client" (default): each client numbers the kinds and classes that it has; or "all": those of all
            clients together, as training in one place needs.
        clients: into how many random, equal shares to deal graphs that name no client, >= 1.
        labels: "classes", for the task `graph`, or "numbers", for `graph_regression`, which sets it.
    """

    task: ClassVar[str] = "graph"
    other_tasks: ClassVar[Mapping[str, Mapping[str, Any]]] = {"graph_regression": {"labels": "numbers"}}
    site_tables: ClassVar[tuple[str, ...]] = ("graphs", "nodes", "edges")
    schemas: ClassVar[tuple[Table, ...]] = (GRAPHS, NODES, EDGES)
    asked: ClassVar[tuple[Table, ...]] = ASKED
    features_option: ClassVar[str] = "attributes"
    own_columns: ClassVar[bool] = True
    own_classes: ClassVar[bool] = True

    edge_columns: RepeatedEdges = field(default=RepeatedEdges(), kw_only=True)
    graphs: str | Path | pd.DataFrame | list[Any] | dict[str, Any]
    nodes: str | Path | pd.DataFrame | None = None
    edges: str | Path | pd.DataFrame | None = None
    graph: str = "graph"
    label: str = "label"
    client: str = "client"
    split: str = "split"
    node: str = "node"
    kind: str = "kind"
    attributes: tuple[str, ...] | None = None
    source: str = "source"
    target: str = "target"
    vocabulary: Literal["client", "all"] = "client"
    clients: PositiveInt = 1
    labels: Literal["classes", "numbers"] = "classes"

    def __post_init__(self) -> None:
        super().__post_init__()
        objects = isinstance(self.graphs, list | dict)
        for name, table in (("nodes", self.nodes), ("edges", self.edges)):
            if objects and table is not None:
                raise InputError(f"Graphs.{name} must be left out where Graphs.graphs holds PyG objects.")
            if not objects and table is None:
                raise InputError(f"Graphs.{name} must be given: a .csv or .parquet file, or a DataFrame.")

    def names(self, **renamed: Any) -> Names:
        """Return {role: name} of the columns of all tables, and how files are written."""
        return super().names(**{"edge_features": self.edge_names, **renamed})

    @classmethod
    def options_from(cls, given: object) -> dict[str, Any] | None:
        """Take PyG objects in a list, or a list for each client; or options with graphs."""
        if isinstance(given, Mapping) and "graphs" in given:
            return dict(given)
        lists = list(given.values()) if isinstance(given, Mapping) else [given]
        graphs = [graph for each in lists if isinstance(each, list) for graph in each]
        fits = graphs and all(isinstance(each, list) for each in lists) and hasattr(graphs[0], "edge_index")
        return {"graphs": given} if fits else None

    def encoded(self, collection: Collection[GraphShard]) -> Collection[GraphShard]:
        """Return the collection with what its edges carry; which attributes there are depends on the client."""
        if collection.edges is None:
            return collection
        names, collection = self.edges_made.names(self.carried_names), self.with_edges(collection)
        return replace(collection, whole=replace(collection.whole, edge_names=names))

    def dealt(self, collection: Collection[GraphShard], seed: int) -> list[GraphShard]:
        """Return one shard per client of what was read."""
        tell(collection.notes)
        client, clients = self._graph_owners(collection, seed)
        names = _client_names(collection, clients)
        collection = self._with_attributes(collection, client)
        degrees = int(collection.whole.degree.max(initial=0)) + 1 if self.vocabulary == "all" else None
        rows = [np.flatnonzero(client == k) for k in range(len(names))]
        shards = [
            self._shard(collection, rows[k], self.splitting(Purpose(name, k, seed, trains=True)), degrees)
            for k, name in enumerate(names)
        ]
        whole, split = collection.whole, np.full(len(client), -1)
        split[np.concatenate(rows)] = np.concatenate([shard.split for shard in shards])
        tell(untrained_notes(whole.label, whole.classes, split, whole.name))
        return shards

    def owners(self, collection: Collection[GraphShard], seed: int) -> tuple[Array, int]:
        """Return the number of each node's client, [nodes], and how many clients there are."""
        client, clients = self._graph_owners(collection, seed)
        return np.repeat(client, collection.whole.sizes), clients

    def _graph_owners(self, collection: Collection[GraphShard], seed: int) -> tuple[Array, int]:
        """The number of each graph's client, [graphs], and how many clients there are."""
        named = len(collection.client_names)
        if named:
            require(self.clients in (1, named), "Graphs.clients", f"{named}, as the data name", self.clients)
        if named or self.clients == 1:
            return collection.client, named or 1
        label, where = collection.whole.label, collection.whole.name
        shares = deal(label, self.clients, None, randomness.generator(seed, "partition"), where)
        client = np.repeat(np.arange(self.clients), [len(rows) for rows in shares])
        return client[np.argsort(np.concatenate(shares))], self.clients

    def _with_attributes(self, collection: Collection[GraphShard], client: Array) -> Collection[GraphShard]:
        """The graphs with attributes, nan at nodes of a client, by the number of each graph's, that has none."""
        columns, owner = collection.columns, np.repeat(client, collection.whole.sizes)
        assert columns is not None, "attributes are read as columns"
        features = self.features_of(columns, "")
        values = features if isinstance(features, np.ndarray) else features.toarray()
        for place, name in enumerate(self.made.sources(columns.names)):
            has = np.bincount(owner, columns.filled(name)) > 0
            values[~has[owner], place] = np.nan
        whole = replace(collection.whole, attributes=values, attribute_names=self.made.names(columns.names))
        return replace(collection, whole=whole, columns=None)

    def questions(
        self, task: Any, tables: Mapping[str, pd.DataFrame], own: Mapping[str, Given]
    ) -> dict[str, pd.DataFrame]:
        """Return tables of questions by the usual names of columns, with attributes as the model reads them."""
        asked = super().questions(task, tables, own)
        if "nodes" in asked:
            names = [name for name in map(str, asked["nodes"]) if name in self.made.by_name]
            asked["nodes"] = self.asked_features(asked["nodes"], names, f"{OWNER}.nodes", may_be_empty=True)
        if "edges" in asked and (reader := self.edge_reader()):
            asked["edges"] = asked_carried(asked["edges"], self.names(), reader, by_graph=True)
        return asked

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return DataFrames, with the columns that are named or attributes; PyG objects as tables that say the same."""
        if isinstance(self.graphs, list | dict):
            tables = tables_of(self.graphs, "Graphs.graphs", self.labels == "numbers", self.names())
            return {option: table.rename(columns=self.names()) for option, table in tables.items()}
        return super().tables()

    def read(self, classes: Sequence[str] = ()) -> Collection[GraphShard]:
        """Read all graphs, before they are dealt to clients; `classes` are those of a recipe that names them."""
        numbers = self.labels == "numbers"
        if isinstance(self.graphs, list | dict):
            tables: Mapping[str, Any] = tables_of(self.graphs, "Graphs.graphs", numbers, self.names())
            names: Names = {**names_of(), **{role: self.names()[role] for role in NO_COLUMNS}}
        else:
            tables, names = {name: getattr(self, name) for name in self.site_tables}, self.names()
        columns = partial(self.read_columns, owner="Graphs")
        how = numbers, columns, self.unknowns, classes, self.edge_reader()
        return read_graphs(tables, names, "Graphs", True, *how)

    def labels_by_client(self, collection: Collection[GraphShard], seed: int) -> list[tuple[Array, Array]]:
        """Return the classes, int64 [graphs], and the split of each client's graphs."""
        client, clients = self._graph_owners(collection, seed)
        labels = []
        for k, name in enumerate(_client_names(collection, clients)):
            own = replace(collection.whole.take(np.flatnonzero(client == k)), name=name)
            purpose = self.splitting(Purpose(name, k, seed, trains=True))
            labels.append((own.label, self._split_of(own, collection.split, purpose)))
        return labels

    def feature_columns(self, task: Any, shard: Any) -> tuple[str, ...]:
        """Return the columns of nodes that a client's attributes are made of, in order."""
        made = {part: name for name in self.made.by_name for part in self.made.names([name])}
        return tuple(dict.fromkeys(made.get(name, name) for name in shard.attribute_names))

    def collection_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose) -> Collection[GraphShard]:
        """Return one client's graphs, nodes and edges, split, with attributes as columns."""
        collection = self._own(task, tables, purpose)
        split = self._split_of(collection.whole, collection.split, self.splitting(purpose))
        return replace(collection, whole=replace(collection.whole, split=split))

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> GraphShard:
        """Read one client's graphs, nodes and edges."""
        collection = self.encoded(self._own(task, tables, purpose))
        tell(collection.notes)
        collection = self._with_attributes(collection, np.zeros(collection.whole.graphs, np.int64))
        whole = collection.whole
        if every := getattr(task, "class_names", ()):
            label = np.array([every.index(name) for name in whole.classes])[whole.label]
            collection = replace(collection, whole=replace(whole, label=label, classes=every))
        shared = bool(every) or len(np.unique(whole.label)) > 1
        return self._shard(collection, np.arange(whole.graphs), self.splitting(purpose), None, shared)

    def _own(self, task: Any, tables: Mapping[str, Given], purpose: Purpose) -> Collection[GraphShard]:
        if self.vocabulary != "client":
            raise InputError("data.vocabulary must be 'client': no site knows the kinds and classes of the others.")
        for table in self.site_tables:
            if table not in tables:
                raise InputError(f"--data {table}=FILE is missing; graphs, nodes and edges are needed.")
        site = replace(self, clients=1, **dict[str, Any](tables))
        collection = site.read(getattr(task, "class_names", ()))
        check_one_client(collection.client_names, f"column {self.client!r} of {tables['graphs']}", purpose.name)
        return collection

    def _shard(
        self,
        collection: Collection[GraphShard],
        rows: Indices,
        purpose: Purpose,
        degrees: int | None,
        shared: bool = False,
    ) -> GraphShard:
        """Return a client's shard of some graphs, int64 [graphs], with its own vocabulary, split if the data are not.

        `degrees` is the number of kinds that degrees make; None = as many as the client has. `shared` says that others
        have graphs, too, though they are in no table here.
        """
        own = replace(collection.whole.take(rows), name=purpose.name)
        whole = collection.whole
        shared = shared or (len(rows) < whole.graphs and len(np.unique(whole.label)) > 1)
        shard = self._with_vocabulary(own, whole.name, degrees, shared)
        return replace(shard, split=self._split_of(shard, collection.split, purpose))

    def _split_of(self, shard: GraphShard, is_split: bool, purpose: Purpose) -> NDArray[np.int8]:
        """The split of a client's graphs, int8 [graphs], by the purpose's seeds unless they are split."""
        if not is_split and shard.graphs < FEWEST:
            return np.zeros(shard.graphs, np.int8)
        if not is_split:
            held = (HELD_OUT, HELD_OUT)
            return split_by_hash(shard.hashes(), purpose.split_seed or 0, held, few=FEWEST)
        if not (shard.split == 0).any():
            raise InputError(f"{shard.name}: column {self.split!r} leaves no graph for training; one is needed.")
        return shard.split

    def _with_vocabulary(self, shard: GraphShard, where: str, degrees: int | None, shared: bool) -> GraphShard:
        """Return a client's shard with its own attributes, kinds and classes; `degrees`: number of kinds they make.

        Where the table is `shared` with others, a client may have few graphs, or those of one class, which then answers
        with the classes of all.
        """
        has = np.flatnonzero(~np.isnan(shard.attributes).all(axis=0))
        names = tuple(shard.attribute_names[column] for column in has)
        shard = replace(shard, attributes=np.ascontiguousarray(shard.attributes[:, has]), attribute_names=names)
        where = f"{where}, client {shard.name!r}"
        check_graphs(shard, where)
        few, alike = shard.graphs < FEWEST, bool(shard.classes) and len(np.unique(shard.label)) < 2
        if shared and (few or alike):
            tell(_small_notes(shard, where, few, alike))
        else:
            check_labels(shard, where)
        if self.vocabulary == "client" and shard.classes and not alike:
            label, classes = _occurring(shard.label, shard.classes)
            shard = replace(shard, label=label, classes=classes)
        if not shard.kinds:
            return shard if names else with_degrees(shard, degrees)
        if self.vocabulary == "client":
            kind, kinds = _occurring(shard.kind, shard.kind_names)
            shard = replace(shard, kind=kind.astype(np.int32), kinds=len(kinds), kind_names=kinds)
        return shard


def _client_names(collection: Collection[GraphShard], clients: int) -> tuple[str, ...]:
    return collection.client_names or tuple(f"client {k}" for k in range(clients))


def _small_notes(shard: GraphShard, where: str, few: bool, alike: bool) -> list[str]:
    """Return notes on a client that has too few graphs to be scored, and graphs of one class alone."""
    notes = []
    if few:
        notes.append(
            f"{where}: fewer than {FEWEST} graphs ({shard.graphs}); all of them are to train on, none is scored."
        )
    if alike:
        name = shard.classes[int(shard.label[0])]
        notes.append(
            f"{where}: all graphs ({shard.graphs}) have the class {name!r}; it answers with the classes of all."
        )
    return notes


def _occurring(codes: Array, names: tuple[str, ...]) -> tuple[Indices, tuple[str, ...]]:
    """Return codes, int64, and names of those that occur alone."""
    present, code = np.unique(codes, return_inverse=True)
    return code.astype(np.int64), tuple(names[each] for each in present)
