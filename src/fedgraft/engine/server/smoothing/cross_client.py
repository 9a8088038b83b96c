"""Boundaries of all clients, joined: which rows of nodes the mean of each row's neighbours elsewhere is of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.abilities.smoothing import Boundary
from fedgraft.contracts.values import Indices
from fedgraft.engine.privacy.halo_sums import MOST_COUNT
from fedgraft.wire.layouts import Array

Doubles: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CrossClientEdges:
    """All boundaries, joined.

    Args:
        own: int64 [clients], how many nodes each has; 0 for one that has not told.
        sizes: int64 [clients], how many of them are in its boundary.
        pointers: int64 [rows + 1], of a CSR of edges between rows; rows are nodes of boundaries, client by client.
        senders: int64 [edges], its columns; every edge both ways.
        weights: float64 [edges], as its receiver says; none where nobody tells weights, and all edges count alike.
    """

    own: Indices
    sizes: Indices
    pointers: Indices
    senders: Indices
    weights: Doubles = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, boundaries: Mapping[int, Boundary], clients: int) -> "CrossClientEdges":
        """Join the boundaries of {client: boundary}; there may be none."""
        own, sizes = np.zeros(clients, np.int64), np.zeros(clients, np.int64)
        if not boundaries:
            return cls(own, sizes, np.zeros(1, np.int64), np.zeros(0, np.int64))
        for client, boundary in boundaries.items():
            own[client], sizes[client] = boundary.own, len(boundary.nodes)
        first, rows = np.cumsum(own) - own, int(sizes.sum())
        in_order = [boundary for _, boundary in sorted(boundaries.items())]
        nodes = np.concatenate([first[client] + boundary.nodes for client, boundary in sorted(boundaries.items())])
        receiver = np.repeat(np.arange(rows), np.concatenate([boundary.counts for boundary in in_order]))
        owner, place = (
            np.concatenate([getattr(boundary, name) for boundary in in_order]) for name in ("owner", "place")
        )
        weight = np.concatenate([_weights(boundary) for boundary in in_order])
        there = np.flatnonzero(owner < clients)
        there = there[place[there] < own[owner[there]]]
        receiver, wanted = receiver[there], first[owner[there]] + place[there]
        sender = np.minimum(np.searchsorted(nodes, wanted), max(rows - 1, 0))
        match = nodes[sender] == wanted if rows else np.zeros(0, bool)
        receiver, sender, weight = receiver[match], sender[match], weight[there][match]
        both = np.isin(receiver * rows + sender, sender * rows + receiver)
        edges = sparse.csr_matrix((weight[both], (receiver[both], sender[both])), shape=(rows, rows))
        edges.sort_indices()
        told = any(boundary.weight is not None for boundary in in_order)
        weights = {"weights": edges.data} if told else {}
        return cls(own, sizes, edges.indptr.astype(np.int64), edges.indices.astype(np.int64), **weights)

    def fits(self, clients: int) -> bool:
        """Return whether that is what boundaries of so many clients may be."""
        rows, edges = len(self.pointers) - 1, len(self.senders)
        alike = len(self.own) == len(self.sizes) == clients and self.sizes.sum() == rows
        counted = alike and (self.sizes >= 0).all() and (self.sizes <= self.own).all()
        listed = counted and self.pointers[0] == 0 and (np.diff(self.pointers) >= 0).all()
        among = listed and self.pointers[-1] == edges and ((self.senders >= 0) & (self.senders < rows)).all()
        weighs = len(self.weights) in (0, edges) and ((self.weights > 0) & np.isfinite(self.weights)).all()
        return bool(among and weighs)

    @cached_property
    def starts(self) -> Indices:
        """int64 [clients]: the first row of each."""
        starts: Indices = np.cumsum(self.sizes) - self.sizes
        return starts

    def of_client(self, client: int) -> slice:
        """Return a client's rows."""
        return slice(int(self.starts[client]), int(self.starts[client] + self.sizes[client]))

    def means(self, rows: Array, known: Array) -> tuple[Array, Array]:
        """Return the mean of each row's known neighbours, float64 [rows, width], and bool [rows], whether it has any.

        Whole numbers add up to the same sums in any order, so that the means are the same on every machine; of weights
        those of a row are added one after the other.
        """
        weights = self.weights if len(self.weights) else np.ones(len(self.senders))
        edges = sparse.csr_matrix((weights, self.senders, self.pointers), shape=(len(rows),) * 2)
        count = edges @ known.astype(np.float64)
        total = edges @ (rows.astype(np.float64) * known[:, None])
        return total / np.where(count > 0, count, 1)[:, None], count > 0

    @cached_property
    def whole(self) -> sparse.csr_matrix:
        """int64 [rows, rows], how much each neighbour counts where rows are added up: 1, or 255ths of the largest."""
        counts = np.ones(len(self.senders), np.int64)
        if len(self.weights):
            counts = np.maximum(1, np.rint(self.weights * (MOST_COUNT / self.weights.max())).astype(np.int64))
        return sparse.csr_matrix((counts, self.senders, self.pointers), shape=(len(self.pointers) - 1,) * 2)


def _weights(boundary: Boundary) -> Doubles:
    return np.ones(len(boundary.place)) if boundary.weight is None else boundary.weight.astype(np.float64)
