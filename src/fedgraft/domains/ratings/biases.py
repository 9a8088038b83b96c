"""Rating = mean + user bias + item bias: the model that published federated recommenders seldom beat.

Biases minimise sum (r - mean - b_u - b_i)^2 + a sum b_u^2 + b sum b_i^2 (Koren, Bell, Volinsky, "Matrix factorization
techniques for recommender systems", IEEE Computer 2009, eq. (3) and (4) without the products), by alternating exact
solutions: b_u = sum over u's ratings of (r - mean - b_i), divided by (their number + a), and likewise for items.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fedgraft.contracts.scores import root_mean_square
from fedgraft.contracts.values import SPLITS
from fedgraft.domains.ratings.shards import Ids, RatingShard
from fedgraft.errors import require

Floats = NDArray[np.float64]

USER_SHRINKAGES = (2.0, 4.0, 6.0, 9.0, 13.0, 18.0, 25.0)
ITEM_SHRINKAGES = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
"""Grids around 9 and 2, the best on Ciao and Epinions."""


def fit_biases(
    user: Ids,
    item: Ids,
    rating: NDArray[np.floating],
    n_users: int,
    n_items: int,
    user_shrinkage: float,
    item_shrinkage: float,
    mean: float | None = None,
    sweeps: int = 10,
) -> tuple[float, Floats, Floats]:
    """Mean, user biases [n_users] and item biases [n_items]; 0 for who has no rating.

    `user` is int64 [n], within 0..n_users-1, `item` likewise, `rating` [n]. A shrinkage, >= 0, is how many ratings of
    bias 0 each user, or item, is given beside the own. Without a `mean` it is that of `rating` (0 if there is none). Of
    sweeps over users and items, >= 1, ten leave no change that shows in an RMSE.
    """
    if mean is None:
        mean = float(np.mean(rating, dtype=np.float64)) if len(rating) else 0.0
    residual = rating.astype(np.float64) - mean
    fits = fit_grid(user, item, residual, n_users, n_items, [(user_shrinkage, item_shrinkage)], sweeps)
    return mean, *next(fits)


def fit_grid(
    user: Ids,
    item: Ids,
    residual: Floats,
    n_users: int,
    n_items: int,
    shrinkages: Sequence[tuple[float, float]],
    sweeps: int = 10,
) -> Iterator[tuple[Floats, Floats]]:
    """User biases [n_users] and item biases [n_items] of `residual` [n], for one pair of shrinkages after another."""
    require(sweeps >= 1, "sweeps", "at least 1", sweeps)
    ones = np.ones(len(user))
    by_user = scipy.sparse.csr_matrix((ones, (user, item)), shape=(n_users, n_items))
    by_item = by_user.T.tocsr()
    user_sum = np.bincount(user, residual, n_users)
    item_sum = np.bincount(item, residual, n_items)
    user_count = np.bincount(user, minlength=n_users)
    item_count = np.bincount(item, minlength=n_items)
    for user_shrinkage, item_shrinkage in shrinkages:
        require(user_shrinkage >= 0, "user_shrinkage", "at least 0", user_shrinkage)
        require(item_shrinkage >= 0, "item_shrinkage", "at least 0", item_shrinkage)
        user_weight = _inverse(user_count + user_shrinkage)
        item_weight = _inverse(item_count + item_shrinkage)
        user_bias = np.zeros(n_users)
        for _ in range(sweeps):
            item_bias = (item_sum - by_item @ user_bias) * item_weight
            user_bias = (user_sum - by_user @ item_bias) * user_weight
        yield user_bias, item_bias


@dataclass(frozen=True, eq=False)
class Rows:
    """Every client's ratings in one table, for baselines that look at all of them.

    Args:
        client: int64 [n]; user: int64 [n]; item: int64 [n]; rating: float64 [n]; split: uint8 [n].
        scale: lowest and highest rating.
    """

    client: Ids
    user: Ids
    item: Ids
    rating: Floats
    split: NDArray[np.uint8]
    scale: tuple[float, float]

    @property
    def label(self) -> Floats:
        """Float64 [n], the ratings: what a constant is compared with."""
        return self.rating

    def rmse(self, prediction: Floats) -> dict[str, float]:
        """{"validation": RMSE, "test": RMSE} over all clients of predictions [n], clipped to the scale."""
        squared = (np.clip(prediction, *self.scale) - self.rating) ** 2
        held_out = {name: squared[self.split == SPLITS.index(name)] for name in SPLITS[1:]}
        return {name: root_mean_square(float(errors.sum()), len(errors)) for name, errors in held_out.items()}


def pool(shards: Sequence[RatingShard], apart: bool = False) -> Rows:
    """All shards' ratings with global ids; `apart` makes an overlapping user or item a different one at each client."""
    require(len(shards) > 0, "shards", "at least one", len(shards))
    user_starts = np.cumsum([0, *(len(shard.users) for shard in shards)])
    item_starts = np.cumsum([0, *(len(shard.items) for shard in shards)])
    users = [s.user + user_starts[c] if apart else s.users[s.user] for c, s in enumerate(shards)]
    items = [s.item + item_starts[c] if apart else s.items[s.item] for c, s in enumerate(shards)]
    return Rows(
        client=np.repeat(np.arange(len(shards)), [len(shard.rating) for shard in shards]),
        user=np.concatenate(users),
        item=np.concatenate(items),
        rating=np.concatenate([shard.rating for shard in shards]).astype(np.float64),
        split=np.concatenate([shard.split for shard in shards]),
        scale=shards[0].scale,
    )


@dataclass(frozen=True, eq=False)
class TunedBiases:
    """The fit that is best on validation: its shrinkages, its biases by id, and its scores."""

    user_shrinkage: float
    item_shrinkage: float
    user_bias: Floats
    item_bias: Floats
    scores: dict[str, float]


def tune_biases(
    rows: Rows, mean: Floats | float, user_shrinkages: Sequence[float], item_shrinkages: Sequence[float], sweeps: int
) -> TunedBiases:
    """Fit the training rows for every pair of shrinkages; the best on validation stands, the first of equals.

    Ids may be global or apart. `mean` is subtracted first, one number or one per row. Each grid has at least one value;
    `sweeps` are those of each fit.
    """
    train = rows.split == 0
    residual = rows.rating - mean
    grid = [(a, b) for a in user_shrinkages for b in item_shrinkages]
    fits = fit_grid(
        rows.user[train],
        rows.item[train],
        residual[train],
        int(rows.user.max()) + 1,
        int(rows.item.max()) + 1,
        grid,
        sweeps,
    )
    best: TunedBiases | None = None
    for (a, b), (user_bias, item_bias) in zip(grid, fits, strict=True):
        scores = rows.rmse(mean + user_bias[rows.user] + item_bias[rows.item])
        if best is None or scores["validation"] < best.scores["validation"]:
            best = TunedBiases(a, b, user_bias, item_bias, scores)
    if best is None:
        raise ValueError("a grid has at least one pair of shrinkages")
    return best


def _inverse(weights: NDArray[np.floating]) -> Floats:
    return np.asarray(np.divide(1.0, weights, out=np.zeros(len(weights)), where=weights > 0))
