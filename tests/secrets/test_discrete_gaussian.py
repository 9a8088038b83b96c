"""Draws have the law, to the last bit that a million of them can tell."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from fedgraft.errors import InputError
from fedgraft.secrets.discrete_gaussian import discrete_gaussian, variance_of
from fedgraft.secrets.keystream import Keystream

KEY = bytes(range(32))
WRONG, FINE = 1e-9, 1e-3
"""p-values: what has another law stays below the first, what has the law above the second."""


def law(variance):
    """Integers that matter, and their probabilities."""
    far = math.ceil(9 * math.sqrt(variance)) + 2
    z = np.arange(-far, far + 1)
    weight = np.exp(-(z**2) / (2 * float(variance)))
    return z, weight / weight.sum()


def goodness(drawn, variance):
    """p-value of chi-square, over integers that are expected 20 times and the two tails."""
    z, p = law(variance)
    inside = np.flatnonzero(p * len(drawn) >= 20)
    first, last = inside[0], inside[-1]
    expected = np.concatenate([[p[:first].sum()], p[first : last + 1], [p[last + 1 :].sum()]]) * len(drawn)
    counts = np.bincount(np.clip(drawn, z[first] - 1, z[last] + 1) - z[first] + 1, minlength=len(expected))
    return chisquare(counts, expected).pvalue


def anderson_darling(drawn, variance):
    """The statistic for a discrete law (Choulakian, Lockhart, Stephens, 1994); above 6 p < 0.001 for fine laws."""
    z, p = law(variance)
    below = np.cumsum(p)[:-1]
    seen = np.searchsorted(np.sort(drawn), z[:-1], side="right") / len(drawn)
    inside = (below > 1e-12) & (below < 1 - 1e-12)
    weight = p[:-1][inside] / (below * (1 - below))[inside]
    return len(drawn) * float(((seen - below)[inside] ** 2 * weight).sum())


@pytest.fixture(scope="module")
def million():
    return discrete_gaussian(Fraction(400), 10**6, Keystream(KEY))


@pytest.mark.slow
def test_a_million_draws_have_the_variance(million):
    assert million.var() == pytest.approx(400, rel=0.005)
    assert abs(million.mean()) < 0.1


def test_a_million_draws_have_the_law(million):
    assert goodness(million, 400) > FINE
    assert anderson_darling(million, 400) < 6


def test_nine_tenths_of_the_deviation_are_seen(million):
    mutant = discrete_gaussian(Fraction(324), 10**5, Keystream(KEY))
    assert goodness(mutant, 400) < WRONG
    assert anderson_darling(mutant, 400) > 100
    assert mutant.var() < 0.97 * 400
    assert goodness(million, Fraction(4000, 9)) < WRONG


def test_neighbouring_draws_are_independent(million):
    pairs = million.reshape(-1, 2)
    for seen in (np.sign(pairs), pairs % 2, np.abs(pairs) > 14):
        names, codes = np.unique(seen, return_inverse=True)
        codes = codes.reshape(seen.shape)
        table = np.zeros((len(names), len(names)))
        np.add.at(table, (codes[:, 0], codes[:, 1]), 1)
        assert chi2_contingency(table).pvalue > FINE
    for lag in (1, 2, 1_503):
        assert abs(np.corrcoef(million[lag:], million[:-lag])[0, 1]) < 4 / math.sqrt(len(million))


@pytest.mark.parametrize("variance", [Fraction(1, 9), Fraction(1), Fraction(7, 3), Fraction(1_000_003, 65_536)])
def test_small_and_rational_variances(variance):
    assert goodness(discrete_gaussian(variance, 10**5, Keystream(KEY)), variance) > FINE


def test_a_deviation_of_half_a_million():
    scaled = discrete_gaussian(variance_of(2.0**19), 10**5, Keystream(KEY)) / 2.0**19
    assert scaled.std() == pytest.approx(1, rel=0.01)
    assert 3.5 < np.abs(scaled).max() < 6


def test_the_sum_of_shares_has_the_law_of_the_whole():
    shares = discrete_gaussian(Fraction(4), 8 * 10**5, Keystream(KEY)).reshape(8, -1)
    assert goodness(shares.sum(axis=0), 32) > FINE
    assert goodness(shares[1:].sum(axis=0), 32) < WRONG


def test_streams_of_two_keys_are_independent(million):
    other = discrete_gaussian(Fraction(400), 10**5, Keystream(bytes(32)))
    assert abs(np.corrcoef(million[: 10**5], other)[0, 1]) < 4 / math.sqrt(10**5)


def test_equal_keys_give_equal_draws_and_any_number_of_them():
    first, again = (discrete_gaussian(Fraction(9), 100, Keystream(KEY)) for _ in range(2))
    assert np.array_equal(first, again)
    assert first.dtype == np.int64
    assert discrete_gaussian(Fraction(9), 0, Keystream(KEY)).shape == (0,)


@given(st.floats(1e-3, 1e5))
def test_a_variance_is_never_less_than_asked(deviation):
    variance = variance_of(deviation)
    assert 0 <= variance - Fraction(deviation) ** 2 < Fraction(1, 2**16)


def test_errors_say_what_is_allowed():
    with pytest.raises(InputError, match=r"The variance of noise must be > 0; got Fraction\(0, 1\)\."):
        discrete_gaussian(Fraction(0), 1, Keystream(KEY))
    with pytest.raises(InputError, match=r"\(sigma \+ 1\)\*\*2 times its denominator <= 72057594037927936"):
        discrete_gaussian(Fraction(2**60), 1, Keystream(KEY))
    with pytest.raises(InputError, match=r"The deviation of noise must be > 0 and finite; got inf\."):
        variance_of(math.inf)
