"""Answers bettered after training, over the edges between clients too: the ability of a task that does so."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts.task import Prepared, Shard
from fedgraft.contracts.values import Indices, Sums
from fedgraft.wire.layouts import Arrays, Layout

STEPS: Final = 127
"""Steps from 0 to 1 in which a number of a row travels: one byte, with its sign."""


@dataclass(frozen=True, eq=False)
class Boundary:
    """A client's edges to nodes of others.

    Args:
        own: how many nodes it has.
        nodes: int64 [b], its nodes with a neighbour elsewhere, ascending; their order is that of its rows.
        counts: int64 [b], how many neighbours elsewhere each has, >= 1.
        owner: int64 [edges], whose these are; those of one node together, by owner, then place.
        place: int64 [edges], which of the owner's nodes.
        weight: float32 [edges], how much each counts, finite and > 0; None for 1.
    """

    own: int
    nodes: Indices
    counts: Indices
    owner: Indices
    place: Indices
    weight: NDArray[np.float32] | None = None

    @classmethod
    def nobodys(cls, own: int) -> "Boundary":
        """Return that of a client of so many nodes, none of which has a neighbour elsewhere."""
        none = np.zeros(0, np.int64)
        return cls(own, none, none, none, none)

    @property
    def totals(self) -> NDArray[np.float32]:
        """float32 [b], how much the neighbours elsewhere of each node count together."""
        if self.weight is None:
            return self.counts.astype(np.float32)
        row = np.repeat(np.arange(len(self.nodes)), self.counts)
        return np.bincount(row, self.weight, minlength=len(self.nodes)).astype(np.float32)


class Means(NamedTuple):
    """The answer of the server after a hop.

    Args:
        rows: float32 [b, width], for each boundary node the mean row of its neighbours elsewhere; 0 if not known.
        known: bool [b], whether a neighbour elsewhere has told its row.
    """

    rows: NDArray[np.float32]
    known: NDArray[np.bool_]


class SmoothingTask(ABC, Generic[Shard, Prepared]):
    """Ability: better a trained model's answers, such as by smoothing them over the graph, hop by hop.

    In a hop each client tells a row for each node of its boundary, and gets the mean row of that node's neighbours
    elsewhere. What a row holds lies in [-1, 1]; it travels in one byte a number. Where boundaries have no node, clients
    only choose a way to answer together.
    """

    @property
    @abstractmethod
    def hops(self) -> int:
        """Number of hops; 0 where answers are left alone."""

    @property
    @abstractmethod
    def row_width(self) -> int:
        """Numbers in a row."""

    @property
    def row_tells(self) -> frozenset[str]:
        """What a row tells of its node, by words of `contracts.capabilities`."""
        return frozenset({"answers"} if self.row_width else ())

    @property
    @abstractmethod
    def choices(self) -> int:
        """How many ways to answer there are to choose from, by validation; the first is to leave answers alone."""

    def choice_text(self, choice: int) -> str:
        """Return a way to answer in words; "" where answers are left alone, and where there are none."""
        return ""

    @abstractmethod
    def boundary(self, data: Prepared) -> Boundary:
        """Return a client's edges to nodes of others."""

    @property
    def sums_layout(self) -> Layout:
        """Layout of the sums by which a layer is fitted to what is known after all hops; empty where none is."""
        return Layout(())

    @property
    def layer_layout(self) -> Layout:
        """Layout of that layer."""
        return Layout(())

    @abstractmethod
    def answers(self, model: torch.nn.Module, data: Prepared) -> NDArray[np.float32]:
        """Return what the model says of all own nodes, [own, classes or more]; called without gradient recording."""

    @abstractmethod
    def told(self, data: Prepared, answers: NDArray[np.float32], means: Sequence[Means]) -> NDArray[np.float32]:
        """Return the rows of the boundary after `len(means)` hops, float32 [b, row_width], in [-1, 1]."""

    def hop_sums(self, data: Prepared, answers: NDArray[np.float32], means: Sequence[Means]) -> Arrays:
        """Return sums over training nodes, of `sums_layout`."""
        return {}

    def hop_layer(self, sums: Sequence[Arrays]) -> Arrays:
        """Return the layer that all clients' sums determine, of `layer_layout`; at the server."""
        return {}

    @abstractmethod
    def tallies(
        self, data: Prepared, answers: NDArray[np.float32], means: Sequence[Means], layer: Arrays
    ) -> NDArray[np.uint32]:
        """Return how many validation nodes each choice gains and loses beside the first one, [choices, 2]."""

    @abstractmethod
    def evaluate_smoothed(
        self, data: Prepared, answers: NDArray[np.float32], means: Sequence[Means], layer: Arrays, choice: int
    ) -> dict[str, Sums]:
        """Return sums as `evaluate`, of the answers as a choice smooths them."""


def coded(rows: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return rows as they travel and are kept: the nearest step of each number; beyond [-1, 1] the end."""
    return np.rint(np.clip(rows, -1, 1) * STEPS).astype(np.int8)


def decoded(rows: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return the rows that `coded` made of others, float32."""
    return rows.astype(np.float32) / np.float32(STEPS)


def means_in(remembered: Mapping[str, Any]) -> list[Means]:
    """Return the means of every hop so far that a client remembers: "rows", int8 [b, width], and "known", bits.

    Where rows are larger than 1, the rows that travel are their product with "scale".
    """
    scale = np.float32(remembered.get("scale", 1.0))
    return [
        Means(decoded(rows) / scale, np.unpackbits(known, count=len(rows)).view(bool))
        for rows, known in zip(remembered["rows"], remembered["known"], strict=True)
    ]
