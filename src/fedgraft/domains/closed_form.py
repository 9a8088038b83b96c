"""Linear models in closed form, from sums over examples: class means, and ridge regression with its penalty.

Baselines of numbers fit `chosen_ridge`, with a penalty that is chosen on validation.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.values import Indices

Floats = NDArray[np.float64]

PENALTIES: Final = tuple(10.0 ** (power / 2) for power in range(-8, 5))
"""Penalties to choose from, in mean eigenvalues of the features' covariance; ours."""
USED: Final = 0.95
"""Most degrees of freedom that a fit may take, as a share of the examples; ours."""


class Solution(NamedTuple):
    """A linear model: float64 `weight` [outputs, features] and `bias` [outputs]."""

    weight: Floats
    bias: Floats


def packed(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the diagonal of a symmetric matrix [n, n], and what is above it, row by row, [n (n - 1) / 2]."""
    return matrix.diagonal().copy(), matrix[np.triu_indices(len(matrix), 1)]


def unpacked(diagonal: Floats, above: Floats) -> Floats:
    """Return the symmetric matrix [n, n] that `packed` took apart."""
    matrix = np.zeros((len(diagonal), len(diagonal)))
    matrix[np.triu_indices(len(diagonal), 1)] = above
    return matrix + matrix.T + np.diag(diagonal)


def nearest_means(sums: Floats, counts: Floats) -> Solution:
    """Return the inner products with the mean of each class, brought to one length.

    Outputs for the examples' own classes are 1 in root mean squares of the classes' means of them.

    Args:
        sums: [classes, features], of the features of each class's examples.
        counts: [classes], of its examples; a class without any has weights of 0.
    """
    lengths = np.linalg.norm(sums, axis=1)
    known = (counts > 0) & (lengths > 0)
    if not known.any():
        return Solution(np.zeros_like(sums), np.zeros(len(sums)))
    typical = np.sqrt(np.square(lengths[known] / counts[known]).mean())
    weight = np.where(known[:, None], sums / np.where(known, lengths, 1.0)[:, None], 0.0) / typical
    return Solution(weight, np.zeros(len(sums)))


def ridge(gram: Floats, cross: Floats, squares: Floats, penalty: float = 0.0) -> Solution:
    """Return least squares with a penalty of squared weights; the bias has none.

    With features and targets less their means, and m the mean eigenvalue of the features' X^T X, that solves

        (X^T X + penalty m I) W = X^T Y.

    So neither the features' unit nor the number of examples has a part in it. What a codec's rounding has made of sums
    that no examples can have is cut: negative eigenvalues count as 0, and products with targets are at most what Cauchy
    and Schwarz allow.

    Source: Golub, Heath and Wahba, "Generalized Cross-Validation as a Method for Choosing a Good Ridge Parameter",
        Technometrics 1979: n ||Y - X W||^2 / (n - d)^2, d being the degrees of freedom, bias included.

    Args:
        gram: [features + 1, features + 1], sums of products of features, of which the last is 1 for all examples.
        cross: [features + 1, outputs], sums of products of these and targets.
        squares: [outputs], sums of squares of targets.
        penalty: >= 0; 0 = the one of `PENALTIES` with the least error by generalised cross-validation.
    """
    count = max(gram[-1, -1], 0.0)
    if not count:
        return Solution(np.zeros((cross.shape[1], len(gram) - 1)), np.zeros(cross.shape[1]))
    mean, constant = gram[-1, :-1] / count, cross[-1] / count
    values, vectors = np.linalg.eigh(gram[:-1, :-1] - count * np.outer(mean, mean))
    values = np.maximum(values, 0.0)
    scale = values.mean()
    if not scale:
        return Solution(np.zeros((cross.shape[1], len(mean))), constant)
    turned = vectors.T @ (cross[:-1] - count * np.outer(mean, constant))
    left = np.maximum(squares - count * constant**2, 0.0)
    most = np.sqrt(np.outer(values, left))
    turned = np.clip(turned, -most, most)
    chosen = penalty or min(
        reversed(PENALTIES), key=lambda each: _expected(values, turned, float(left.sum()), count, each * scale)
    )
    weight = (vectors @ (turned / (values + chosen * scale)[:, None])).T
    return Solution(weight, constant - weight @ mean)


def _expected(values: Floats, turned: Floats, left: float, count: float, penalty: float) -> float:
    """The error by generalised cross-validation, up to a factor; larger where nearly all examples are used up."""
    shrunk = values + penalty
    used = 1.0 + float((values / shrunk).sum())
    solved = turned / shrunk[:, None]
    error = left - 2 * float((solved * turned).sum()) + float((values[:, None] * solved**2).sum())
    return error / (count - used) ** 2 if error > 0 and used < USED * count else np.inf


RIDGE_GRID = tuple(10.0**power for power in range(-3, 5))
"""Grid of penalties of squared weights; ours."""


@dataclass(frozen=True)
class Parts:
    """Positions of the examples to learn from and of those that choose the penalty, int64 each."""

    train: Indices
    judges: Indices


def chosen_ridge(features: Any, numbers: Floats, parts: Parts, penalties: tuple[float, ...] = RIDGE_GRID) -> Floats:
    """Return what a ridge regression tells of every example, float64 [examples]; of no training example nan.

    Columns are centred by training examples and scaled to variance 1 in them (sparse ones are left as they are), and an
    intercept is not penalised.

    Features are [examples, columns], dense or CSR; numbers are float64 [examples], of which those of the training
    examples and judges are looked at. Without judges the training examples choose among the penalties, each > 0; of
    equally good ones the first.
    """
    if not len(parts.train):
        return np.full(features.shape[0], np.nan)
    known = numbers[parts.train]
    mean = float(known.mean())
    rows = _standardised(features, parts.train)
    judges = parts.judges if len(parts.judges) else parts.train
    # In the space of training examples or of columns, whichever is smaller: a sum of squares of either is symmetric.
    train = rows[parts.train]
    wide = train.shape[1] > train.shape[0]
    gram = train @ train.T if wide else train.T @ train
    gram = gram.toarray() if sparse.issparse(gram) else np.asarray(gram)
    values, vectors = np.linalg.eigh(gram)
    target = vectors.T @ ((known - mean) if wide else np.asarray(train.T @ (known - mean)))
    best, least = np.full(rows.shape[0], mean), np.inf
    for penalty in penalties:
        solved = vectors @ (target / (np.maximum(values, 0) + penalty))
        predicted = mean + np.asarray(rows @ (train.T @ solved if wide else solved))
        error = float(np.square(predicted[judges] - numbers[judges]).mean())
        if error < least:
            best, least = predicted, error
    return best


def _standardised(features: Any, train: Indices) -> Any:
    if sparse.issparse(features):
        return features.astype(np.float64)
    rows = np.asarray(features, np.float64)
    rows = rows - rows[train].mean(axis=0)
    spread = rows[train].std(axis=0)
    return rows / np.where(spread > 0, spread, 1.0)
