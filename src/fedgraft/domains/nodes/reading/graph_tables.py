"""What data sets of own tables of nodes and of edges have in common: whose nodes are, and which edges join clients."""

from collections.abc import Collection as Collection_
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import pandas as pd

from fedgraft.contracts.abilities.matching import MatchedData
from fedgraft.contracts.data import Purpose
from fedgraft.contracts.ranges import NonNegativeInt
from fedgraft.contracts.task import Shard
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.boundary_columns import Boundaries, BoundaryOptions
from fedgraft.domains.edge_data.edge_columns import LabelReader
from fedgraft.domains.edge_data.graph_form import GraphForm, OwnFeatures
from fedgraft.domains.edge_data.scaled_tables import ScaledTables
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.client_tables import own_nodes, site_boundary, site_part
from fedgraft.domains.nodes.reading.tables import (
    EDGES,
    NODES,
    OWN_EDGES,
    OWN_NODES,
    OWN_TABLES,
    feature_names,
    named_features,
)
from fedgraft.domains.tables.columns import Columns, check_present
from fedgraft.domains.tables.own_tables import OwnTables
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.schema import Names, Table
from fedgraft.errors import InputError
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Arrays

SHARES: Final = 10
"""Clients, unless given or named by the data; as many as a single set of graphs is dealt to."""


@dataclass(frozen=True)
class GraphTables(ScaledTables[Shard], OwnTables[Shard], MatchedData[Shard]):
    """Ability of data sets of own tables: nodes and the edges between them, of one client or of several.

    Args:
        nodes: path of a .csv or .parquet file, or a DataFrame, one row per node; or a folder of such files, each a
            client named after it.
        edges: the same for edges, where a folder's files are read as one.
        node: column of `nodes`, an id that is unique over all clients.
        client: column of `nodes`; where there is none, nodes are whose `source_client` and `target_client` say they
            are, or are dealt to `clients`.
        features: columns of `nodes` with numbers or texts; None (default) = all others.
        source: column of `edges`, a node's id.
        target: column of `edges`, likewise.
        clients: over how many nodes are dealt that name no client; 0 (default) = as many as the data name, or 10.
    """

    own_tables: ClassVar[tuple[str, ...]] = OWN_TABLES
    site_tables: ClassVar[tuple[str, ...]] = ("nodes", "edges")
    schemas: ClassVar[tuple[Table, ...]] = (NODES, EDGES)

    nodes: str | Path | pd.DataFrame | Any
    edges: str | Path | pd.DataFrame | None = None
    node: str = "node"
    client: str = "client"
    features: tuple[str, ...] | None = None
    source: str = "source"
    target: str = "target"
    boundary: BoundaryOptions = field(default=BoundaryOptions(), kw_only=True)
    clients: NonNegativeInt = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        self.boundary.check(owner)
        for table in self.schemas:
            table.check(owner, self.names())

    def names(self, **renamed: Any) -> Names:
        """Return {role: name} of the columns of all tables."""
        return super().names(**{"edge_features": self.edge_names, **self.boundary.names, **renamed})

    @property
    def matches(self) -> bool:
        """Whether ids at boundaries are matched."""
        return bool(self._boundaries)

    @property
    def is_private(self) -> bool:
        """Whether by private set intersection."""
        return self.boundary.match == "psi"

    @property
    def matching(self) -> Mapping[int, tuple[int, int]]:
        """What that takes, {client: (bytes down, bytes up)}."""
        return self.collection.matching

    @property
    def _boundaries(self) -> Boundaries:
        """How edges between clients are known."""
        return self.boundary.boundaries(type(self).__name__)

    def claims_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose, secret: bytes) -> Arrays:
        """Return what a site tells of its edges to others."""
        return site_boundary(tables, self.form("data"), purpose).claims(secret)

    def elsewhere_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose) -> pd.DataFrame:
        """Return the nodes of others to which a site's edges were joined."""
        if purpose.neighbours is None or not purpose.neighbours.addresses:
            return super().elsewhere_at(task, tables, purpose)
        addresses = purpose.neighbours.addresses
        joined = addresses["owner"] >= 0
        columns = {name: addresses[name][joined] for name in ("owner", "place")}
        others = site_boundary(tables, self.form("data"), purpose).others[joined]
        return pd.DataFrame({**columns, "node": others}).drop_duplicates(ignore_index=True)

    def form(self, owner: str, task: Any = None) -> GraphForm:
        """Return how tables are read; those of one client with the classes of a task."""
        reader = self.edge_reader(self.label_reader(task))
        return GraphForm(
            owner, self.names(), False, (), reader, self._boundaries, self.is_private, self.boundary.sharing
        )

    def label_reader(self, task: Any) -> LabelReader | None:
        """Return what reads labels of edges, by the classes of a task; None = there are none."""
        return None

    def node_classes(self, task: Any) -> tuple[str, ...]:
        """Return the classes of nodes; () where they have none."""
        return ()

    def feature_columns(self, task: Any, shard: Any) -> tuple[str, ...]:
        """Return the columns of nodes that features are made of, in order."""
        return self.feature_names(task, None)

    def feature_names(self, task: Any, own: Given | None) -> tuple[str, ...]:
        """Return the same; `own` is a client's own table of nodes, None = the run's."""
        return named_features(task, self.nodes, self.names(), own, self.made.names)

    def collection_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose) -> Collection[NodeShard]:
        """Return one client's nodes and the edges at them, split, with columns."""
        return self._at_site(task, tables, purpose, self._own_columns)

    def part_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose) -> Collection[NodeShard]:
        """Return the same with features as a model knows them; what edges carry is still apart."""
        names = (self.features or ()) if purpose.trains else self.feature_names(task, tables[OWN_NODES])
        features = partial(self.own_features, names=names, is_sparse=task.sparse)
        if purpose.trains:
            part = self._at_site(task, tables, purpose, features)
        else:
            part = own_nodes(task, tables, self.form("data", task), features, check=self.edges is not None)
        return replace(part, whole=replace(part.whole, scale_rows=self.scale_rows))

    def _at_site(
        self, task: Any, tables: Mapping[str, Given], purpose: Purpose, features: OwnFeatures
    ) -> Collection[NodeShard]:
        if "edges" not in tables:
            raise InputError(
                "--data edges=FILE is missing: the edges between these nodes; a table without rows for none."
            )
        form = self.form("data", task)
        return self.split_at(site_part(tables, form, self.node_classes(task), features, purpose), purpose)

    def split_at(self, part: Collection[NodeShard], purpose: Purpose) -> Collection[NodeShard]:
        """Return one client's part with the split of its nodes; where these have no label there is none."""
        return part

    def _own_columns(self, rows: Rows, others: Collection_[str]) -> Columns:
        names = feature_names(rows, "data")
        check_present(rows, names, "a feature of the recipe", others)
        return self.read_columns(rows, names, "data")

    @staticmethod
    def check_width(task: Any, shard: NodeShard) -> None:
        """Raise `InputError` for edges that carry more or fewer numbers than the model was trained on."""
        if (width := getattr(task, "edge_features", shard.edge_width)) != shard.edge_width:
            raise InputError(
                f"--{OWN_EDGES}: edges carry {shard.edge_width} numbers, but the model was trained on {width}; "
                "a run that names their columns in data.edge_features finds them among others."
            )
