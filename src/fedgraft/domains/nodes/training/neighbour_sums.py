"""The one-time exchange of FedGCN: every node gets the sum of its neighbours' features instead of each by itself.

A client publishes, for each node elsewhere that it knows neighbours of, the sum of these neighbours' features; the
server adds what several clients have published of a node and hands it to the node's owner. Of a node that has but one
neighbour at a client, the sum is that neighbour's features as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from fedgraft.contracts.abilities.smoothing import Boundary, Means
from fedgraft.contracts.answers import Answered, Singles
from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features, stacked
from fedgraft.domains.nodes.base.features import FeatureCoding
from fedgraft.domains.nodes.base.shards import NodeShard, each_once
from fedgraft.domains.nodes.training.smoothed_inputs import Within
from fedgraft.errors import WireError
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout, Spec


@dataclass(frozen=True)
class Aggregates:
    """The set-up in which clients publish sums of features.

    Source: Yao et al., "FedGCN", NeurIPS 2023, one hop.
    Differs: nothing is encrypted. Neighbours at a client that never published count as zeros, since a node's degree
        is known to its owner and how many were summed is not told.

    `by_degree` says whether a node's features are divided by the root of its degree plus one, as the GCN has it.
    """

    coding: FeatureCoding
    by_degree: bool

    @property
    def statistics_layout(self) -> Layout:
        """Layout of what a client publishes."""
        known = (Spec("owner", "uint32", (VARIABLE,), "rows"), Spec("place", "uint32", (VARIABLE,), "rows"))
        return Layout((*known, *self.coding.specs))

    @property
    def combined_layout(self) -> Layout:
        """Layout of what a client gets back."""
        return Layout((Spec("place", "uint32", (VARIABLE,)), *self.coding.specs))

    def statistics(self, shard: NodeShard) -> Arrays:
        """Sums for the nodes elsewhere that the client knows neighbours of."""
        sums = adjacency(shard)[:, shard.own :].T.tocsr() @ self.scaled(shard)
        return {
            "owner": shard.halo_owner.astype(np.uint32),
            "place": shard.halo_place.astype(np.uint32),
            **self.coding.pack(as_features(sums, self.coding.is_sparse)),
        }

    def check(self, statistics: Arrays) -> None:
        """Raise `WireError` for what no client can have published."""
        if len(statistics["owner"]) != len(statistics["place"]):
            raise WireError(f"{len(statistics['owner'])} owners of nodes at {len(statistics['place'])} places")
        self.coding.unpack(statistics, len(statistics["owner"]))

    def combine(self, statistics: Mapping[int, Arrays]) -> dict[int, Arrays]:
        """Return the sums that all clients together make for each client's nodes."""
        combined = {}
        rows = {client: self.coding.unpack(each, len(each["owner"])) for client, each in statistics.items()}
        for client in statistics:
            places, parts = [], []
            for other, each in statistics.items():
                mine = np.flatnonzero(each["owner"] == client)
                places.append(each["place"][mine].astype(np.int64))
                parts.append(rows[other][mine])
            place, number = np.unique(np.concatenate(places), return_inverse=True)
            combined[client] = {
                "place": place.astype(np.uint32),
                **self.coding.pack(as_features(added(number, len(place), parts), self.coding.is_sparse)),
            }
        return combined

    def sums(self, shard: NodeShard, shared: Arrays) -> Features:
        """Float32 [own, f]: the sum of all neighbours' features, own ones and those that others spoke for."""
        total = adjacency(shard)[:, : shard.own] @ self.scaled(shard)
        if shared:
            place = shared["place"].astype(np.int64)
            there = place < shard.own  # another client's nonsense must not cost this one its part in the run
            total = total + added(place[there], shard.own, [self.coding.unpack(shared, len(place))[there]])
        return as_features(total, self.coding.is_sparse)

    def widened(self, shared: Arrays, shard: NodeShard, own: int, rows: Features) -> Arrays:
        """Return what a client gets back with sums for new nodes, which follow `own` ones, over the halo's rows."""
        edges = adjacency(shard)[own:, shard.own :]
        new = np.flatnonzero(np.diff(edges.indptr))
        place = shared.get("place", np.zeros(0, np.uint32))
        known = self.coding.unpack(shared, len(place)) if shared else self.coding.empty(0)
        sums = stacked([known, as_features(edges[new] @ rows, self.coding.is_sparse)])
        return {"place": np.concatenate([place, own + new]).astype(np.uint32), **self.coding.pack(sums)}

    def scaled(self, shard: NodeShard) -> Features:
        """Return the features that sums are made of, float32 [own, f]."""
        if not self.by_degree:
            return shard.features
        scale = (shard.weighted_degree + 1) ** -0.5
        if isinstance(shard.features, np.ndarray):
            return shard.features * scale[:, None]
        return sparse.csr_matrix(sparse.diags(scale, dtype=np.float32) @ shard.features)


def adjacency(shard: NodeShard) -> sparse.csr_matrix:
    """Return a client's edges by their weights, [own, own + halo]; those of the same two nodes are apart."""
    shape = shard.own, shard.own + shard.halo
    return sparse.csr_matrix((shard.edge_weight, shard.senders, shard.pointers), shape=shape)


def added(number: Indices, rows: int, parts: list[Features]) -> Features:
    """Return rows [rows, f], each the sum of those of `parts`, one after the other, that have its number."""
    adder = sparse.csr_matrix(
        (np.ones(len(number), np.float32), (number, np.arange(len(number)))), shape=(rows, len(number))
    )
    if all(isinstance(part, np.ndarray) for part in parts):
        return adder @ np.concatenate(parts)
    return sparse.csr_matrix(adder @ sparse.vstack(parts, format="csr"))


def as_features(matrix: Features, is_sparse: bool) -> Features:
    """Return a product as features, float32 [rows, f] of the kind that is said, columns of sparse rows ascending."""
    if not is_sparse:
        return np.asarray(matrix, np.float32)
    features = sparse.csr_matrix(matrix, dtype=np.float32)
    features.sort_indices()
    return features


@dataclass(frozen=True, eq=False)
class Neighbours(Answered):
    """A client's nodes and all their neighbours, whatever the model sees of them.

    Args:
        shard: the client's part of the graph.
        inputs: what the model reads of own nodes, [own, columns]; None where nobody asks for it.
    """

    shard: NodeShard
    inputs: "Features | None" = None

    @property
    def label(self) -> Indices:
        """Classes of own nodes."""
        return self.shard.label

    def rows(self, split: str) -> Indices:
        """Return own nodes of a split."""
        return self.shard.rows(split)

    @cached_property
    def boundary(self) -> Boundary:
        """The edges to nodes of others, each neighbour once, by the sum of weights where edges have some."""
        shard = each_once(self.shard)
        row = np.repeat(np.arange(shard.own), shard.degree)
        out = shard.senders >= shard.own
        nodes, counts = np.unique(row[out], return_counts=True)
        halo = shard.senders[out] - shard.own
        owner, place = (each[halo].astype(np.int64) for each in (shard.halo_owner, shard.halo_place))
        weight = shard.edge_weight[out] if shard.weighted else None
        return Boundary(shard.own, nodes.astype(np.int64), counts.astype(np.int64), owner, place, weight)

    def mean(self, rows: Singles, means: Means | None, width: int) -> Singles:
        """Return the mean of `rows`, [own, classes], over neighbours; those of a node without any are its own.

        `means` are of the neighbours elsewhere, for the first nodes of the boundary: new nodes have none. They say
        nothing of the last of `width` classes, as it is what is missing to a sum that is known.
        """
        total, count = np.asarray(self._within.edges @ rows, np.float32), self._within.degree.copy()
        if means is not None:
            known = np.flatnonzero(means.known)
            nodes, weight = self.boundary.nodes[known], self.boundary.totals[known]
            total[nodes] += weight[:, None] * means.rows[known, :width]
            count[nodes] += weight
        alone = count == 0
        total[alone], count[alone] = rows[alone], 1
        return total / count[:, None]

    @cached_property
    def _within(self) -> Within:
        return Within.of(self.shard)
