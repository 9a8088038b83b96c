"""Pairs of nodes by the neighbours that they have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from fedgraft.contracts.baseline import Baseline
from fedgraft.domains.links.metrics import Scores, held_against
from fedgraft.domains.links.shards import LinkShard
from fedgraft.domains.nodes.base.shards import each_once


@dataclass(frozen=True)
class AdamicAdar(Baseline[LinkShard]):
    """Score a pair by its common neighbours inside the client, each one over the log of how many neighbours it has.

    Source: Adamic and Adar, "Friends and neighbors on the Web", Social Networks 2003; for links: Liben-Nowell and
        Kleinberg, CIKM 2003.
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
    graph = each_once(shard.graph)
    entries = (np.ones(len(graph.senders)), graph.senders, graph.pointers)
    joined = sparse.csr_matrix(entries, shape=(graph.own, graph.own))
    weight = 1 / np.log(np.maximum(graph.degree, 2))  # whom two nodes have in common has two neighbours at least
    one, other = (joined[end] for end in shard.pairs)
    return np.asarray(one.multiply(other) @ weight).ravel()
