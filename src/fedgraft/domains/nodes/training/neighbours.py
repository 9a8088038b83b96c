"""A client's nodes and all their neighbours, over which answers are smoothed."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedgraft.contracts.abilities.smoothing import Boundary, Means
from fedgraft.contracts.answers import Answered, Singles
from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features
from fedgraft.domains.nodes.base.shards import NodeShard, each_once
from fedgraft.domains.nodes.training.smoothed_inputs import Within


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

        `means` are of the neighbours elsewhere, for the first nodes of the border: new nodes have none. They say
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
