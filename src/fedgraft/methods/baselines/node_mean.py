"""One number for every node of a client: the mean of its training nodes."""

from dataclasses import dataclass
from typing import ClassVar

from fedgraft.contracts.labels import Labels
from fedgraft.domains.labels.constant import Constant
from fedgraft.domains.labels.numbers import Numbers
from fedgraft.domains.nodes.base.shards import NodeShard


@dataclass(frozen=True)
class NodeMean(Constant[NodeShard]):
    """Predict the mean of each client's training nodes everywhere; a client without any has that of all.

    Source: none needed. Differs: nothing known.
    Needs: each client's own training labels; a sum and a count of each for clients without any.
    Cost: none counted.
    """

    task: ClassVar[str] = "node_regression"
    labels: ClassVar[Labels] = Numbers()
    own: ClassVar[bool] = True
