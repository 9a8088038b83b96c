"""One number for every graph of a client: the mean of its training graphs."""

from dataclasses import dataclass
from typing import ClassVar

from fedgraft.contracts.labels import Labels
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.labels.constant import Constant
from fedgraft.domains.labels.numbers import Numbers


@dataclass(frozen=True)
class GraphMean(Constant[GraphShard]):
    """Predict the mean of each client's training graphs everywhere.

    Source: none needed. Differs: nothing known.
    Needs: each client's own training labels.
    Cost: none.
    """

    task: ClassVar[str] = "graph_regression"
    labels: ClassVar[Labels] = Numbers()
    local: ClassVar[bool] = True
    own: ClassVar[bool] = True
