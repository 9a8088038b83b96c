"""Randomised response over K classes: each unit tells its own class, or another, by chance.

Source: Warner, JASA 1965; Kairouz, Bonawitz, Ramage, "Discrete Distribution Estimation under Local Privacy", ICML 2016.
An answer is epsilon-private whoever sees it. Drawn once for a unit and used again, it costs epsilon once.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedgraft.errors import require
from fedgraft.secrets.keystream import Source, uniform_below

_BITS = 40
"""Of the number that decides whether the true class is told."""
Floats = NDArray[np.float64]


def truth_probability(classes: int, epsilon: float) -> float:
    """Return the probability of the true class: exp(epsilon) / (exp(epsilon) + K - 1), rounded down to 2**-40.

    Each other one has (1 - that) / (K - 1).

    Args:
        classes: K, >= 2.
        epsilon: > 0 and finite.
    """
    require(classes >= 2, "The number of classes", ">= 2", classes)
    require(0 < epsilon < math.inf, "epsilon", "> 0 and finite", epsilon)
    exact = 1 / (1 + (classes - 1) * math.exp(-epsilon))
    return float(max(math.floor(exact * 2**_BITS) - 1, math.ceil(2**_BITS / classes)) / 2**_BITS)


def answers(labels: NDArray[np.integer], classes: int, epsilon: float, source: Source) -> NDArray[np.int64]:
    """Return int64 [n], what each unit tells.

    Args:
        labels: [n], in 0 ... K - 1.
        classes: K, >= 2.
        epsilon: > 0 and finite.
        source: of uniform words.

    Raises `InputError` for a label that is no class.
    """
    truth = int(truth_probability(classes, epsilon) * 2**_BITS)
    label = np.asarray(labels, np.int64)
    wrong = label[(label < 0) | (label >= classes)].tolist()
    require(not wrong, "A label", f"in [0, {classes - 1}]", wrong[0] if wrong else None)
    other = uniform_below(classes - 1, len(label), source)
    honest = source.words(len(label)) >> np.uint64(64 - _BITS) < truth
    return np.where(honest, label, other + (other >= label))


def debiased_rows(answered: NDArray[np.integer], classes: int, epsilon: float) -> Floats:
    """Return float64 [n, K], for each answer a row whose mean over chance is the one-hot row of the true class.

    Rows are linear in answers: sums and means of rows are unbiased, too. Entries are (answer - q) / (p - q), with p of
    the true class and q of each other; they sum to 1, and some are below 0.
    """
    p, q = _probabilities(classes, epsilon)
    return (np.eye(classes)[np.asarray(answered)] - q) / (p - q)


def largest(classes: int, epsilon: float) -> float:
    """Return the largest magnitude in `debiased_rows`, >= 1: (1 - q) / (p - q)."""
    p, q = _probabilities(classes, epsilon)
    return (1 - q) / (p - q)


def _probabilities(classes: int, epsilon: float) -> tuple[float, float]:
    p = truth_probability(classes, epsilon)
    q = (1 - p) / (classes - 1)
    require(p > q, "epsilon", f"large enough that answers tell anything, above {classes * 2.0**-_BITS:g}", epsilon)
    return p, q
