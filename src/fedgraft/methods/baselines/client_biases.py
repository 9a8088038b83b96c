"""Biases of users and items inside each client: what a shop can do alone, for zero bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import MinLen

from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.ranges import NonNegativeFloat, PositiveInt
from fedgraft.domains.ratings.biases import ITEM_SHRINKAGES, USER_SHRINKAGES, pool, tune_biases
from fedgraft.domains.ratings.shards import RatingShard


@dataclass(frozen=True)
class ClientBiases(Baseline[RatingShard]):
    """Mean, user and item biases fitted inside each client; shrinkages, equal for all, tuned on pooled validation.

    Source: Koren, Bell, Volinsky, IEEE Computer 2009, eq. (3) and (4) no products (`fedgraft.domains.ratings.biases`).
    Differs: users and items have shrinkages of their own; predictions are clipped to the scale.

    Args:
        user_shrinkages: grid of pseudo-ratings of bias 0 per user, each >= 0; around the best on Ciao and Epinions.
        item_shrinkages: the same per item.
        sweeps: alternations of a fit, >= 1.

    Needs: each client's own training ratings.
    Cost: none, once the shrinkages stand; choosing them takes every client's validation sums for each pair of the grid.
    """

    task: ClassVar[str] = "rating"
    default: ClassVar[bool] = True
    local: ClassVar[bool] = True

    user_shrinkages: Annotated[tuple[NonNegativeFloat, ...], MinLen(1)] = USER_SHRINKAGES
    item_shrinkages: Annotated[tuple[NonNegativeFloat, ...], MinLen(1)] = ITEM_SHRINKAGES
    sweeps: PositiveInt = 10

    def score(self, shards: Sequence[RatingShard]) -> dict[str, float]:
        """RMSE over all clients' validation and test ratings."""
        rows = pool(shards, apart=True)
        train = rows.split == 0
        sums = np.bincount(rows.client[train], rows.rating[train], len(shards))
        mean = (sums / np.bincount(rows.client[train], minlength=len(shards)))[rows.client]
        return tune_biases(rows, mean, self.user_shrinkages, self.item_shrinkages, self.sweeps).scores
