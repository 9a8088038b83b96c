"""One number for every graph of a client: the mean of its training graphs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts.yardstick import Yardstick
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.regression import rmse, training_mean


@dataclass(frozen=True)
class GraphMean(Yardstick[GraphShard]):
    """Predict the mean of each client's training graphs everywhere.

    Source: none needed. Differs: nothing known.
    Needs: each client's own training labels.
    Cost: none.
    """

    task: ClassVar[str] = "graph_regression"
    default: ClassVar[bool] = True
    local: ClassVar[bool] = True

    def score(self, shards: Sequence[GraphShard]) -> dict[str, float]:
        """RMSE over all clients' validation and test graphs."""
        return rmse(shards, [np.full(shard.graphs, training_mean(shard)) for shard in shards])
