"""Find all nodes within reach of a batch, as one graph on which a whole network is called.

Where `neighbour_sampling` has a layer of edges for each convolution, this has one graph for all of them. Edges between
own nodes and neighbours elsewhere go both ways; of edges between neighbours elsewhere a client knows nothing.
"""

from dataclasses import replace
from typing import ClassVar, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_rows import EdgeRows, stacked_edges, taken
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.neighbour_sampling import (
    Hop,
    Known,
    OwnEdges,
    Reach,
    counting,
    drawn_edges,
    values_of,
)
from fedgraft.nn.propagate import Sparse
from fedgraft.nn.whole_networks import Subgraph


class Surroundings(OwnEdges):
    """A client's graph, ready for a whole network, which looks `reach` edges far, >= 0, to be called on parts of it.

    `known`, bool [own + halo], says whose features are known; the others are left out, with their edges.
    """

    by_number: ClassVar[bool] = False
    """Whether a hop may be over all nodes there are, by number."""

    def __init__(self, shard: NodeShard, known: Known, reach: int) -> None:
        self._reach, self._own, self._nodes = reach, shard.own, shard.own + shard.halo
        receiver, sender = np.repeat(np.arange(shard.own), shard.degree), shard.senders.astype(np.int64)
        seen = np.flatnonzero(known[sender])
        receiver, sender = receiver[seen], sender[seen]
        elsewhere = sender >= shard.own
        ends = np.concatenate([receiver, sender[elsewhere]]), np.concatenate([sender, receiver[elsewhere]])
        order, counts = np.argsort(ends[0], kind="stable"), np.bincount(ends[0], minlength=self._nodes)
        self._senders = ends[1][order]
        self._pointers = np.concatenate([[0], np.cumsum(counts)])
        self._carried = _both_ways(taken(shard.edge_rows, seen), elsewhere, order)
        weight = None if self._carried is None else self._carried.weight
        degree = counts if weight is None else np.bincount(ends[0][order], weight, minlength=self._nodes)
        self._degree = degree.astype(np.float32)
        self.most = int(counts.max(initial=0))

    def around(self, targets: Indices, layers: int, reach: Reach) -> list[Hop]:
        """The one graph that some own nodes are computed from, as a list of one.

        The targets, each once, are the first of its nodes. There is 1 layer; `reach` says how many neighbours of a node
        are drawn, once for each, and from what.
        """
        parts, receivers = [_NOTHING], targets
        there = np.zeros(self._nodes, bool)
        there[targets] = True
        for _ in range(self._reach):
            parts.append(self._drawn(receivers, reach.most[0], reach.seed))
            receivers = np.unique(parts[-1][1])
            receivers = receivers[~there[receivers]]
            there[receivers] = True
        there[targets] = False
        fresh = np.concatenate([targets, np.flatnonzero(there[: self._own])])
        stored = self._own + np.flatnonzero(there[self._own :])
        nodes, number = np.concatenate([fresh, stored]), np.full(self._nodes, -1)
        number[nodes] = np.arange(len(nodes))
        row, column, edge, times = (np.concatenate(each) for each in zip(*parts, strict=True))
        row, column = number[row], number[column]
        order = np.lexsort((column, row))
        matrix = Sparse(row[order], column[order], times[order], (len(nodes), len(nodes)), small=0)
        degree = torch.from_numpy(self._degree[nodes])
        nobody = torch.zeros(len(nodes), dtype=torch.int64)
        place = torch.arange(len(targets))
        told = values_of(self._carried, edge[order])
        block = Subgraph(matrix, place, degree[: len(targets)], degree, told, graph=nobody, graphs=nobody[:1])
        return [Hop(targets, fresh, stored, block)]

    def _drawn(self, receivers: Indices, most: int, seed: int) -> "_Drawn":
        row, edge = drawn_edges(self._pointers, receivers, most, seed)
        times = counting(self._carried, edge, row, self._degree[receivers])
        return receivers[row], self._senders[edge], edge, times


_Drawn: TypeAlias = tuple[Indices, Indices, Indices, NDArray[np.float32]]
"""Edges that take part: the receiver, the sender, the edge's number, and how much it counts."""
_NOTHING: Final[_Drawn] = (*np.zeros((3, 0), np.int64), np.zeros(0, np.float32))


def _both_ways(carried: EdgeRows | None, elsewhere: NDArray[np.bool_], order: Indices) -> EdgeRows | None:
    """What stored edges carry, and behind them those to nodes elsewhere, turned, in an order."""
    if carried is None:
        return None
    turned = carried.take(elsewhere)
    if not carried.along.all():  # else the graph has no directions
        turned = replace(turned, along=~turned.along)
    both = stacked_edges([carried, turned])
    assert both is not None, "both are there"
    return both.take(order)
