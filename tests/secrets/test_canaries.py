"""What guesses refute, by hand, against sums of a binomial, and on a mechanism whose epsilon is known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from fedgraft.errors import InputError
from fedgraft.secrets.canaries import (
    best_lower_bound,
    canaries_for,
    chance,
    epsilon_lower_bound,
    most_refuted,
    numbers_of_guesses,
)


def test_all_of_a_hundred_guesses_are_right():
    """q**100 = 0.05 at q = 0.9705, so epsilon = log(q / (1 - q))."""
    q = 0.05**0.01
    assert epsilon_lower_bound(100, 100) == pytest.approx(math.log(q / (1 - q)))
    assert epsilon_lower_bound(100, 100) == pytest.approx(3.49, abs=0.005)


def test_one_guess_with_a_delta():
    """P = q + 2 m delta (1 - q), for m = 5 canaries."""
    q = 1 / (1 + math.exp(-0.7))
    assert chance(1, 1, 0.7, delta=0.01, canaries=5) == pytest.approx(q + 0.1 * (1 - q))
    refuted = (0.7 - 0.1) / (1 - 0.1)
    found = epsilon_lower_bound(1, 1, delta=0.01, confidence=0.3, canaries=5)
    assert found == pytest.approx(math.log(refuted / (1 - refuted)))


def test_two_guesses_with_a_delta():
    """f(2) = q**2, f(1) = 1 - (1 - q)**2, f(0) = 1: the steeper of one step back and half of two."""
    q, m, delta = 0.75, 8, 1e-3
    steepest = max((1 - (1 - q) ** 2) - q**2, (1 - q**2) / 2)
    assert chance(2, 2, math.log(3), delta, m) == pytest.approx(q**2 + 2 * m * delta * steepest)


@settings(max_examples=30)
@given(st.integers(1, 60), st.data(), st.floats(0, 6), st.floats(0, 0.01))
def test_the_bound_is_the_theorems_sum(guesses, data, epsilon, delta):
    """All i in 1 ... m, term by term."""
    correct, canaries = data.draw(st.integers(0, guesses)), data.draw(st.integers(guesses, 120))
    q = 1 / (1 + math.exp(-epsilon))

    def at_least(v):
        return math.fsum(binom.pmf(np.arange(max(v, 0), guesses + 1), guesses, q))

    here = at_least(correct)
    steepest = max((at_least(correct - i) - here) / i for i in range(1, canaries + 1))
    expected = min(1.0, here + 2 * canaries * delta * steepest)
    assert chance(correct, guesses, epsilon, delta, canaries) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_randomised_response_is_never_refuted_more_often_than_is_said():
    """Each coin is told with probability q, which is epsilon = 1: the bound is above 1 in at most 5 %."""
    counts = np.random.default_rng(0).binomial(600, 1 / (1 + math.exp(-1)), size=4_000)
    values, times = np.unique(counts, return_counts=True)
    refuted = np.array([chance(int(value), 600, 1.0) < 0.05 for value in values])
    assert times[refuted].sum() / 4_000 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 4_000)
    assert 0.8 < epsilon_lower_bound(round(counts.mean()), 600) < 1


def test_more_right_guesses_refute_more_and_delta_less():
    found = [epsilon_lower_bound(right, 200) for right in (100, 120, 150, 200)]
    assert found[0] == 0
    assert found == sorted(found)
    assert epsilon_lower_bound(150, 200, delta=1e-4) < found[2]
    assert epsilon_lower_bound(150, 200, delta=1e-4, canaries=600) < epsilon_lower_bound(150, 200, delta=1e-4)
    assert epsilon_lower_bound(150, 200, confidence=0.99) < found[2]


def test_numbers_of_guesses_are_even_and_follow_from_the_canaries_alone():
    assert numbers_of_guesses(600) == [600, 300, 150, 74, 36, 18]
    assert numbers_of_guesses(60) == [60, 30]
    assert numbers_of_guesses(7) == [6]
    assert len(numbers_of_guesses(100_000)) == 6


def test_several_numbers_of_guesses_share_the_error():
    """Two numbers: each is held to 97.5 %."""
    found, place = best_lower_bound([(60, 100), (48, 50)], 100)
    assert place == 1
    assert (
        found == epsilon_lower_bound(48, 50, confidence=0.975, canaries=100) < epsilon_lower_bound(48, 50, canaries=100)
    )
    assert best_lower_bound([(48, 50)], 100)[0] == epsilon_lower_bound(48, 50, canaries=100)


@settings(max_examples=20, deadline=None)
@given(st.integers(40, 400), st.floats(0, 3), st.integers(0, 2**32 - 1))
def test_the_best_of_several_is_above_the_truth_in_a_twentieth_of_draws_at_most(canaries, epsilon, seed):
    """Each coin is told with probability e^epsilon / (1 + e^epsilon), and guesses of fewer are a part of those of all.

    What is drawn is held against the theorem's tail directly: the bound is above epsilon just where that is small.
    """
    g, numbers = np.random.default_rng(seed), numbers_of_guesses(canaries)
    right = g.random((400, canaries)) < 1 / (1 + math.exp(-epsilon))
    refuted = np.zeros(400, bool)
    for count in numbers:
        tails = np.array([chance(value, count, epsilon) for value in range(count + 1)])
        refuted |= tails[right[:, :count].sum(1)] < 0.05 / len(numbers)
    assert refuted.mean() <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / 400)


def test_what_could_be_refuted_at_most():
    """Uncorrected 600 of 600 refute 5.28 at delta 1e-5 and 3,000 of 3,000 refute 6.83."""
    assert epsilon_lower_bound(600, 600, 1e-5) == pytest.approx(5.28, abs=0.005)
    assert epsilon_lower_bound(3000, 3000, 1e-5) == pytest.approx(6.83, abs=0.005)
    assert most_refuted(600, 1e-5) == epsilon_lower_bound(600, 600, 1e-5, 1 - 0.05 / 6)
    assert most_refuted(600, 1e-5) == pytest.approx(4.79, abs=0.005)
    assert most_refuted(120, 1e-5) < 3.68  # what 120 of 120 refute if no other number is tried


def test_so_many_canaries_are_enough_and_a_tenth_fewer_are_not():
    found = canaries_for(4.0, 1e-5)
    assert found == 254
    assert most_refuted(found, 1e-5) > 4.0 > most_refuted(round(found / 1.2), 1e-5)
    assert canaries_for(8.0, 1e-3) is None  # delta pays for right guesses, and the more of them the more canaries


def test_errors_say_what_is_allowed():
    with pytest.raises(InputError, match=r"The number of right guesses must be in \[0, 3\], the guesses; got 4\."):
        epsilon_lower_bound(4, 3)
    with pytest.raises(InputError, match=r"The number of canaries must be >= 3, the guesses; got 2\."):
        epsilon_lower_bound(3, 3, canaries=2)
    with pytest.raises(InputError, match=r"The confidence must be in \(0, 1\); got 95\."):
        epsilon_lower_bound(3, 3, confidence=95)
