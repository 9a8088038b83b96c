"""What guesses refute, by hand, against sums of a binomial, and on a mechanism whose epsilon is known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from fedgraft.errors import InputError
from fedgraft.secrets.canaries import chance, epsilon_lower_bound


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


def test_errors_say_what_is_allowed():
    with pytest.raises(InputError, match=r"The number of right guesses must be in \[0, 3\], the guesses; got 4\."):
        epsilon_lower_bound(4, 3)
    with pytest.raises(InputError, match=r"The number of canaries must be >= 3, the guesses; got 2\."):
        epsilon_lower_bound(3, 3, canaries=2)
    with pytest.raises(InputError, match=r"The confidence must be in \(0, 1\); got 95\."):
        epsilon_lower_bound(3, 3, confidence=95)
