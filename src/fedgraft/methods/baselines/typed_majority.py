"""One class for every node of the target type: the one most frequent in training."""

from dataclasses import dataclass
from typing import ClassVar

from fedgraft.contracts.labels import Labels
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import Constant
from fedgraft.domains.typed.shards import TypedGraph


@dataclass(frozen=True)
class TypedMajority(Constant[TypedGraph]):
    """Predict the most frequent training class of all clients everywhere; of equally frequent ones the first.

    Source: none needed. Differs: nothing known.
    Needs: one count per class of each client.
    Cost: 8 bytes a class and client, once.
    """

    task: ClassVar[str] = "typed_node"
    labels: ClassVar[Labels] = Classes()
