"""Your own graph whose nodes have a class or a number each, from CSV or Parquet files, DataFrames or a PyG object."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd

from fedgraft.contracts import ANSWER, PositiveFloat, Purpose
from fedgraft.domains.dealing import Collection, Fold
from fedgraft.domains.edge_data.edge_columns import asked_carried
from fedgraft.domains.edge_data.graph_form import GraphForm
from fedgraft.domains.nodes.base.partitions import NodeDealing
from fedgraft.domains.nodes.base.shards import NodeShard, WholeGraph
from fedgraft.domains.nodes.reading.client_tables import numbered
from fedgraft.domains.nodes.reading.graph_files import is_graph_file, tables_of_file
from fedgraft.domains.nodes.reading.graph_tables import SHARES, GraphTables
from fedgraft.domains.nodes.reading.pyg_objects import collection_of, joined, tables_of
from fedgraft.domains.nodes.reading.tables import ASKED, OWN_NODES, named_features, read_nodes
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.own_tables import LabelOptions, RepeatedEdges, SplitOptions
from fedgraft.domains.tables.pyg_objects import MASKS, SUFFIX, read_object, table_of_edges
from fedgraft.domains.tables.reader import OWNER
from fedgraft.domains.tables.schema import Table, check_said
from fedgraft.errors import InputError
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Array


@dataclass(frozen=True)
class Nodes(LabelOptions, SplitOptions[NodeShard], GraphTables[NodeShard]):
    """Own graph whose nodes have a class or a number each: tables of nodes and edges, or a PyG object.

    Source: none. Differs: nodes are split by the hash of their ids, so that each keeps its split as the graph grows;
        not by class, as published sets are. Of a PyG object the id of a node is its position.
    Ids and classes are kept as text ("007" stays "007"), whole numbers as such ("1.0" is "1"), in their order.
    Edges are undirected, listed one way or both, by one client or both, and carry nothing, unless `edge_features`,
    `weight`, `time`, `directed` or `duplicate_edges` say otherwise; then each row is an edge. A node may have none. At
    a site: `nodes` and `edges` of its own, where edges to nodes elsewhere are left out unless `target_client` or
    `source_client` is given; sites agree on columns of features and on classes. With either of these several
    clients may have nodes of one id.

    Args:
        nodes: path of a .csv or .parquet file, or a DataFrame, one row per node; or a folder of such files, each a
            client named after it. Or a PyG `Data` object (x, y with -1 for unknown, edge_index, and optionally `client`
            of each node, train_mask, val_mask and test_mask), or the path of a .pt file that `torch.save` wrote it to,
            or {client: `Data` object}, without edges between clients; what its edges carry are edge_attr, columns "0",
            "1" ..., and the attributes that `weight` and `time` name. Or a file of a whole graph: .graphml, .gexf,
            .gml, .net (Pajek), .edgelist or .adjlist, read by networkx.
        edges: the same for edges, where a folder's files are read as one; not with a PyG object or a file of both.
        label: column of `nodes`, the class, text or a whole number, or the number; empty where it is unknown. "" = none
            is read, for the task `link`; nor are a column "label", `split`, y and masks.
        split: column of `nodes`, "train", "validation", "test" or empty; where there is none, 64:16:20 by `split_seed`.
        partition: how they are: "iid", "dirichlet" or "louvain", as of the data set `pyg_nodes`.
        alpha: of "dirichlet", > 0.
        fold: which of five folds is the test set where the data name no split, 0..4.
        labels: "classes", for the task `node`, or "numbers" (y of a PyG object: nan for unknown), for
            `node_regression`, which sets it.
    """

    task: ClassVar[str] = "node"
    other_tasks: ClassVar[Mapping[str, Mapping[str, Any]]] = {"node_regression": {"labels": "numbers"}}
    asked: ClassVar[tuple[Table, ...]] = ASKED

    edge_columns: RepeatedEdges = field(default=RepeatedEdges(), kw_only=True)
    label: str = "label"
    split: str = "split"
    partition: Literal["iid", "dirichlet", "louvain"] = "iid"
    alpha: PositiveFloat = 0.5
    fold: Fold = 0
    labels: Literal["classes", "numbers"] = "classes"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.matches and (self._is_object() or is_graph_file(self.nodes)):
            raise InputError(
                "Nodes.source_client and Nodes.target_client must be left out where edges are in no table."
            )
        if self._is_object():
            if not isinstance(self.nodes, str | Path | Mapping) and not hasattr(self.nodes, "edge_index"):
                raise InputError(
                    "Nodes.nodes must be the path of a .csv, .parquet or .pt file or of a folder, a DataFrame, a "
                    f"torch_geometric.data.Data or one for each client; got {type(self.nodes).__name__}."
                )
            if self.edges is not None:
                raise InputError("Nodes.edges must be left out where Nodes.nodes is a PyG object.")
        elif is_graph_file(self.nodes):
            if self.edges is not None:
                raise InputError(f"Nodes.edges must be left out: {self.nodes} holds nodes and edges.")
        elif self.edges is None:
            raise InputError("Nodes.edges must be given: a .csv or .parquet file, a folder of them, or a DataFrame.")

    @classmethod
    def options_from(cls, given: object) -> dict[str, Any] | None:
        """Take a PyG object with one row of x per label, or one for each client; a graph's file; options with nodes."""
        if is_graph_file(given):
            return {"nodes": given}
        if isinstance(given, Mapping) and "nodes" in given and not {"graphs", "target"} & given.keys():
            return dict(given)
        objects = list(given.values()) if isinstance(given, Mapping) else [given]
        return {"nodes": given} if objects and all(hasattr(each, "edge_index") for each in objects) else None

    def dealt(self, collection: Collection[WholeGraph], seed: int) -> list[NodeShard]:
        """Return one shard per client of what was read, with features."""
        split_seed = self.split_seed_of(seed) if self.label else None
        return self._dealing().load(collection, seed, self.clients, split_seed)

    def owners(self, collection: Collection[WholeGraph], seed: int) -> tuple[Array, int]:
        """Return the number of each node's client, [nodes], and how many clients there are."""
        return self._dealing().owners(collection, seed)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return DataFrames, with the columns that are named or features; PyG objects as tables that say the same."""
        if self._is_object() and not isinstance(self.nodes, str | Path):
            collection = self.read()
            tell(collection.notes)  # of what is in no table
            names = self.names(label=self.label or Nodes.label)
            tables = tables_of(collection, names)
            return {**tables, "edges": table_of_edges(*self._object(), names)} if self.edge_columns.carries else tables
        return super().tables()

    def read(self) -> Collection[WholeGraph]:
        """Read the graph, before it is dealt to clients."""
        if self.edges is not None or is_graph_file(self.nodes):
            nodes, edges = self.nodes, self.edges
            if edges is None:
                nodes, edges = tables_of_file(Path(str(nodes)), self.names())
            return read_nodes(nodes, edges, self.form("Nodes"), partial(self.read_columns, owner="Nodes"))
        collection = collection_of(*self._object(), self.form("Nodes"))
        empty = [mask for part, mask in enumerate(MASKS) if not (collection.whole.split == part).any()]
        if collection.split and empty:
            raise InputError(f"{collection.whole.name}: {empty[0]} marks no node; one is needed.")
        return collection

    def questions(
        self, task: Any, tables: Mapping[str, pd.DataFrame], own: Mapping[str, Given]
    ) -> dict[str, pd.DataFrame]:
        """Return nodes and edges by the usual names of columns, and a table "features" with the names of features."""
        names = self.feature_names(task, own.get(OWN_NODES))
        asked = super().questions(task, tables, own)
        if "nodes" in asked:
            asked["nodes"] = self.asked_features(asked["nodes"], names, f"{OWNER}.nodes")
        if "edges" in asked and (reader := self.edge_reader()):
            asked["edges"] = asked_carried(asked["edges"], self.names(), reader)
        return {**asked, "features": pd.DataFrame({"name": self.made.names(names)})}

    def labels_by_client(self, collection: Collection[WholeGraph], seed: int) -> list[tuple[Array, Array]]:
        """Return the classes, int64 [nodes], and the split of each client's nodes."""
        return self._dealing().labels_by_client(collection, seed, self.split_seed_of(seed))

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> NodeShard:
        """Read one client's nodes and the edges between them, with the columns of the run's tables."""
        if purpose.trains:
            check_said(self.features, None if self._are_numbers or not self.label else task.class_names)
        shard: NodeShard = self.with_edges(self.part_at(task, tables, purpose)).whole
        if not purpose.trains:
            self.check_width(task, shard)
        return shard

    def split_at(self, part: Collection[NodeShard], purpose: Purpose) -> Collection[NodeShard]:
        """Return one client's part with the split of its nodes."""
        if not self.label:
            return part
        whole = self._dealing().split_site(part.whole, part.split, self.split_seed_of(purpose.seed))
        return replace(part, whole=whole)

    def form(self, owner: str, task: Any = None) -> GraphForm:
        """Return how tables are read."""
        return replace(super().form(owner, task), are_numbers=self._are_numbers, na_labels=self.unknowns)

    def node_classes(self, task: Any) -> tuple[str, ...]:
        """Return the classes of nodes; () where they have none."""
        return () if self._are_numbers or not self.label else tuple(task.class_names)

    @property
    def _are_numbers(self) -> bool:
        return self.labels == "numbers"

    def feature_names(self, task: Any, own: Given | None) -> tuple[str, ...]:
        """Return columns of features in order; a PyG object has numbers alone."""
        names = self.names()
        if is_graph_file(self.nodes) and Path(self.nodes).is_file():
            nodes, _ = tables_of_file(Path(self.nodes), names)
            return named_features(task, nodes, names, own, self.made.names)
        if self.edges is None:
            return numbered(task.features - self.made.added)
        return super().feature_names(task, own)

    def _object(self) -> tuple[Any, str]:
        """The PyG object, and what errors call it."""
        data, where = self.nodes, "Nodes.nodes"
        if isinstance(data, str | Path):
            return read_object(Path(data), where, "Data"), str(data)
        return joined(data, where, self.names()) if isinstance(data, Mapping) else data, where

    def _is_object(self) -> bool:
        if isinstance(self.nodes, str | Path):
            return Path(self.nodes).suffix == SUFFIX
        return not isinstance(self.nodes, pd.DataFrame)

    def _dealing(self) -> NodeDealing:
        return NodeDealing("Nodes", self.clients or SHARES, self.partition, self.alpha, fold=self.fold)
