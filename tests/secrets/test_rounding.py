"""Rounding at random: the mean stays, the length is bounded, the bits hold the sum."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import InputError
from fedgraft.secrets.discrete_gaussian import discrete_gaussian
from fedgraft.secrets.gaussian import gaussian_noise
from fedgraft.secrets.keystream import Keystream
from fedgraft.secrets.noise_shares import share_variance
from fedgraft.secrets.rounding import bits_for, rounded, sensitivity

KEY = bytes(range(32))


def test_by_hand():
    """c = 3, g = 2, d = 4, sqrt(2 log(1 / beta)) = 1: 9 + 4 + 2 (3 + 2), and (3 + 4)**2 the other way."""
    assert sensitivity(3.0, 2.0, 4, math.exp(-0.5)) == pytest.approx(math.sqrt(23))
    assert sensitivity(3.0, 2.0, 4, 0.0) == 7.0
    assert sensitivity(3.0, 2.0, 4, 1e-300) == 7.0


def test_a_linear_model_of_pubmed_and_a_hundred_clients():
    """500 features and 3 classes; noise for epsilon 1 over 100 rounds: 18 bits, 1.02 C."""
    grown = sensitivity(1.0, 0.005, 1_503, 1e-9)
    assert grown == pytest.approx(1.02, abs=0.005)
    noise = gaussian_noise(1.0, 1e-5) * math.sqrt(100)
    variance = 100 * share_variance(noise, 100, grown / 0.005)
    assert bits_for(100 * 1.0, 0.005, 100, float(variance), 1_503, 1e-9) == 18


@given(st.floats(0.01, 10), st.floats(1e-4, 1), st.integers(1, 10_000), st.floats(1e-12, 0.9))
def test_sensitivity_lies_between_the_clip_and_the_worst_case(clip, step, dimension, failure):
    grown = sensitivity(clip, step, dimension, failure)
    assert clip < grown <= sensitivity(clip, step, dimension, 0.0)
    assert grown <= sensitivity(clip, step, dimension, failure / 2)


def unit(dimension, seed=0):
    values = np.random.default_rng(seed).standard_normal(dimension)
    return values / np.linalg.norm(values)


def test_the_mean_stays():
    values, source = unit(8), Keystream(KEY)
    drawn = np.mean([rounded(values, 1.0, 0.3, 0.0, source) for _ in range(4_000)], axis=0) * 0.3
    assert drawn == pytest.approx(values, abs=5 * 0.3 / 2 / math.sqrt(4_000))


@pytest.mark.parametrize("failure", [0.0, 1e-6, math.exp(-0.5)])
def test_the_length_never_passes_the_bound(failure):
    values, source = unit(1_000), Keystream(KEY)
    most = sensitivity(1.0, 0.02, 1_000, failure)
    lengths = [0.02 * np.linalg.norm(rounded(values, 1.0, 0.02, failure, source)) for _ in range(200)]
    assert max(lengths) <= most


def test_without_a_condition_it_seldom_passes_the_bound():
    """Two sums that differ by one unit's vector, rounded by the same draws (Proposition 22 of the difference)."""
    values, rest, most = unit(400), np.random.default_rng(1).normal(0, 5, 400), sensitivity(1.0, 0.05, 400, 0.01)
    with_unit, without = Keystream(KEY), Keystream(KEY)
    moved = [
        rounded(rest + values, 1e3, 0.05, 0.0, with_unit) - rounded(rest, 1e3, 0.05, 0.0, without) for _ in range(500)
    ]
    lengths = 0.05 * np.linalg.norm(moved, axis=1)
    assert lengths.max() > 1.05
    assert (lengths > most).mean() <= 0.01


def test_whole_steps_stay():
    assert rounded(np.array([0.5, -1.0, 0.0]), 2.0, 0.5, 0.0, Keystream(KEY)).tolist() == [1, -2, 0]


def test_bits_by_hand():
    """Ten clients of at most 1 in steps of 0.1, without noise: 100 + 10 either way, so 221 numbers."""
    assert bits_for(10.0, 0.1, 10, 0.0, 5, 0.5) == 8
    assert bits_for(12.7 - 0.2, 0.1, 2, 0.0, 5, 0.5) == 8
    assert bits_for(12.8 - 0.2, 0.1, 2, 0.0, 5, 0.5) == 9


def test_the_sum_does_not_wrap_around():
    clients, dimension, step = 20, 50, 0.01
    variance, source = Fraction(10_000), Keystream(KEY)
    bits = bits_for(clients * 1.0, step, clients, float(clients * variance), dimension, 1e-6)
    clear = np.zeros(dimension)
    clear[0] = 1.0
    coded = sum(rounded(clear, 1.0, step, 0.0, source) for _ in range(clients))
    noise = discrete_gaussian(variance, clients * dimension, source).reshape(clients, -1).sum(axis=0)
    modulus = 2**bits
    received = (coded + noise) % modulus
    assert np.array_equal((received + modulus // 2) % modulus - modulus // 2, coded + noise)


def test_errors_say_what_is_allowed():
    with pytest.raises(InputError, match=r"The clipped length must be > 0 and finite; got 0\."):
        sensitivity(0, 1.0, 1, 0.5)
    with pytest.raises(InputError, match=r"The probability of a failure must be in \[0, 1\); got 1\."):
        sensitivity(1.0, 1.0, 1, 1)
    with pytest.raises(
        InputError, match=r"The length of a vector to be rounded must be at most 1, the clipped one; got 2\."
    ):
        rounded(np.array([2.0]), 1.0, 0.5, 0.0, Keystream(KEY))
    with pytest.raises(InputError, match=r"must be at most 1, the clipped one; got nan"):
        rounded(np.array([math.nan]), 1.0, 0.5, 0.0, Keystream(KEY))
    with pytest.raises(InputError, match=r"The number of clients must be >= 1; got 0\."):
        bits_for(1.0, 0.1, 0, 0.0, 1, 0.1)
