"""Your own graph with nodes of several types, from CSV or Parquet files, DataFrames or PyG objects."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd

from fedgraft.contracts.data import ANSWER, Purpose
from fedgraft.contracts.ranges import NonNegativeInt
from fedgraft.contracts.values import SPLITS
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.edge_columns import CarriedRows
from fedgraft.domains.edge_data.graph_form import GraphForm
from fedgraft.domains.edge_data.scaled_tables import ScaledTables
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.own_tables import EdgeColumns, LabelOptions, OwnTables, Repeats, SplitOptions
from fedgraft.domains.tables.reader import OWNER
from fedgraft.domains.tables.schema import Names, Table, check_one_client, check_roles, check_said, renamed
from fedgraft.domains.typed import shards
from fedgraft.domains.typed.carried_edges import asked_links
from fedgraft.domains.typed.partitions import (
    TypedDealing,
    TypedPartition,
    induced_parts,
    structural_width,
    with_features,
)
from fedgraft.domains.typed.pyg_objects import collection_of, is_object, tables_of
from fedgraft.domains.typed.tables import ASKED_CARRIED, BOTH, EDGES, NODES, read_typed_graph
from fedgraft.errors import InputError
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Array, Tree

SHARES = 10
"""Clients, unless given or named by the data."""


@dataclass(frozen=True)
class TypedEdges(EdgeColumns):
    """Options of undirected edges between nodes of two types.

    Args:
        duplicate_edges: of several edges of the same two nodes where they carry something: "last" (default) keeps
            the last one by time, else by row; "sum" adds their numbers and weights (one each where there are none).
    """

    duplicate_edges: Literal["last", "sum"] = "last"

    @property
    def carries(self) -> bool:
        """Whether edges carry something."""
        return bool(self.edge_features or self.weight or self.time or self.duplicate_edges == "sum")

    @property
    def one_way(self) -> bool:
        """Edges are undirected."""
        return False

    @property
    def repeating(self) -> Repeats:
        """What becomes of several edges of the same two nodes."""
        return self.duplicate_edges


@dataclass(frozen=True)
class TypedGraph(
    LabelOptions, SplitOptions[shards.TypedGraph], ScaledTables[shards.TypedGraph], OwnTables[shards.TypedGraph]
):
    """Own graph of several types of nodes, to classify those of one: tables of nodes and edges, or a PyG object.

    Source: none. Differs: target nodes are split by the hash of their ids, so that each keeps its split as the graph
        grows; not by class, as published sets are. A node of a PyG object without ids has its position for one.
    Ids and classes are kept as text ("007" stays "007"), whole numbers as such ("1.0" is "1"), in their order. Edges
    are undirected, listed one way or both, and carry nothing unless `edge_features`, `weight` or `time` say so; a table
    without such a column lacks its values, or has weights of 1. Only the nodes that are classified have features; where
    there are none, they are made of what each client holds. A file is .csv or .parquet. At a site: `nodes` and `edges`
    of its own, each a table of all types.

    Args:
        nodes: {type: file or DataFrame}, one row per node; or one file or DataFrame of all nodes, whose column "type"
            says which type each is. Or a PyG `HeteroData` object, the path of a .pt file that `torch.save` wrote it to,
            or a folder of such files, each a client named after it.
        target: the type whose nodes are classified.
        edges: {"paper-author": file or DataFrame}, for each two types that have edges; or one of all edges, with
            columns "source_type" and "target_type". Not with a PyG object.
        node: column of nodes, an id that is unique within its type over all clients.
        label: column of the target's nodes, the class, text or a whole number; empty where it is unknown.
        client: column of the target's nodes; where there is none, they are dealt to `clients`.
        split: column of the target's nodes, "train", "validation", "test" or empty; where there is none, by
            `split_seed`.
        features: numeric columns of the target's nodes; None (default) = all others that have numbers.
        ends: columns of edges: the id of a node of the first type, and of one of the second.
        metapaths: that the graph suggests, such as "paper-author-paper"; none (default) = the shortest.
        clients: over how many nodes are dealt that name no client; 0 (default) = as many as the data name, or 10.
        fold: which of five folds is the test set where the data name no split, 0..4.
    """

    task: ClassVar[str] = "typed_node"
    site_tables: ClassVar[tuple[str, ...]] = ("nodes", "edges")
    schemas: ClassVar[tuple[Table, ...]] = (NODES, EDGES)
    alike_options: ClassVar[tuple[str, ...]] = ("metapaths", "features")

    nodes: str | Path | pd.DataFrame | dict[str, Any] | Any
    target: str
    edges: str | Path | pd.DataFrame | dict[str, Any] | None = None
    node: str = "node"
    label: str = "label"
    client: str = "client"
    split: str = "split"
    features: tuple[str, ...] | None = None
    ends: tuple[str, str] = ("source", "target")
    metapaths: tuple[str, ...] = ()
    clients: NonNegativeInt = 0
    dealt_by: TypedPartition = field(default=TypedPartition(), kw_only=True)
    edge_columns: TypedEdges = field(default=TypedEdges(), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        NODES.check("TypedGraph", self.names(), only=("node", "label", "client", "split", "features"))
        read = [("ends", column) for column in self.ends]
        read += [("edge_features", column) for column in self.edge_names or ()]
        read += [(option, column) for option in ("weight", "time") if (column := getattr(self.edge_columns, option))]
        check_roles("TypedGraph", read)
        self._check_given("nodes", self.nodes)
        if is_object(self.nodes):
            if self.edges is not None:
                raise InputError("TypedGraph.edges must be left out where TypedGraph.nodes is a PyG object.")
        # A path without a suffix can be only a folder's, which need not be there before data are read.
        elif self.edges is None and not (isinstance(self.nodes, str | Path) and not Path(self.nodes).suffix):
            raise InputError(
                "TypedGraph.edges must be given: {'paper-author': a .csv or .parquet file or a DataFrame, ...}, or one "
                "of all edges."
            )
        elif self.edges is not None:
            self._check_given("edges", self.edges)

    @classmethod
    def options_from(cls, given: object) -> dict[str, Any] | None:
        """Take a PyG object with several types of nodes, of which one has classes; or options with a target."""
        if isinstance(given, Mapping):
            return dict(given) if {"nodes", "target"} <= given.keys() else None
        if not hasattr(given, "node_types"):
            return None
        labelled = [kind for kind in given.node_types if "y" in given[kind]]  # type: ignore[index]
        if len(labelled) != 1:
            raise InputError(
                'data: a graph whose types are not one with classes (y) needs its target: {"nodes": ..., "target": '
                f'"TYPE"}}; types with classes: {", ".join(labelled) or "none"}.'
            )
        return {"nodes": given, "target": labelled[0]}

    def dealt(self, collection: Collection[shards.TypedGraph], seed: int) -> list[shards.TypedGraph]:
        """Return one shard per client of what was read, with features."""
        parts = self._dealing().load(collection, seed, self.clients, split_seed=self.split_seed_of(seed))
        return [with_features(part) for part in parts]

    def names(self, **renamed: Any) -> Names:
        """Return {role: name} of the columns; the option `ends` names two of them."""
        return super().names(**{**dict(zip(BOTH, self.ends, strict=True)), "edge_features": self.edge_names, **renamed})

    def owners(self, collection: Collection[shards.TypedGraph], seed: int) -> tuple[Array, int]:
        """Return the number of each node's client, [nodes], and how many clients there are."""
        return self._dealing().owners(collection, seed)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return tables in memory as one of all nodes and one of all edges; PyG objects likewise."""
        if isinstance(self.nodes, str | Path) and not self._in_memory(self.edges):
            return {}
        collection = self.read()
        if is_object(self.nodes):
            tell(collection.notes)  # of what is in no table
        tables = tables_of(collection, self.names())
        return {
            name: table
            for name, table in tables.items()
            if is_object(self.nodes) or self._in_memory(getattr(self, name))
        }

    def read(self) -> Collection[shards.TypedGraph]:
        """Read the graph, before it is dealt to clients."""
        form = self.form("TypedGraph")
        if is_object(self.nodes) or self.edges is None:
            collection = collection_of(self.nodes, self.target, self.metapaths, "TypedGraph.nodes", form)
            dealt = "masks leave"
        else:
            columns = partial(self.read_columns, owner="TypedGraph")
            collection = read_typed_graph(self.nodes, self.edges, self.target, form, self.metapaths, columns_of=columns)
            dealt = f"column {self.split!r} leaves"
        whole = collection.whole
        if idle := [shards.JOIN.join(pair) for pair, ends in whole.edges.items() if not ends.size]:
            raise InputError(f"{whole.name}: there is no edge {idle[0]} between two nodes; leave these edges out.")
        if collection.split and (missing := [name for name in SPLITS if not len(whole.rows(name))]):
            raise InputError(f"{whole.name}: {dealt} no node of type {self.target!r} for {missing[0]}; one is needed.")
        if len(whole.classes) < 2:
            raise InputError(
                f"{whole.name}: all {int((whole.label >= 0).sum()):,} nodes of type {self.target!r} with a label have "
                f"the class {whole.classes[0]!r}; at least two classes are needed."
            )
        return collection

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of features, in order; none where they are made of what a client holds."""
        return self.features if self.features is not None else self.read().feature_names

    def questions(
        self, task: Any, tables: Mapping[str, pd.DataFrame], own: Mapping[str, Given]
    ) -> dict[str, pd.DataFrame]:
        """Return nodes and edges by the usual names of columns, and a table "features" with the names of features."""
        usual = {
            "nodes": {self.node: "node", self.client: "client"},
            "edges": dict(zip(self.ends, ("source", "target"), strict=True)),
        }
        asked, names = renamed(tables, usual), self.feature_names
        if "edges" in asked and (reader := self.edge_reader()):
            asked["edges"] = asked_links(asked["edges"], ASKED_CARRIED, self.names(), reader)
        if "nodes" in asked:
            asked["nodes"] = self.asked_features(asked["nodes"], names, f"{OWNER}.nodes")
        return {**asked, "features": pd.DataFrame({"name": list(self.made.names(names))}, dtype=object)}

    def edges_of_clients(self, collection: Collection[shards.TypedGraph], seed: int) -> list[CarriedRows]:
        """Return the rows of the edges that each client holds."""
        parts, edges = collection.parts, collection.edges
        if not parts:
            owner, clients = self.owners(collection, seed)
            names = [str(client) for client in range(clients)]
            parts = tuple(induced_parts(collection.whole, owner, names, self.dealt_by.others, seed))
        return [edges.take(part.carried.number) for part in parts if part.carried is not None]

    def with_edges(self, collection: Collection[shards.TypedGraph]) -> Collection[shards.TypedGraph]:
        """Return the collection with what its edges carry."""
        if collection.edges is None:
            return collection
        values = self.values_of(collection.edges)
        parts = tuple(part.carrying(values) for part in collection.parts)
        return replace(collection, whole=collection.whole.carrying(values), parts=parts, edges=None)

    def feature_columns(self, task: Any, shard: Any) -> tuple[str, ...]:
        """Return the columns of target nodes that features are made of, in order."""
        return self.feature_names

    def labels_by_client(self, collection: Collection[shards.TypedGraph], seed: int) -> list[tuple[Array, Array]]:
        """Return the classes, int64 [nodes], and the split of each client's target nodes."""
        return self._dealing().labels_by_client(collection, seed, self.split_seed_of(seed))

    def alike_of(self, collection: Collection[shards.TypedGraph]) -> dict[str, Tree]:
        """Return the metapaths, and the width of features that are made of what a client holds."""
        whole = collection.whole
        width = {} if collection.columns.names else {"features": structural_width(whole)}
        return {"metapaths": list(whole.metapaths), **width}

    def collection_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose) -> Collection[shards.TypedGraph]:
        """Return one client's nodes of all types and the edges between them, split, with columns."""
        collection = self._own(task, tables, purpose)
        return replace(collection, whole=self._split_at_site(collection, purpose))

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> shards.TypedGraph:
        """Read one client's nodes of all types and the edges between them."""
        check_said(self.features, task.class_names)
        collection = self.encoded(self._own(task, tables, purpose))
        tell(collection.notes)
        return with_features(self._split_at_site(collection, purpose))

    def _split_at_site(self, collection: Collection[shards.TypedGraph], purpose: Purpose) -> shards.TypedGraph:
        part = replace(collection.whole, name=purpose.name)
        return self._dealing().split_site(part, collection.split, self.split_seed_of(purpose.seed))

    def _own(self, task: Any, tables: Mapping[str, Given], purpose: Purpose) -> Collection[shards.TypedGraph]:
        if "edges" not in tables:
            raise InputError(
                "--data edges=FILE is missing: the edges between these nodes, with the types of both ends."
            )
        columns = partial(self.read_columns, owner="data")
        known = self.target, self.form("--data"), self.metapaths or task.metapaths, task.class_names, columns
        collection = read_typed_graph(tables["nodes"], tables["edges"], *known)
        check_one_client(collection.client_names, f"column {self.client!r} of {collection.whole.name}", purpose.name)
        return collection

    def form(self, owner: str) -> GraphForm:
        """Return how tables are read."""
        return GraphForm(owner, self.names(), na_labels=self.unknowns, reader=self.edge_reader())

    def _dealing(self) -> TypedDealing:
        return self.dealt_by.dealing("TypedGraph", self.clients or SHARES)

    def _check_given(self, option: str, given: Any) -> None:
        """Raise `InputError` for what is no table, and no PyG object."""
        example = "paper" if option == "nodes" else "paper-author"
        if isinstance(given, str) and given.startswith("{"):  # an override that is no TOML stays text
            raise InputError(
                f"TypedGraph.{option} cannot be read: {given}; names of files need quotes, such as "
                f'{{{example}="{example}.csv"}}, and the shell quotes around it all.'
            )
        if isinstance(given, Mapping):
            if not given:
                raise InputError(f"TypedGraph.{option} must hold a table, such as {{{example!r}: a file}}; got none.")
            for name, table in given.items():
                if not isinstance(table, str | Path | pd.DataFrame):
                    raise InputError(
                        f"TypedGraph.{option}[{name!r}] must be a .csv or .parquet file or a DataFrame; got "
                        f"{type(table).__name__}."
                    )
        elif not isinstance(given, str | Path | pd.DataFrame) and not hasattr(given, "edge_types"):
            raise InputError(
                f"TypedGraph.{option} must be {{type: a .csv or .parquet file or a DataFrame}}, one of all {option}, "
                f"or for nodes a torch_geometric.data.HeteroData or the path of one; got {type(given).__name__}."
            )

    @staticmethod
    def _in_memory(given: Any) -> bool:
        tables = given.values() if isinstance(given, Mapping) else [given]
        return any(isinstance(table, pd.DataFrame) for table in tables)
