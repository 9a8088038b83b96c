"""How a user's tables of nodes and of edges are read, as one value that all readers of them take."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fedgraft.domains.edge_data.boundary_columns import Boundaries, Sharing
from fedgraft.domains.edge_data.edge_columns import Carried, EdgeReader
from fedgraft.domains.examples import Features
from fedgraft.domains.labels.known import numbers_hint
from fedgraft.domains.tables.columns import Columns
from fedgraft.domains.tables.labels import read_labels
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.schema import Names
from fedgraft.wire.layouts import Array

OwnFeatures: TypeAlias = "Callable[[Rows, Collection[str]], Features | Columns]"
"""What makes features of rows, float32 [rows, features], or columns, by the names of columns that are none."""


@dataclass(frozen=True)
class GraphForm:
    """How a user's tables of nodes and of edges are read.

    Args:
        owner: what errors call the options: "Nodes" for Nodes.label ...; "data" at a site.
        names: of the columns.
        are_numbers: whether labels are numbers, not classes.
        na_labels: labels that are as empty.
        reader: how edges are read that carry something; None = they carry nothing.
        boundaries: how edges between clients are known; with these clients may have ids alike.
        is_private: whether sites match ids by private set intersection, which joins the same and takes more.
        sharing: how it is known which nodes several clients have.
    """

    owner: str
    names: Names
    are_numbers: bool = False
    na_labels: Sequence[str] = ()
    reader: EdgeReader | None = None
    boundaries: Boundaries = ""
    is_private: bool = False
    sharing: Sharing = ""

    def carried(self, links: Rows) -> Carried | None:
        """Return how rows of edges are read and what they carry; None where they carry nothing."""
        return (self.reader, self.reader.read(links, self.owner)) if self.reader else None

    def labels(self, rows: Rows, classes: tuple[str, ...] | None = None) -> tuple[Array, tuple[str, ...]]:
        """Return the label of each node and the names of classes, as `read_labels`; none where no label is read."""
        if not self.names["label"]:
            return np.full(len(rows), -1, np.int64), ()
        return read_labels(rows["label"], classes, self.na_labels, self.are_numbers, numbers_hint("node"))
