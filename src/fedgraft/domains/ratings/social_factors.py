"""Latent factors of all clients' users and items together: what social matrix factorisations at one place share.

Ratings are scaled to [0, 1]. Everything is a product of sparse matrices, whose values alone change from step to step.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fedgraft.contracts.scores import root_mean_square
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.domains.ratings.shards import Ids, RatingShard, merge_shards
from fedgraft.errors import require

Factors = NDArray[np.float32]
Scores = dict[str, float]

FIRST_MOMENT, SECOND_MOMENT, EPSILON = 0.9, 0.999, 1e-8
"""Of Adam (Kingma and Ba, ICLR 2015, Algorithm 1)."""


class Links:
    """Values on the edges of a fixed sparse structure [rows, columns], for products with factors.

    `row` and `column` are int64 [n], the ends of each edge, in any order.
    """

    def __init__(self, row: Ids, column: Ids, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.order = np.lexsort((column, row))
        self.row, self.column = row[self.order], column[self.order]
        counts = np.bincount(row, minlength=shape[0])
        self._pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        self._columns = self.column.astype(np.int32)

    def matrix(self, values: Factors) -> scipy.sparse.csr_matrix:
        """Return the matrix with these values, one per edge in the order of `row` and `column`."""
        return scipy.sparse.csr_matrix((values, self._columns, self._pointers), shape=self.shape, copy=False)

    def products(self, rows: Factors, columns: Factors) -> Factors:
        """Return the inner product of both ends' factors for each edge, float32 [edges]."""
        return np.asarray(np.einsum("nk,nk->n", rows[self.row], columns[self.column]))


@dataclass(frozen=True, eq=False)
class PooledRatings:
    """All clients' ratings and trust links as one client's shard; ids leave no gaps."""

    shard: RatingShard

    @classmethod
    def of(cls, shards: Sequence[RatingShard]) -> "PooledRatings":
        """Pool the shards."""
        require(len(shards) > 0, "shards", "at least one", len(shards))
        return cls(merge_shards(shards))

    @property
    def users(self) -> int:
        """int, the number of users."""
        return len(self.shard.users)

    @property
    def items(self) -> int:
        """int, the number of items."""
        return len(self.shard.items)

    @cached_property
    def train(self) -> Ids:
        """int64 [ratings], positions of training ratings in the shard."""
        return self.shard.rows("train")

    @cached_property
    def rated(self) -> Links:
        """Training ratings as edges from users to items."""
        return Links(self.shard.user[self.train], self.shard.item[self.train], (self.users, self.items))

    @cached_property
    def target(self) -> Factors:
        """float32 [ratings], training ratings in [0, 1], in the order of `rated`."""
        return self.scaled(self.shard.rating[self.train][self.rated.order])

    def scaled(self, rating: NDArray[np.floating]) -> Factors:
        """Return ratings in [0, 1], float32."""
        low, high = self.shard.scale
        return ((rating - low) / (high - low)).astype(np.float32)

    def scores_of_mean(self) -> Scores:
        """Return the scores of the mean of training ratings alone."""
        return self.scores(lambda user, item: np.full(len(user), self.target.mean(), np.float32))

    def scores(self, predict: Callable[[Ids, Ids], Factors]) -> Scores:
        """Return {"validation": RMSE, "test": RMSE} of predictions in [0, 1] from (users, items), clipped to it."""
        low, high = self.shard.scale
        scores = {}
        for split in SCORED_SPLITS:
            rows = self.shard.rows(split)
            predicted = predict(self.shard.user[rows], self.shard.item[rows])
            error = (np.clip(predicted, 0, 1) - self.scaled(self.shard.rating[rows])).astype(np.float64) * (high - low)
            scores[split] = root_mean_square(float((error**2).sum()), len(error))
        return scores


_STEPS_A_JUDGEMENT = 5


def best_of(scores: Iterable[Scores]) -> Scores:
    """Return the scores that are best on validation, the first of equals."""
    return min(scores, key=lambda each: each["validation"])


def descend(
    parameters: Sequence[Factors],
    gradients: Callable[[], Sequence[Factors]],
    judge: Callable[[], Scores],
    rate: float,
    steps: int,
    patience: int,
) -> Scores:
    """Move float32 parameters in place by Adam; return the scores at the step that is best on validation.

    `gradients` gives one per parameter, at the parameters as they are. `judge` gives {"validation": score, "test":
    score}, lower is better, every fifth step. At most `steps` are taken; as many judgements as `patience` without
    a better one end it. All are at least 1, and Adam's `rate` is above 0.
    """
    first = [np.zeros_like(parameter) for parameter in parameters]
    second = [np.zeros_like(parameter) for parameter in parameters]
    best, since = judge(), 0
    for step in range(1, steps + 1):
        length = np.float32(rate * np.sqrt(1 - SECOND_MOMENT**step) / (1 - FIRST_MOMENT**step))
        for parameter, gradient, mean, square in zip(parameters, gradients(), first, second, strict=True):
            mean += np.float32(1 - FIRST_MOMENT) * (gradient - mean)
            square += np.float32(1 - SECOND_MOMENT) * (gradient * gradient - square)
            parameter -= length * mean / (np.sqrt(square) + np.float32(EPSILON))
        if step % _STEPS_A_JUDGEMENT == 0:
            scores, since = judge(), since + 1
            if scores["validation"] < best["validation"]:
                best, since = scores, 0
            if since >= patience:
                break
    return best
