"""Boosted trees on an edge's columns and history, at each client alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts.labels import Labels
from fedgraft.domains.edges.history import BoostedEdges
from fedgraft.domains.edges.shards import EdgeShard
from fedgraft.wire.layouts import Array


@dataclass(frozen=True)
class OwnEdgeBoosting(BoostedEdges):
    """The baseline `edge_boosting` at each client alone, tuned on its own validation edges.

    A client knows all edges of its own nodes, and so what came before an edge at its source and between its ends; of a
    target elsewhere it knows nothing else.

    Source, differs: as `edge_boosting`. Scores are of all clients' answers together. A client without training edges
    says how frequent classes are among those of all, or their mean.

    Args:
        rates: as of `boosting`.
        leaves: as of `boosting`.
        trees: as of `boosting`.

    Needs: each client's own data; one count per class of each client where one has no training edges.
    Cost: none; 8 bytes a class and client, once, where a client has none.
    """

    task: ClassVar[str] = "edge"
    local: ClassVar[bool] = True

    def answered(self, shards: Sequence[EdgeShard], labels: Labels) -> Sequence[Array]:
        """Return each client's answers."""
        label, classes = np.concatenate([shard.label[shard.rows("train")] for shard in shards]), len(shards[0].classes)
        counts = np.bincount(label.astype(np.int64), minlength=classes) / max(1, len(label)) if classes else None
        everywhere: Array = labels.constant(label) if counts is None else counts
        return [
            self.answers(shard, labels)
            if len(shard.rows("train"))
            else np.broadcast_to(everywhere, (len(shard.label), *everywhere.shape))
            for shard in shards
        ]
