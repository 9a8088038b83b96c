"""FedGCN's exchange over two hops: clients are also told the sums that the first layer reads at neighbours elsewhere.

A client computes the first layer of its own nodes and of all their neighbours, so that a second layer at own nodes is
that of the whole graph. The sum at a neighbour elsewhere is made by the server of what all clients know of it: its
owner publishes its own part of the sum, others theirs as for one hop.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features, stacked
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.halo_setup import without_edges
from fedgraft.domains.nodes.training.neighbour_sums import Aggregates, added, adjacency, as_features
from fedgraft.errors import WireError, require
from fedgraft.wire.bits import count_bits, set_bits
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec

AROUND = "around."
"""Prefix of the names of sums at nodes with neighbours elsewhere, themselves included."""
Known = NDArray[np.bool_]


@dataclass(frozen=True)
class TwoHopAggregates(Aggregates):
    """The set-up in which clients publish sums of features, and are told those at neighbours elsewhere, too.

    Sums at these hold the node itself, as the GCN's do, so that nobody is told its features apart from them.

    Source: Yao et al., "FedGCN", NeurIPS 2023, two hops.
    Differs: as of one hop. Degrees of nodes that have neighbours elsewhere travel beside the sums; the paper's sums
        hold the final weights of edges.
    """

    @property
    def statistics_layout(self) -> Layout:
        """Layout of what a client publishes."""
        marks = (Spec("boundary", "uint8", (VARIABLE,), "rows"), Spec("degree", "float32", (VARIABLE,), "rows"))
        return Layout((*super().statistics_layout, *marks, *self._around))

    @property
    def combined_layout(self) -> Layout:
        """Layout of what a client gets back."""
        marks = (Spec("known", "uint8", (VARIABLE,)), Spec("degree", "float32", (VARIABLE,)))
        return Layout((*super().combined_layout, *marks, *self._around))

    def statistics(self, shard: NodeShard) -> Arrays:
        """Sums for nodes elsewhere; of own nodes with neighbours elsewhere degrees and their own part of the sum."""
        cut = np.zeros(shard.own, bool)
        cut[np.repeat(np.arange(shard.own), shard.degree)[shard.senders >= shard.own]] = True
        whole = adjacency(shard)[:, : shard.own] + sparse.identity(shard.own, np.float32, "csr")
        sums = sparse.csr_matrix(whole)[np.flatnonzero(cut)] @ self.scaled(shard)
        marks: Arrays = {"boundary": np.packbits(cut), "degree": shard.weighted_degree[cut]}
        return {**super().statistics(shard), **marks, **self._packed(sums)}

    def check(self, statistics: Arrays) -> None:
        """Raise `WireError` for what no client can have published."""
        super().check(statistics)
        self._check_degrees(statistics["degree"], count_bits(statistics["boundary"]))
        self._unpacked(statistics, len(statistics["degree"]))

    def combine(self, statistics: Mapping[int, Arrays]) -> dict[int, Arrays]:
        """Return the sums at each client's nodes, and at those elsewhere to which its own are joined."""
        combined = super().combine(statistics)
        whole = {client: self._whole(each, combined[client]) for client, each in statistics.items()}
        for client, each in statistics.items():
            owners = each["owner"].astype(np.int64)
            known, degree, rows = np.zeros(len(owners), bool), [np.zeros(0, np.float32)], [self.coding.empty(0)]
            order = [np.zeros(0, np.int64)]
            for owner in np.unique(owners).tolist():
                if owner not in statistics:
                    continue
                mine, boundary = np.flatnonzero(owners == owner), set_bits(statistics[owner]["boundary"])
                there, at = _found(boundary, each["place"][mine].astype(np.int64))
                known[mine[there]] = True
                order.append(mine[there])
                degree.append(statistics[owner]["degree"][at])
                rows.append(whole[owner][at])
            sort = np.argsort(np.concatenate(order), kind="stable")
            marks: Arrays = {"known": np.packbits(known), "degree": np.concatenate(degree)[sort]}
            combined[client] |= {**marks, **self._packed(stacked(rows)[sort])}
        return combined

    def reached(self, shard: NodeShard, shared: Arrays) -> NodeShard:
        """Return the shard with all nodes elsewhere of which a sum was told."""
        kept = np.ones(len(shard.senders), bool)
        cut = shard.senders >= shard.own
        kept[cut] = self._known(shard.halo, shared)[shard.senders[cut] - shard.own]
        return without_edges(shard, kept)

    def elsewhere(self, halo: int, shared: Arrays) -> tuple[Features, Array]:
        """Return sums at these, [halo, f], and their degrees, float32 [halo]."""
        if not halo:
            return self.coding.empty(0), np.zeros(0, np.float32)
        self._check_degrees(shared["degree"], halo)
        return self._unpacked(shared, halo), shared["degree"]

    def moved(self, shared: Arrays, slots: Indices, halo: int) -> Arrays:
        """Return what a client got back as of a halo of so many nodes, in which those before are at `slots`."""
        known = np.zeros(halo, bool)
        known[slots[self._known(len(slots), shared)]] = True
        return {**shared, "known": np.packbits(known)} if shared else shared

    def widened(self, shared: Arrays, shard: NodeShard, own: int, rows: Features) -> Arrays:
        """Return what a client gets back with sums for new nodes; at nodes elsewhere they are what they were."""
        return {**shared, **super().widened(shared, shard, own, rows)}

    def _whole(self, statistics: Arrays, combined: Arrays) -> Features:
        """Sums at one client's nodes with neighbours elsewhere, its own part and all others', [nodes, f]."""
        boundary = set_bits(statistics["boundary"])
        own, place = self._unpacked(statistics, len(boundary)), combined["place"].astype(np.int64)
        there, at = _found(boundary, place)
        others = self.coding.unpack(combined, len(place))[there]
        number = np.concatenate([np.arange(len(boundary)), at])
        return as_features(added(number, len(boundary), [own, others]), self.coding.is_sparse)

    def _known(self, halo: int, shared: Arrays) -> Known:
        """Of which nodes of the halo sums were told, bool [halo]."""
        if "known" not in shared:
            return np.zeros(halo, bool)
        if len(shared["known"]) != -(-halo // 8):
            raise WireError(f"{len(shared['known'])} bytes of marks of {halo} nodes elsewhere")
        return np.unpackbits(shared["known"], count=halo).view(bool)

    def _check_degrees(self, degree: Array, nodes: int) -> None:
        if len(degree) != nodes or not ((degree >= 0) & np.isfinite(degree)).all():
            raise WireError(f"{len(degree)} degrees of {nodes} nodes, or some that are not finite and at least 0")

    @property
    def _around(self) -> tuple[Spec, ...]:
        return tuple(replace(spec, name=AROUND + spec.name) for spec in self.coding.specs)

    def _packed(self, rows: Features) -> Arrays:
        packed = self.coding.pack(as_features(rows, self.coding.is_sparse))
        return {AROUND + name: array for name, array in packed.items()}

    def _unpacked(self, arrays: Arrays, rows: int) -> Features:
        return self.coding.unpack({spec.name: arrays[AROUND + spec.name] for spec in self.coding.specs}, rows)


def check_two_hops(node: Any, name: str) -> None:
    """Raise `InputError` for options of a task, `name`, with which sums do not reach over so many hops."""
    require(node.aggregate_hops in (1, 2), f"{name}.aggregate_hops", "1 or 2", node.aggregate_hops)
    for fits, what in (
        (node.aggregates, "where task.aggregates is false"),
        (isinstance(node.encoder, LayeredEncoder) and node.encoder.by_degree, "unless a sum holds the node (gcn)"),
        (node.layers == 2, "unless the model has two convolutions"),
    ):
        require(fits or node.aggregate_hops == 1, f"{name}.aggregate_hops", f"1 {what}", node.aggregate_hops)


def _found(boundary: Indices, place: Indices) -> tuple[Known, Indices]:
    """Which of some places are among ascending ones, bool [places], and where those that are stand, int64 [found]."""
    if not len(boundary):
        return np.zeros(len(place), bool), place[:0]
    at = np.minimum(np.searchsorted(boundary, place), len(boundary) - 1)
    there = boundary[at] == place
    return there, at[there]
