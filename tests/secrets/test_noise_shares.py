"""Divergences bound what they say, reckoned against sums over integers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from fedgraft.errors import InputError
from fedgraft.secrets.gaussian import gaussian_delta
from fedgraft.secrets.noise_shares import (
    divergence,
    lattice_divergence,
    noise_multiplier,
    share_variance,
    sum_divergence,
)


def discrete(variance, far=80):
    z = np.arange(-far, far + 1)
    weight = np.exp(-(z**2) / (2 * float(variance)))
    return weight / weight.sum()


@pytest.mark.parametrize(("variance", "shares"), [("1/4", 2), ("9/25", 3), ("1/2", 4), ("1", 2), ("1", 3)])
def test_a_sum_diverges_from_one_draw_by_no_more_than_the_bound(variance, shares):
    one = summed = discrete(Fraction(variance))
    for _ in range(shares - 1):
        summed = np.convolve(summed, one)
    whole = discrete(shares * Fraction(variance), far=80 * shares)
    sure = summed > 1e-12
    seen = np.abs(np.log(summed[sure] / whole[sure])).max()
    bound = sum_divergence(Fraction(variance), shares, 1)
    assert bound / 100 < seen <= bound


def test_by_hand():
    assert sum_divergence(Fraction(1), 1, 1_000) == 0
    assert sum_divergence(Fraction(1, 2), 2, 3) == pytest.approx(15 * math.exp(-(math.pi**2) / 2))
    assert sum_divergence(Fraction(4), 100, 1_503) < 1e-12
    assert lattice_divergence(Fraction(100), 1) == pytest.approx(4 * math.exp(-4 * math.pi**2))


@pytest.mark.parametrize("variance", [2.5, 9.0])
def test_rounding_a_continuous_gaussian_makes_the_discrete_one(variance):
    """The integral over y, in steps of 1/64: for so smooth a function as good as exact."""
    z, y = np.arange(-12, 13), np.arange(-40 * 64, 40 * 64 + 1) / 64
    kernel = np.exp(-((z[:, None] - y) ** 2) / 4)
    kernel /= np.exp(-((np.arange(-60, 61)[:, None] - y) ** 2) / 4).sum(axis=0)
    made = kernel @ norm.pdf(y, loc=1, scale=math.sqrt(variance - 2)) / 64
    assert made == pytest.approx(discrete(variance)[80 - 13 : 80 + 12], rel=1e-9)


@pytest.mark.parametrize(("variance", "move", "epsilon"), [(9, 3, 1.0), (9, 3, 1.01), (20, 2, 0.5), (400, 20, 2.0)])
def test_the_discrete_gaussian_is_as_private_as_is_claimed(variance, move, epsilon):
    """Delta of one whole number moved by `move` steps, exactly (Canonne et al. 2020, Theorem 7)."""
    p = discrete(variance, far=300)
    exact = np.maximum(0, p[move:] - math.exp(epsilon) * p[:-move]).sum()
    claimed = gaussian_delta(noise_multiplier(Fraction(variance), 1, move), epsilon)
    assert exact <= claimed * (1 + 1e-9)
    assert claimed <= gaussian_delta(math.sqrt(variance) / move, epsilon) * (2 if variance < 100 else 1.05)


@given(st.floats(0.5, 50), st.integers(1, 1_000), st.floats(10, 1_000))
def test_shares_give_the_noise_that_was_asked_for(noise, shares, sensitivity):
    variance = share_variance(noise, shares, sensitivity)
    given_noise = noise_multiplier(variance, shares, sensitivity)
    assert noise * (1 - 1e-12) <= given_noise
    assert given_noise <= noise * 1.01 or variance < 1


def test_both_steps_add():
    parts = sum_divergence(Fraction(1), 9, 7) + lattice_divergence(Fraction(9), 7)
    assert divergence(Fraction(1), 9, 7) == pytest.approx(parts)


def test_errors_say_what_is_allowed():
    with pytest.raises(InputError, match=r"The variance of a share of noise must be >= 1/4; got Fraction\(1, 5\)\."):
        sum_divergence(Fraction(1, 5), 2, 1)
    with pytest.raises(
        InputError, match=r"The variance of a sum's noise must be > 2 squared steps; got Fraction\(2, 1\)"
    ):
        noise_multiplier(Fraction(1), 2, 1.0)
    with pytest.raises(InputError, match=r"The number of shares of noise must be >= 1; got 0\."):
        share_variance(1.0, 0, 1.0)
