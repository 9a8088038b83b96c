"""Biases of users and items over all clients' ratings together, as if they had been pooled."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import MinLen

from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.ranges import NonNegativeFloat, PositiveInt
from fedgraft.domains.ratings.biases import ITEM_SHRINKAGES, USER_SHRINKAGES, pool, tune_biases
from fedgraft.domains.ratings.shards import RatingShard


@dataclass(frozen=True)
class CentralBiases(Baseline[RatingShard]):
    """User and item biases fitted to all clients' training ratings at one place; shrinkages tuned on validation.

    Source: Koren, Bell, Volinsky, IEEE Computer 2009, eq. (3) and (4) no products (`fedgraft.domains.ratings.biases`).
    Differs: users and items have shrinkages of their own; predictions are clipped to the scale.

    Args:
        user_shrinkages: grid of pseudo-ratings of bias 0 per user, each >= 0; around the best on Ciao and Epinions.
        item_shrinkages: the same per item.
        sweeps: alternations of a fit, >= 1.

    Needs: all training ratings at one place: not federated, a bound for what sharing biases could bring.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "rating"
    default: ClassVar[bool] = True

    user_shrinkages: Annotated[tuple[NonNegativeFloat, ...], MinLen(1)] = USER_SHRINKAGES
    item_shrinkages: Annotated[tuple[NonNegativeFloat, ...], MinLen(1)] = ITEM_SHRINKAGES
    sweeps: PositiveInt = 10

    def score(self, shards: Sequence[RatingShard]) -> dict[str, float]:
        """RMSE over all clients' validation and test ratings."""
        rows = pool(shards)
        mean = float(rows.rating[rows.split == 0].mean())
        return tune_biases(rows, mean, self.user_shrinkages, self.item_shrinkages, self.sweeps).scores
