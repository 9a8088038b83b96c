"""One class for every node: the one most frequent in training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts.yardstick import Yardstick
from fedgraft.domains.nodes.base.pooled_graph import accuracy, pooled
from fedgraft.domains.nodes.base.shards import NodeShard


@dataclass(frozen=True)
class NodeMajority(Yardstick[NodeShard]):
    """Predict the most frequent training class of all clients everywhere; of equally frequent ones the first.

    Source: none needed. Differs: nothing known.
    Needs: one count per class of each client.
    Cost: 8 bytes a class and client, once.
    """

    task: ClassVar[str] = "node"
    default: ClassVar[bool] = True

    def score(self, shards: Sequence[NodeShard]) -> dict[str, float]:
        """Accuracy over all clients' validation and test nodes."""
        graph = pooled(shards)
        return accuracy(graph, np.full(graph.own, np.bincount(graph.label[graph.rows("train")]).argmax()))
