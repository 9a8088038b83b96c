"""One number for every rating: the mean of all training ratings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedgraft.contracts.labels import Labels
from fedgraft.domains.labels.constant import Constant
from fedgraft.domains.labels.numbers import Numbers
from fedgraft.domains.ratings.biases import Rows, pool
from fedgraft.domains.ratings.shards import RatingShard


@dataclass(frozen=True)
class GlobalMean(Constant[RatingShard]):
    """Predict the mean of all clients' training ratings everywhere.

    Source: none needed. Differs: nothing known.
    Needs: one sum and one count of each client.
    Cost: 16 bytes a client, once.
    """

    task: ClassVar[str] = "rating"
    labels: ClassVar[Labels] = Numbers()

    def views(self, shards: Sequence[RatingShard]) -> Sequence[Rows]:
        """Return the ratings of all clients as one's."""
        return [pool(shards)]
