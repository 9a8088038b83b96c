"""What data sets of own tables of nodes and of edges have in common: whose nodes are, and which edges join clients."""

from collections.abc import Callable, Mapping
from collections.abc import Collection as Collection_
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pandas as pd

from fedgraft.contracts.abilities.matching import MatchedData
from fedgraft.contracts.data import Purpose
from fedgraft.contracts.ranges import NonNegativeInt
from fedgraft.contracts.task import Shard
from fedgraft.domains.edge_data.border_columns import AUTO, SIDES, Borders, borders_of
from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeReader
from fedgraft.domains.edge_data.scaled_edges import ScaledEdges
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading import tables as reading
from fedgraft.domains.nodes.reading.borders import Border
from fedgraft.domains.nodes.reading.copies import SHARED_WITH, Sharing, sharing_of
from fedgraft.domains.nodes.reading.site_tables import site_border
from fedgraft.domains.tables.columns import Columns
from fedgraft.domains.tables.features import check_present
from fedgraft.domains.tables.own_tables import OwnTables
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.schema import Names, Table
from fedgraft.errors import InputError
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Array, Arrays

SHARES: Final = 10
"""Clients, unless given or named by the data; as many as a single set of graphs is dealt to."""


@dataclass(frozen=True)
class GraphTables(ScaledEdges[Shard], OwnTables[Shard], MatchedData[Shard]):
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
        source_client: column of `edges`, the name of the client whose node the source is, empty for the one whose table
            it is; or "auto": whoever has the id. "" (default) = as `target_client` says.
        target_client: the same of the target. With neither (default) edges at sites are inside clients. With one of
            them an edge between clients counts where both list it, and is else left out, with a note.
        match: how sites then match ids, which the server learns in neither way: "hashes" (default), keyed by a secret
            of all sites, by which who has it and the hashes can try ids; or "psi", private set intersection, in which
            nobody can try ids by himself, for more bytes. Both join the same edges.
        clients: over how many nodes are dealt that name no client; 0 (default) = as many as the data name, or 10.
        shared_with: column of `nodes`, names of other clients that have a node, too, with ";" between them; or "auto":
            all that have its id. Each keeps its own copy, with its own features and label, and an edge joins every two
            copies of which both say so. "" (default) = nodes of one id are different ones. Needs `source_client` or
            `target_client`.
    """

    own_tables: ClassVar[tuple[str, ...]] = reading.OWN_TABLES
    site_tables: ClassVar[tuple[str, ...]] = ("nodes", "edges")
    schemas: ClassVar[tuple[Table, ...]] = (reading.NODES, reading.EDGES)

    nodes: str | Path | pd.DataFrame | Any
    edges: str | Path | pd.DataFrame | None = None
    node: str = "node"
    client: str = "client"
    features: tuple[str, ...] | None = None
    source: str = "source"
    target: str = "target"
    source_client: str = ""
    target_client: str = ""
    match: Literal["hashes", "psi"] = "hashes"
    clients: NonNegativeInt = 0
    shared_with: str = ""

    def check_tables(self) -> None:
        """Raise `InputError` for options that cannot be."""
        owner = type(self).__name__
        if self.is_private and not self.matches:
            raise InputError(
                f"{owner}.match = 'psi' needs {owner}.source_client or {owner}.target_client, which match ids."
            )
        if self.shared_with and not self.matches:
            raise InputError(
                f"{owner}.shared_with = {self.shared_with!r} needs {owner}.source_client or {owner}.target_client, "
                "which say whose the ends of edges are."
            )
        for table in self.schemas:
            table.check(owner, self.names())

    def names(self, **renamed: Any) -> Names:
        """Return {role: name} of the columns of all tables; ids that are looked for have no column of clients."""
        sides = {role: "" if getattr(self, role) == AUTO else getattr(self, role) for role in SIDES}
        sides[SHARED_WITH] = "" if self.shared_with == AUTO else self.shared_with
        return super().names(**{"edge_features": self.edge_names, **sides, **renamed})

    @property
    def by_ids(self) -> bool:
        """Whether nodes are in the order of their ids."""
        return True

    @property
    def borders(self) -> Borders:
        """How edges between clients are known."""
        return borders_of(type(self).__name__, self.source_client, self.target_client)

    @property
    def sharing(self) -> Sharing:
        """How it is known which nodes several clients have."""
        return sharing_of(self.shared_with)

    @property
    def matches(self) -> bool:
        """Whether ids at borders are matched."""
        return bool(self.borders)

    @property
    def is_private(self) -> bool:
        """Whether by private set intersection."""
        return self.match == "psi"

    @property
    def matching(self) -> Mapping[int, tuple[int, int]]:
        """What that takes, {client: (bytes down, bytes up)}."""
        return self.collection.matching

    def claims_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose, secret: bytes) -> Arrays:
        """Return what a site tells of its edges to others."""
        return self._border_at(tables, purpose).claims(secret)

    def elsewhere_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose) -> pd.DataFrame:
        """Return the nodes of others to which a site's edges were joined."""
        if purpose.neighbours is None or not purpose.neighbours.addresses:
            return super().elsewhere_at(task, tables, purpose)
        addresses = purpose.neighbours.addresses
        joined = addresses["owner"] >= 0
        columns = {name: addresses[name][joined] for name in ("owner", "place")}
        others = self._border_at(tables, purpose).others[joined]
        return pd.DataFrame({**columns, "node": others}).drop_duplicates(ignore_index=True)

    def _border_at(self, tables: Mapping[str, Given], purpose: Purpose) -> Border:
        """The edges of a site's nodes to those of others."""
        self.check_edges_given(tables)
        form = self.borders, self.by_ids, self.edge_reader(), self.sharing
        return site_border(tables["nodes"], tables["edges"], self.names(), purpose, *form)

    def feature_columns(self, task: Any, shard: Any) -> tuple[str, ...]:
        """Return the columns of nodes that features are made of, in order."""
        return self.feature_names(task, None)

    def feature_names(self, task: Any, own: Given | None) -> tuple[str, ...]:
        """Return the same; `own` is a client's own table of nodes, None = the run's."""
        return reading.named_features(task, self.nodes, self.names(), own, self.made.names)

    def read_later(
        self, read: Callable[[reading.OwnFeatures, EdgeReader | None], NodeShard]
    ) -> tuple[NodeShard, Columns, CarriedRows | None]:
        """Return what `read` makes of a site's tables, with features and edges' columns apart, as they were read.

        It takes what makes features, and how edges are read, which find none here until clients agree on them.
        """
        columns: list[Columns] = []
        carried: list[CarriedRows] = []

        def features(rows: Rows, others: Collection_[str]) -> Array:
            names = reading.feature_names(rows, "data")
            check_present(rows, names, "a feature of the recipe", others)
            columns.append(self.read_columns(rows, names, "data"))
            return np.zeros((len(rows), 0), np.float32)

        def make(rows: CarriedRows) -> Array:
            carried.append(rows)
            return np.zeros((len(rows), 0), np.float32)

        shard = read(features, self.edge_reader(make))
        return shard, columns[0], carried[0] if carried else None

    @staticmethod
    def check_width(task: Any, shard: NodeShard) -> None:
        """Raise `InputError` for edges that carry more or fewer numbers than the model was trained on."""
        if (width := getattr(task, "edge_features", shard.edge_width)) != shard.edge_width:
            raise InputError(
                f"--{reading.OWN_EDGES}: edges carry {shard.edge_width} numbers, but the model was trained on {width}; "
                "a run that names their columns in data.edge_features finds them among others."
            )

    @staticmethod
    def check_edges_given(tables: Mapping[str, Given]) -> None:
        """Raise `InputError` where a site has no table of edges."""
        if "edges" not in tables:
            raise InputError(
                "--data edges=FILE is missing: the edges between these nodes; a table without rows for none."
            )
