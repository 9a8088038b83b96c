"""Which states a batch of nodes is computed from: neighbours drawn over a client's CSR, layer by layer."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.graphs.sets import ranges
from fedgraft.nodes.sets import NodeShard
from fedgraft.propagate import Block, Sparse
from fedgraft.values import Indices

Uniform = Callable[[int], NDArray[np.float64]]
"""So many numbers in [0, 1)."""


@dataclass(frozen=True, eq=False)
class Hop:
    """One layer over some nodes.

    Its senders are `fresh` and then `stored`: nodes whose states the layer before computes, and nodes whose states are
    taken from what is remembered of them. Numbers are those of the shard: own nodes, then its halo.

    Args:
        receivers: int64 [receivers], own nodes.
        fresh: int64 [fresh], own nodes, the receivers among them.
        stored: int64 [stored], nodes of any kind.
        block: from senders to receivers; its degrees are those in the whole graph.
    """

    receivers: Indices
    fresh: Indices
    stored: Indices
    block: Block


class Neighbourhoods:
    """A client's graph, ready to be drawn from.

    Args:
        shard: the client's part.
        most: neighbours of a node that take part in a layer, drawn anew each time where there are more; 0 = all.
    """

    def __init__(self, shard: NodeShard, most: int) -> None:
        self._pointers, self._senders, self._most = shard.pointers, shard.senders.astype(np.int64), most
        self._own = shard.own
        self._number = np.full(shard.own + shard.halo, -1)

    def around(self, targets: Indices, layers: int, deep: bool, uniform: Uniform) -> list[Hop]:
        """The layers that end at some own nodes, first layer first.

        Args:
            targets: own nodes, each once.
            layers: how many.
            deep: whether the own neighbours of a layer's receivers are computed by the layer before; else only the
                targets are, in every layer, and all others are taken from what is remembered.
            uniform: where chance comes from.
        """
        hops: list[Hop] = []
        receivers = targets
        for layer in range(layers, 0, -1):
            row, sender = self._drawn(receivers, uniform)
            others = np.unique(sender)
            computed = others[others < self._own] if deep and layer > 1 else others[:0]
            fresh = np.concatenate([receivers, np.setdiff1d(computed, receivers, assume_unique=True)])
            stored = np.setdiff1d(others, fresh, assume_unique=True)
            hops.append(Hop(receivers, fresh, stored, self._block(receivers, fresh, stored, row, sender)))
            receivers = fresh
        return hops[::-1]

    def _drawn(self, receivers: Indices, uniform: Uniform) -> tuple[Indices, Indices]:
        """Edges that take part: which receiver, and the sender."""
        first, degree = self._pointers[receivers], self._pointers[receivers + 1] - self._pointers[receivers]
        row, place = np.repeat(np.arange(len(receivers)), degree), ranges(first, degree)
        if self._most and degree.max(initial=0) > self._most:
            order = np.lexsort((uniform(len(row)), row))  # edges of a receiver in random order
            rank = np.arange(len(row)) - np.repeat(np.cumsum(degree) - degree, degree)
            kept = np.sort(order[rank < self._most])
            row, place = row[kept], place[kept]
        return row, self._senders[place]

    def _block(self, receivers: Indices, fresh: Indices, stored: Indices, row: Indices, sender: Indices) -> Block:
        senders = np.concatenate([fresh, stored])
        self._number[senders] = np.arange(len(senders))
        shape = len(receivers), len(senders)
        drawn = np.bincount(row, minlength=len(receivers)).astype(np.float32)
        matrix = Sparse(row, self._number[sender], np.ones(len(row), np.float32), shape)
        # What the degree of a node elsewhere is, its owner knows.
        degree_from = np.zeros(len(senders), np.float32)
        own = senders < self._own
        degree_from[own] = (self._pointers[senders[own] + 1] - self._pointers[senders[own]]).astype(np.float32)
        place = torch.from_numpy(self._number[receivers])
        return Block(matrix, place, torch.from_numpy(drawn), torch.from_numpy(degree_from))
