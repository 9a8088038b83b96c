"""Draw the neighbours that a batch of nodes is computed from, over a client's CSR, layer by layer."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts.values import Batch, Indices
from fedgraft.domains.edge_data.edge_rows import EdgeRows, stacked_edges, taken
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.errors import require
from fedgraft.nn.propagate import Block, EdgeValues, Sparse
from fedgraft.nn.sparse import ranges
from fedgraft.nn.whole_networks import Subgraph
from fedgraft.wire.layouts import Array

Known = NDArray[np.bool_]
_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014 (SplitMix64)."""
_SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))
_LOWER: Final = np.uint64((1 << 32) - 1)
_LARGEST: Final = np.uint64((1 << 64) - 1)

SMALL: Final = 1 << 12
"""Entries, zeros and all, up to which a layer over so few nodes is multiplied faster with its zeros (measured, widths 3
to 256); most have few neighbours in a batch, so that zeros would be nearly all of the operations."""


@dataclass(frozen=True)
class NeighbourBatches:
    """Which neighbours take part in a step: by default at most so many `neighbours` of a node, in each of the `layers`.

    Where draws are `deep`, own neighbours outside a batch are computed anew.
    """

    layers: int
    neighbours: int
    deep: bool = True

    def most(self, draw: Batch) -> tuple[int, ...]:
        """Return the most neighbours per layer, as the sampler says or by default."""
        if count := len(draw.neighbours):
            require(count == self.layers, "The sampler's layers", f"{self.layers}, the model's convolutions", count)
        return draw.neighbours or (self.neighbours,) * self.layers


@dataclass(frozen=True, eq=False)
class Hop:
    """One layer over some nodes.

    Its senders are `fresh` and then `stored`: nodes whose states the layer before computes, and nodes whose states are
    taken from what is remembered of them. Numbers are those of the shard: own nodes, then its halo.

    Args:
        receivers: int64 [receivers], own nodes, the first of `fresh`.
        fresh: int64 [fresh], own nodes.
        stored: int64 [stored], nodes of any kind.
        block: from senders to receivers. A receiver's degree is that in the graph; where only some neighbours take
            part, each counts as many times as makes up for the others.
    """

    receivers: Indices
    fresh: Indices
    stored: Indices
    block: Block

    def to(self, device: torch.device) -> "Hop":
        """Return the layer with its block on a device."""
        return self if device.type == "cpu" else replace(self, block=self.block.to(device))


@dataclass(frozen=True, eq=False)
class Reach:
    """The nodes that may take part in a batch.

    Args:
        known: per layer, bool [own + halo], whose states the layer can read; own neighbours that are computed afresh
            can be read in any case.
        most: per layer, neighbours of a node that take part, drawn where there are more; 0 = all.
        deep: whether the own neighbours of a layer's receivers are computed by the layer before; else only the targets
            are, in every layer, and all others are taken from what is remembered.
        seed: where the draws come from; equal seeds draw equal neighbours of a node, whatever the batch.
        whole: whether the first layer's block is over all nodes there are, own ones and the halo, by number, so that
            nobody has to pick rows for it; else over the hop's senders.
        alone: whether nobody's neighbours take part, in any layer.
    """

    known: Sequence[Known]
    most: Sequence[int]
    deep: bool
    seed: int = 0
    whole: bool = False
    alone: bool = False


class OwnEdges:
    """Edges by receiver, own nodes first, as `drawn_edges` has them; `most` is the largest number of one node."""

    _pointers: Indices
    _senders: Indices
    _degree: NDArray[np.float32]
    _own: int
    _carried: EdgeRows | None = None
    most: int

    @property
    def edges(self) -> Indices:
        """int64 [2, edges], those among own nodes, to each from its neighbours."""
        receivers = np.repeat(np.arange(self._own), np.diff(self._pointers[: self._own + 1]))
        senders = self._senders[: len(receivers)]
        among = senders < self._own
        return np.stack([senders[among], receivers[among]])

    def thinned(self, share: float, g: np.random.Generator) -> Self:
        """Return the graph without a share of its edges, each end drawn by itself; own nodes lose their degrees."""
        made, nodes = copy.copy(self), len(self._pointers) - 1
        receivers, kept = np.repeat(np.arange(nodes), np.diff(self._pointers)), g.random(len(self._senders)) >= share
        counts = np.bincount(receivers[kept], minlength=nodes)
        made._pointers, made._senders = np.concatenate([[0], np.cumsum(counts)]), self._senders[kept]
        made._carried = taken(self._carried, kept)
        weight = None if made._carried is None else made._carried.weight
        degrees = counts if weight is None else np.bincount(receivers[kept], weight, minlength=nodes)
        made._degree = np.concatenate([degrees[: self._own], self._degree[self._own :]]).astype(np.float32)
        made.most = int(counts.max(initial=0))
        return made


class Neighbourhoods(OwnEdges):
    """A client's graph, ready to be drawn from.

    `halo_degree`, [halo], says how many neighbours the nodes of others have, or their edges' weights; 0 = unknown.
    """

    by_number: ClassVar[bool] = True
    """Whether the first hop may be over all nodes there are, by number."""

    def __init__(self, shard: NodeShard, halo_degree: Array | None = None) -> None:
        self._pointers, self._senders = shard.pointers, shard.senders.astype(np.int64)
        self._own, self._carried = shard.own, shard.edge_rows
        elsewhere = np.zeros(shard.halo, np.int64) if halo_degree is None else halo_degree
        self._degree = np.concatenate([shard.weighted_degree, elsewhere]).astype(np.float32)
        self._number = np.full(shard.own + shard.halo, -1)
        self.most = int(shard.degree.max(initial=0))

    def around(self, targets: Indices, layers: int, reach: Reach) -> list[Hop]:
        """The layers that end at some own nodes, each once, first layer first; `reach` says what may take part."""
        hops: list[Hop] = []
        receivers = targets
        for layer in range(layers - 1, -1, -1):
            reached = receivers[:0] if reach.alone else receivers
            row, edge = drawn_edges(self._pointers, reached, reach.most[layer], reach.seed + layer)
            sender = self._senders[edge]
            readable = reach.known[layer][sender]
            if layer > 0:
                if reach.deep:
                    readable = readable | (sender < self._own)
                else:
                    among = np.zeros(len(self._number), bool)
                    among[targets] = True
                    readable = readable | among[sender]
            row, sender, edge = row[readable], sender[readable], edge[readable]
            others = np.zeros(len(self._number), bool)
            others[sender] = True
            others[receivers] = False
            fresh = receivers
            if reach.deep and layer > 0:
                fresh = np.concatenate([receivers, np.flatnonzero(others[: self._own])])
                others[: self._own] = False
            stored = np.flatnonzero(others)
            senders = None if reach.whole and layer == 0 else np.concatenate([fresh, stored])
            hops.append(Hop(receivers, fresh, stored, self._block(receivers, senders, row, edge)))
            receivers = fresh
        return hops[::-1]

    def _block(self, receivers: Indices, senders: Indices | None, row: Indices, edge: Indices) -> Block:
        """From senders, or from all nodes by number where these are None; `edge` says which edge each of its own is."""
        degree, sender = self._degree[receivers], self._senders[edge]
        each = counting(self._carried, edge, row, degree)
        if senders is None:
            matrix = Sparse(row, sender, each, (len(receivers), len(self._number)), small=0)
            place, degree_from = receivers, self._degree
        else:
            self._number[senders] = np.arange(len(senders))
            small = SMALL if self._carried is None else 0  # a table of zeros holds an edge of two nodes once
            matrix = Sparse(row, self._number[sender], each, (len(receivers), len(senders)), small=small)
            place, degree_from = self._number[receivers], self._degree[senders]
        ends = torch.from_numpy(place), torch.from_numpy(degree), torch.from_numpy(degree_from)
        return Block(matrix, *ends, edges=values_of(self._carried, edge))


def values_of(carried: EdgeRows | None, edge: Indices) -> EdgeValues | None:
    """Return what some stored edges carry, as a layer reads it; None of a graph whose edges carry nothing."""
    if carried is None:
        return None
    weight = None if carried.weight is None else torch.from_numpy(carried.weight[edge])
    return EdgeValues(torch.from_numpy(carried.values[edge]), torch.from_numpy(carried.along[edge]), weight)


def counting(carried: EdgeRows | None, edge: Indices, row: Indices, degree: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return how much each drawn edge counts, float32 [drawn], so that those of a receiver add up to its degree.

    `edge`, int64 [drawn], are their numbers, `row` the places of their receivers, of which `degree` [receivers] is.
    """
    weight = None if carried is None or carried.weight is None else carried.weight[edge]
    drawn = np.bincount(row, weight, minlength=len(degree)).astype(np.float32)
    each = np.divide(degree, drawn, out=np.zeros_like(degree), where=drawn > 0)[row]
    return each if weight is None else each * weight


def drawn_edges(pointers: Indices, receivers: Indices, most: int, seed: int) -> tuple[Indices, Indices]:
    """Draw edges that take part: int64 [drawn] each, the place of its receiver among `receivers`, and its number.

    `pointers`, int64 [nodes + 1], say where each node's edges begin; `receivers`, int64 [receivers], are nodes, each
    once. Of each at most `most` edges are drawn, >= 1; 0 = all.
    """
    first, degree = pointers[receivers], pointers[receivers + 1] - pointers[receivers]
    row, edge = np.repeat(np.arange(len(receivers)), degree), ranges(first, degree)
    crowded = degree > most
    if not (most and crowded.any()):
        return row, edge
    kept = np.repeat(~crowded, degree)
    among = np.flatnonzero(~kept)
    kept[among[smallest(scattered(edge[among], seed), degree[crowded], most)]] = True
    return row[kept], edge[kept]


def smallest(numbers: NDArray[np.uint64], lengths: Indices, most: int) -> Indices:
    """Places of the `most` smallest, by their upper half, of each run of so many numbers; of equal ones the first.

    The numbers are uint64 [numbers], fewer than 2**32, and changed; `lengths`, int64 [runs], are each above `most`, >=
    1.
    """
    # A minimum of every run after another: a seventh to a tenth of the time of sorting for two, never more for fifty.
    first = np.cumsum(lengths) - lengths
    numbers &= ~_LOWER
    numbers |= np.arange(len(numbers), dtype=np.uint64)
    places = np.empty((most, len(lengths)), np.int64)
    for each in places:
        each[:] = np.minimum.reduceat(numbers, first) & _LOWER
        numbers[each] = _LARGEST
    return places.ravel()


def scattered(numbers: Indices, seed: int) -> NDArray[np.uint64]:
    """A pseudorandom number for each number, uint64 [n], the same whenever `seed` is."""
    start = np.uint64(seed * int(_MIX[2]) % 2**64)
    mixed = numbers.astype(np.uint64) * _MIX[0] + start
    for factor, shift in zip(_MIX[1:], _SHIFTS, strict=False):
        mixed = (mixed ^ (mixed >> shift)) * factor
    return mixed ^ (mixed >> _SHIFTS[2])


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
