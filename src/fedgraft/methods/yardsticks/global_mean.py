"""One number for every rating: the mean of all training ratings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts.yardstick import Yardstick
from fedgraft.domains.ratings.biases import pool
from fedgraft.domains.ratings.shards import RatingShard


@dataclass(frozen=True)
class GlobalMean(Yardstick[RatingShard]):
    """Predict the mean of all clients' training ratings everywhere.

    Source: none needed. Differs: nothing known.
    Needs: one sum and one count of each client.
    Cost: 16 bytes a client, once.
    """

    task: ClassVar[str] = "rating"
    default: ClassVar[bool] = True

    def score(self, shards: Sequence[RatingShard]) -> dict[str, float]:
        """RMSE over all clients' validation and test ratings."""
        rows = pool(shards)
        return rows.rmse(np.full(len(rows.rating), rows.rating[rows.split == 0].mean()))
