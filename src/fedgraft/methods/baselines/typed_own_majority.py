"""One class for every node of the target type of a client: the one most frequent in its own training."""

from dataclasses import dataclass
from typing import ClassVar

from fedgraft.contracts.labels import Labels
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import Constant
from fedgraft.domains.typed.shards import TypedGraph


@dataclass(frozen=True)
class TypedOwnMajority(Constant[TypedGraph]):
    """Predict each client's most frequent training class everywhere in it; of equally frequent ones the first.

    Where clients differ in their classes this is far above `typed_majority`, and a model must beat it to have learnt
    more than how often classes come.

    Source: none needed. Differs: a client without training labels says what is most frequent at all clients.
    Needs: each client's own training labels; one count per class of each client where one has none.
    Cost: none; 8 bytes a class and client, once, where a client has none.
    """

    task: ClassVar[str] = "typed_node"
    labels: ClassVar[Labels] = Classes()
    default: ClassVar[bool] = False
    local: ClassVar[bool] = True
    own: ClassVar[bool] = True
