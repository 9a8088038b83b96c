"""Biases and the product of latent factors, over all clients' ratings together."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import scipy.sparse
from annotated_types import MinLen

from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import NonNegativeInt, PositiveFloat, PositiveInt
from fedgraft.domains.ratings.biases import ITEM_SHRINKAGES, USER_SHRINKAGES, Floats, Rows, pool, tune_biases
from fedgraft.domains.ratings.shards import RatingShard

CHUNK = 16384
"""Normal equations solved at a time, so that they stay in tens of megabytes."""


@dataclass(frozen=True)
class MatrixFactorisation(Baseline[RatingShard]):
    """Biased matrix factorisation at one place, by alternating least squares; all of it tuned on validation.

    Source: Koren, Bell, Volinsky, IEEE Computer 2009, eq. (4) and (5), and its "alternating least squares".
    Differs: biases have the shrinkages that are best without factors; a user's (item's) bias and factors are solved for
    together; each fit stops at the sweep that is best on validation; no factors at all (the biases) is in the grid too;
    predictions are clipped to the scale.

    Args:
        ranks: grid of numbers of factors, each >= 1.
        penalties: grid of squared-norm penalties of the factors, each > 0; 16 to 20 is best on Ciao and Epinions.
        sweeps: most alternations of a fit, >= 1.
        patience: sweeps without a better validation score that end a fit, >= 1.
        spread: standard deviation of the factors at the start, > 0; small, so that a fit starts from the biases.
        seed: of the factors at the start, >= 0.

    Needs: all training ratings at one place: not federated.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "rating"

    ranks: Annotated[tuple[PositiveInt, ...], MinLen(1)] = (2, 4, 8)
    penalties: Annotated[tuple[PositiveFloat, ...], MinLen(1)] = (4.0, 8.0, 12.0, 16.0, 20.0)
    sweeps: PositiveInt = 15
    patience: PositiveInt = 4
    spread: PositiveFloat = 0.1
    seed: NonNegativeInt = 0

    def score(self, shards: Sequence[RatingShard]) -> dict[str, float]:
        """RMSE over all clients' validation and test ratings."""
        rows = _occurring(pool(shards))
        train = rows.split == 0
        mean = float(rows.rating[train].mean())
        start = tune_biases(rows, mean, USER_SHRINKAGES, ITEM_SHRINKAGES, sweeps=10)
        shape = (len(start.user_bias), len(start.item_bias))
        places = (rows.user[train], rows.item[train])
        ones = scipy.sparse.csr_matrix((np.ones(train.sum()), places), shape)
        residual = scipy.sparse.csr_matrix((rows.rating[train] - mean, places), shape)
        ones_by_item, residual_by_item = ones.T.tocsr(), residual.T.tocsr()
        best = start.scores
        for rank, penalty in itertools.product(self.ranks, self.penalties):
            g = generator(self.seed, "matrix_factorisation")
            items = np.column_stack([start.item_bias, g.normal(0, self.spread, (shape[1], rank))])
            own_best, best_sweep = math.inf, 0
            for sweep in range(self.sweeps):
                users = _solve(ones, residual, items, start.user_shrinkage, penalty)
                items = _solve(ones_by_item, residual_by_item, users, start.item_shrinkage, penalty)
                scores = rows.rmse(mean + _predict(users, items, rows))
                if scores["validation"] < own_best:
                    own_best, best_sweep = scores["validation"], sweep
                if scores["validation"] < best["validation"]:
                    best = scores
                if sweep - best_sweep >= self.patience:
                    break
        return best


def _solve(
    ones: scipy.sparse.csr_matrix, residual: scipy.sparse.csr_matrix, others: Floats, shrinkage: float, penalty: float
) -> Floats:
    """[rows, 1 + rank]: bias and factors of every row of the matrices, given those of the columns in `others`."""
    inputs = np.column_stack([np.ones(len(others)), others[:, 1:]])
    width = inputs.shape[1]
    left, right = np.triu_indices(width)
    products = ones @ (inputs[:, left] * inputs[:, right])
    targets = residual @ inputs - ones @ (inputs * others[:, :1])
    ridge = np.diag([shrinkage, *[penalty] * (width - 1)])
    solved = np.empty((len(products), width))
    for first in range(0, len(products), CHUNK):
        part = slice(first, first + CHUNK)
        normal = np.empty((len(products[part]), width, width))
        normal[:, left, right] = products[part]
        normal[:, right, left] = products[part]
        solved[part] = np.linalg.solve(normal + ridge, targets[part][:, :, None])[:, :, 0]
    return solved


def _predict(users: Floats, items: Floats, rows: Rows) -> Floats:
    mine, its = users[rows.user], items[rows.item]
    products: Floats = np.einsum("nk,nk->n", mine[:, 1:], its[:, 1:])
    return mine[:, 0] + its[:, 0] + products


def _occurring(rows: Rows) -> Rows:
    """Return the rows with ids that leave no gaps, so that no equation is solved for who has no rating."""
    user = np.unique(rows.user, return_inverse=True)[1]
    item = np.unique(rows.item, return_inverse=True)[1]
    return Rows(rows.client, user, item, rows.rating, rows.split, rows.scale)
