"""Pairs of nodes by how alike their features are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedgraft.contracts.baseline import Baseline
from fedgraft.domains.examples import scaled
from fedgraft.domains.links.metrics import Scores, held_against
from fedgraft.domains.links.shards import LinkShard
from fedgraft.domains.nodes.base.features import inner_products


@dataclass(frozen=True)
class FeatureCosine(Baseline[LinkShard]):
    """Score a pair by the cosine of its nodes' features; 0 where one has zeros alone.

    Source: none needed. Differs: nothing known.
    Needs: features of the client alone: neither edges nor a federation.
    Cost: nothing is sent.
    """

    task: ClassVar[str] = "link"
    default: ClassVar[bool] = True
    local: ClassVar[bool] = True

    def score(self, shards: Sequence[LinkShard]) -> dict[str, float]:
        """Mean AUC over all clients' edges."""
        return self.judged(shards, "auc")

    def judged(self, shards: Sequence[LinkShard], labels: str) -> dict[str, float]:
        """Mean over all clients' edges of the measure of this name."""
        return held_against(shards, _scores, labels)


def _scores(shard: LinkShard) -> Scores:
    return inner_products(scaled(shard.graph.features, 1.0), shard.pairs)
