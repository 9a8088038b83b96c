"""A linear model of every item by all others, in closed form, over all clients' users together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse
from annotated_types import MinLen
from numpy.typing import NDArray

from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.ranges import PositiveFloat
from fedgraft.domains.ranking.metrics import PooledUsers
from fedgraft.domains.ranking.shards import Ids, RankingShard


@dataclass(frozen=True)
class Ease(Baseline[RankingShard]):
    """EASE at one place: a user's score of an item is a weighted sum of what it has taken; penalty tuned on validation.

    Source: Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019, eq. (8).
    Differs: nothing known.

    Args:
        penalties: grid of squared-norm penalties of the weights, each > 0; 800 has the best AUC and 400 the best
            NDCG@50 on MovieLens-100K, 150 is near the best of neither.

    Needs: all training interactions at one place: not federated.
    Cost: none counted, as nothing is sent. Memory: 8 bytes for each pair of items, three times.
    """

    task: ClassVar[str] = "ranking"

    penalties: Annotated[tuple[PositiveFloat, ...], MinLen(1)] = (50.0, 100.0, 200.0, 400.0, 800.0, 1600.0)

    def score(self, shards: Sequence[RankingShard]) -> dict[str, float]:
        """Mean AUC over all clients' users, with the penalty of the best validation score."""
        pooled = PooledUsers.of(shards)
        matrix = pooled.matrix
        shared = (matrix.T @ matrix).toarray().astype(np.float64)
        weights = (item_weights(shared, penalty) for penalty in self.penalties)
        candidates = [pooled.score(partial(_scores, matrix, each)) for each in weights]
        return max(candidates, key=lambda scores: np.nan_to_num(scores["validation"]))


def item_weights(shared: NDArray[np.float64], penalty: float) -> NDArray[np.float32]:
    """Return the weights that score items, float32 [items, items], 0 on the diagonal.

    Args:
        shared: float64 [items, items], number of users who have taken both items.
        penalty: of the squared norm of the weights, > 0.
    """
    inverse = scipy.linalg.inv(shared + penalty * np.eye(len(shared)), overwrite_a=True, check_finite=False)
    weights: NDArray[np.float32] = (inverse / -np.diag(inverse)).astype(np.float32)
    np.fill_diagonal(weights, 0.0)
    return weights


def _scores(matrix: scipy.sparse.csr_matrix, weights: NDArray[np.float32], users: Ids) -> NDArray[np.float32]:
    scores: NDArray[np.float32] = matrix[users] @ weights
    return scores
