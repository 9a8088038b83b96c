"""Pairs of nodes by how alike their features are."""

from dataclasses import dataclass

from fedgraft.domains.examples import scaled
from fedgraft.domains.links.metrics import PairScores, Scores
from fedgraft.domains.links.shards import LinkShard
from fedgraft.domains.nodes.base.features import inner_products


@dataclass(frozen=True)
class FeatureCosine(PairScores):
    """Score a pair by the cosine of its nodes' features; 0 where one has zeros alone.

    Source: none needed. Differs: nothing known.
    Needs: features of the client alone: neither edges nor a federation.
    Cost: nothing is sent.
    """

    def scores(self, shard: LinkShard) -> Scores:
        """Return cosines of the features of both ends, float32 [pairs]."""
        return inner_products(scaled(shard.graph.features, 1.0), shard.pairs)
