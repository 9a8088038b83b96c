"""One class for every graph of a client: the one most frequent in training."""

from dataclasses import dataclass
from typing import ClassVar

from fedgraft.contracts.labels import Labels
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import Constant


@dataclass(frozen=True)
class Majority(Constant[GraphShard]):
    """Predict each client's most frequent training class everywhere.

    Source: none needed. Differs: nothing known.
    Needs: each client's own training labels.
    Cost: none.
    """

    task: ClassVar[str] = "graph"
    labels: ClassVar[Labels] = Classes()
    local: ClassVar[bool] = True
    own: ClassVar[bool] = True
