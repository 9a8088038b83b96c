"""Pairs of nodes by the product of their numbers of neighbours."""

from dataclasses import dataclass

from fedgraft.domains.links.metrics import PairScores, Scores
from fedgraft.domains.links.shards import LinkShard
from fedgraft.domains.nodes.base.shards import each_once


@dataclass(frozen=True)
class PreferentialAttachment(PairScores):
    """Score a pair by the product of its nodes' numbers of neighbours inside the client.

    Source: Barabási and Albert, "Emergence of scaling in random networks", Science 1999; for links: Liben-Nowell and
        Kleinberg, "The link prediction problem for social networks", CIKM 2003.
    Differs: nothing known.
    Needs: training edges of the client alone: no federation.
    Cost: nothing is sent.
    """

    def scores(self, shard: LinkShard) -> Scores:
        """Return products of the numbers of neighbours, float64 [pairs]."""
        one, other = each_once(shard.graph).degree[shard.pairs]
        scores: Scores = (one * other).astype(float)
        return scores
