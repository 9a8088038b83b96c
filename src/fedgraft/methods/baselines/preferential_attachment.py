"""Pairs of nodes by the product of their numbers of neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedgraft.contracts.baseline import Baseline
from fedgraft.domains.links.metrics import Scores, held_against
from fedgraft.domains.links.shards import LinkShard
from fedgraft.domains.nodes.base.shards import each_once


@dataclass(frozen=True)
class PreferentialAttachment(Baseline[LinkShard]):
    """Score a pair by the product of its nodes' numbers of neighbours inside the client.

    Source: Barabási and Albert, "Emergence of scaling in random networks", Science 1999; for links: Liben-Nowell and
        Kleinberg, "The link prediction problem for social networks", CIKM 2003.
    Differs: nothing known.
    Needs: training edges of the client alone: no federation.
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
    one, other = each_once(shard.graph).degree[shard.pairs]
    scores: Scores = (one * other).astype(float)
    return scores
