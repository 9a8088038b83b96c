"""One class for every node: the one most frequent in training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedgraft.contracts.labels import Labels
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import Constant
from fedgraft.domains.nodes.base.shards import NodeShard, pooled


@dataclass(frozen=True)
class NodeMajority(Constant[NodeShard]):
    """Predict the most frequent training class of all clients everywhere; of equally frequent ones the first.

    Source: none needed. Differs: nothing known.
    Needs: one count per class of each client.
    Cost: 8 bytes a class and client, once.
    """

    task: ClassVar[str] = "node"
    labels: ClassVar[Labels] = Classes()

    def views(self, shards: Sequence[NodeShard]) -> Sequence[NodeShard]:
        """Return all nodes as one client's. Raises `InputError` if none of them is for training."""
        return [pooled(shards)]
