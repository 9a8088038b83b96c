"""One class for every graph of a client: the one most frequent in training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts.values import Indices
from fedgraft.contracts.yardstick import Yardstick
from fedgraft.domains.graphs.shards import GraphShard, accuracy


@dataclass(frozen=True)
class Majority(Yardstick[GraphShard]):
    """Predict each client's most frequent training class everywhere.

    Source: none needed. Differs: nothing known.
    Needs: each client's own training labels.
    Cost: none.
    """

    task: ClassVar[str] = "graph"
    default: ClassVar[bool] = True
    local: ClassVar[bool] = True

    def score(self, shards: Sequence[GraphShard]) -> dict[str, float]:
        """Accuracy over all clients' validation and test graphs."""
        return accuracy(shards, [self.predict(shard) for shard in shards])

    def predict(self, shard: GraphShard) -> Indices:
        """The predicted class of every graph of a client, int64 [graphs]; of equally frequent ones the first."""
        counts = np.bincount(shard.label[shard.rows("train")], minlength=len(shard.classes))
        return np.full(shard.graphs, counts.argmax())
