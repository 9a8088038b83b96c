"""Boosted trees at each client alone, on its nodes' features and on aggregates of the edges that it knows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts.labels import Floats, Labels
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import Answering
from fedgraft.domains.nodes.base.shards import NodeShard, pooled
from fedgraft.domains.nodes.training.boosted import Boosted


@dataclass(frozen=True)
class OwnBoosting(Boosted, Answering[NodeShard]):
    """The baseline `boosting` at each client alone, tuned on its own validation nodes.

    A client knows all edges of its nodes, those with nodes of others, too: a bank its accounts' transfers to other
    banks. What it lacks are others' labels, and what is known of the others' nodes.

    Source, differs: as `boosting`. Scores are of all clients' answers together. A client without training nodes says
    how frequent classes are among those of all.

    Args:
        rates: as of `boosting`.
        leaves: as of `boosting`.
        trees: as of `boosting`.

    Needs: each client's own data; one count per class of each client where one has no training nodes.
    Cost: none; 8 bytes a class and client, once, where a client has none.
    """

    task: ClassVar[str] = "node"
    labels: ClassVar[Labels] = Classes()
    local: ClassVar[bool] = True

    def answered(self, shards: Sequence[NodeShard], labels: Labels) -> Sequence[Floats]:
        """Return each client's probabilities of classes."""
        trained = [len(shard.rows("train")) > 0 for shard in shards]
        frequent = np.zeros(0) if all(trained) else _shares(pooled(shards))
        return [
            self.probabilities(shard, labels) if known else np.tile(frequent, (shard.own, 1))
            for shard, known in zip(shards, trained, strict=True)
        ]


def _shares(graph: NodeShard) -> Floats:
    """How frequent each class is among training nodes, [classes]."""
    counts = np.bincount(graph.label[graph.rows("train")], minlength=len(graph.classes))
    shares: Floats = counts / counts.sum()
    return shares
