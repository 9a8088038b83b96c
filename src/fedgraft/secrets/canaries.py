"""What canaries show: an epsilon that a trained model does not keep, whatever is claimed of it.

Canaries are examples made to be remembered. A coin decides for each whether it is trained on; whoever sees the model
guesses the coins of as many canaries as they like. Many right guesses refute a small epsilon.

Source: Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training Run", NeurIPS 2023, Theorem 5.2
    and Appendix D.
Differs: several numbers of guesses are tried and corrected after Bonferroni; there one is fixed beforehand.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.stats import binom

from fedgraft.errors import require

CONFIDENCE: Final = 0.95
"""Of a bound, by default."""
_HALVINGS = 60
_NUMBERS: Final = 6
"""Numbers of guesses that are tried, at most; ours. Each further one costs all of them confidence."""
_FEWEST: Final = 16
"""Guesses of which one number is worth its share of the error, unless there are no more canaries; ours."""
_FINER: Final = 1.1
"""Factor between two numbers of canaries that are looked at to reach an epsilon; ours."""
_MOST_CANARIES: Final = 100_000
"""Where that search ends: beyond it a run has no such number of examples."""


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
    correct: int, guesses: int, delta: float = 0.0, confidence: float = CONFIDENCE, canaries: int | None = None
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


def numbers_of_guesses(canaries: int) -> list[int]:
    """Return the numbers of guesses that are tried of so many canaries, >= 2, descending, each even.

    All are guessed, half of them, a quarter, and so on: they depend on how many canaries there are, and on nothing that
    a run tells.
    """
    require(canaries >= 2, "The number of canaries", ">= 2", canaries)
    numbers = [canaries // 2 * 2]
    while len(numbers) < _NUMBERS and (fewer := numbers[-1] // 4 * 2) >= _FEWEST:
        numbers.append(fewer)
    return numbers


def best_lower_bound(
    tried: Sequence[tuple[int, int]], canaries: int, delta: float = 0.0, confidence: float = CONFIDENCE
) -> tuple[float, int]:
    """Return the largest epsilon that any of several numbers of guesses refutes, and the place of that number.

    Corrected after Bonferroni: each is held to 1 - (1 - confidence) / len(tried). So the largest is wrong with a
    probability of at most 1 - confidence, though it is chosen by what was right.

    Args:
        tried: (right guesses, guesses) of each number; the numbers follow from `canaries` alone.
        canaries: each in training by a fair coin.
        delta: in [0, 1].
        confidence: in (0, 1), of all numbers together.
    """
    require(len(tried) >= 1, "The numbers of guesses", "at least one", len(tried))
    each = 1 - (1 - confidence) / len(tried)
    found = [epsilon_lower_bound(correct, guesses, delta, each, canaries) for correct, guesses in tried]
    place = int(np.argmax(found))
    return found[place], place


@lru_cache(maxsize=256)
def most_refuted(canaries: int, delta: float = 0.0) -> float:
    """Return the epsilon that would be refuted if every guess were right: no attack on so many refutes more."""
    return best_lower_bound([(each, each) for each in numbers_of_guesses(canaries)], canaries, delta)[0]


def canaries_for(epsilon: float, delta: float = 0.0) -> int | None:
    """Return a number of canaries of which right guesses refute epsilon, about the least; None where none does.

    With many canaries delta pays for some right guesses, so that more of them need not refute more.
    """
    canaries = 2
    while canaries <= _MOST_CANARIES:
        numbers = numbers_of_guesses(canaries)
        if any(chance(each, each, epsilon, delta, canaries) < (1 - CONFIDENCE) / len(numbers) for each in numbers):
            return canaries
        canaries = math.ceil(canaries * _FINER / 2) * 2
    return None
