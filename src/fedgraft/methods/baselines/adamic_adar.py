"""Pairs of nodes by the neighbours that they have in common."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedgraft.domains.links.metrics import PairScores, Scores
from fedgraft.domains.links.shards import LinkShard
from fedgraft.domains.nodes.base.shards import each_once


@dataclass(frozen=True)
class AdamicAdar(PairScores):
    """Score a pair by its common neighbours inside the client, each one over the log of how many neighbours it has.

    Source: Adamic and Adar, "Friends and neighbors on the Web", Social Networks 2003; for links: Liben-Nowell and
        Kleinberg, CIKM 2003.
    Differs: nothing known.
    Needs: training edges of the client alone: no federation.
    Cost: nothing is sent.
    """

    def scores(self, shard: LinkShard) -> Scores:
        """Return the sum over common neighbours, float64 [pairs]."""
        graph = each_once(shard.graph)
        entries = (np.ones(len(graph.senders)), graph.senders, graph.pointers)
        joined = sparse.csr_matrix(entries, shape=(graph.own, graph.own))
        weight = 1 / np.log(np.maximum(graph.degree, 2))  # whom two nodes have in common has two neighbours at least
        one, other = (joined[end] for end in shard.pairs)
        return np.asarray(one.multiply(other) @ weight).ravel()
