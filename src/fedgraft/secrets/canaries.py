"""What canaries show: an epsilon that a trained model does not keep, whatever is claimed of it.

Canaries are examples made to be remembered. A coin decides for each whether it is trained on; whoever sees the model
guesses the coins of as many canaries as they like. Many right guesses refute a small epsilon.

Source: Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training Run", NeurIPS 2023, Theorem 5.2
    and Appendix D.
"""

import math

import numpy as np
from scipy.stats import binom

from fedgraft.errors import require

_HALVINGS = 60


def chance(correct: int, guesses: int, epsilon: float, delta: float = 0.0, canaries: int | None = None) -> float:
    """Return the most probability of so many right guesses for what is (epsilon, delta)-private.

    With f(v) the probability that a binomial of r trials at exp(epsilon) / (1 + exp(epsilon)) is at least v:
    f(v) + 2 m delta max over i in 1 ... m of (f(v - i) - f(v)) / i.

    Args:
        correct: v, right guesses, in [0, guesses].
        guesses: r, in [1, canaries].
        epsilon: >= 0.
        delta: in [0, 1].
        canaries: m, each in training by a fair coin; None is `guesses`.
    """
    every = guesses if canaries is None else canaries
    require(guesses >= 1, "The number of guesses", ">= 1", guesses)
    require(0 <= correct <= guesses, "The number of right guesses", f"in [0, {guesses}], the guesses", correct)
    require(every >= guesses, "The number of canaries", f">= {guesses}, the guesses", every)
    require(epsilon >= 0, "epsilon", ">= 0", epsilon)
    require(0 <= delta <= 1, "delta", "in [0, 1]", delta)
    if correct == 0:
        return 1.0
    back = np.arange(correct + 1)  # further back f stays 1, and the quotient falls
    tail = binom.sf(correct - back - 1, guesses, 1 / (1 + math.exp(-epsilon)))
    steepest = np.max((tail[1:] - tail[0]) / back[1:])
    return float(min(1.0, tail[0] + 2 * every * delta * steepest))


def epsilon_lower_bound(
    correct: int, guesses: int, delta: float = 0.0, confidence: float = 0.95, canaries: int | None = None
) -> float:
    """Return an epsilon that is refuted: what guesses so well is not (epsilon, delta)-private for any smaller one.

    Wrong with a probability of at most 1 - confidence, if how many guesses are made does not depend on which are right.

    Args:
        correct: right guesses, in [0, guesses].
        guesses: in [1, canaries].
        delta: in [0, 1].
        confidence: in (0, 1).
        canaries: each in training by a fair coin; None is `guesses`.

    Returns:
        epsilon >= 0; 0 where nothing is refuted.
    """
    require(0 < confidence < 1, "The confidence", "in (0, 1)", confidence)

    def refuted(epsilon: float) -> bool:
        return chance(correct, guesses, epsilon, delta, canaries) < 1 - confidence

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
