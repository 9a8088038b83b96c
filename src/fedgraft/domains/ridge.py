"""Ridge regression, with a penalty that is chosen on validation: what baselines of numbers fit."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.values import Indices

Floats = NDArray[np.float64]
PENALTIES = tuple(10.0**power for power in range(-3, 5))
"""Grid of penalties of squared weights; ours."""


@dataclass(frozen=True)
class Parts:
    """Positions of the examples to learn from and of those that choose the penalty, int64 each."""

    train: Indices
    judges: Indices


def ridge(features: Any, numbers: Floats, parts: Parts, penalties: tuple[float, ...] = PENALTIES) -> Floats:
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
