"""One number for every node of a client: the mean of its training nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts.yardstick import Yardstick
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.regression import rmse, training_mean


@dataclass(frozen=True)
class NodeMean(Yardstick[NodeShard]):
    """Predict the mean of each client's training nodes everywhere; a client without any has that of all.

    Source: none needed. Differs: nothing known.
    Needs: each client's own training labels; a sum and a count of each for clients without any.
    Cost: none counted.
    """

    task: ClassVar[str] = "node_regression"
    default: ClassVar[bool] = True

    def score(self, shards: Sequence[NodeShard]) -> dict[str, float]:
        """RMSE over all clients' validation and test nodes."""
        every = float(np.concatenate([shard.label[shard.rows("train")] for shard in shards]).mean())
        means = [np.nan_to_num(training_mean(shard), nan=every) for shard in shards]
        return rmse(shards, [np.full(shard.own, mean) for shard, mean in zip(shards, means, strict=True)])
