"""The closed form, by hand and turned around."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from fedgraft.errors import InputError
from fedgraft.secrets.gaussian import gaussian_delta, gaussian_epsilon, gaussian_noise


def test_delta_at_epsilon_zero_is_the_total_variation():
    assert gaussian_delta(1.0, 0.0) == pytest.approx(norm.cdf(0.5) - norm.cdf(-0.5))


@pytest.mark.parametrize(("noise", "epsilon"), [(1.0, 1.0), (0.5, 4.0), (3.0, 0.2)])
def test_delta_is_the_integral_that_defines_it(noise, epsilon):
    def excess(x):
        return max(0.0, norm.pdf(x, 1, noise) - math.exp(epsilon) * norm.pdf(x, 0, noise))

    start = noise**2 * epsilon + 0.5
    assert gaussian_delta(noise, epsilon) == pytest.approx(quad(excess, start, start + 20 * noise)[0], rel=1e-6)


def test_small_deltas_are_told_to_the_last_digits():
    """No difference of two numbers close to 1: both terms are of size 1e-197."""
    low, high = 30 - 1 / 12, 30 + 1 / 12
    assert gaussian_delta(6.0, 5.0) == pytest.approx(norm.sf(low) - math.exp(5) * norm.sf(high), rel=1e-9)
    assert 0 < gaussian_delta(6.0, 5.0) < 1e-190


@given(st.floats(0.05, 50), st.floats(-20, -0.5))
def test_noise_and_epsilon_turn_each_other_around(noise, power):
    delta = 10**power
    epsilon = gaussian_epsilon(noise, delta)
    assert gaussian_delta(noise, epsilon) <= delta
    if epsilon > 1e-6:
        assert gaussian_delta(noise, epsilon * (1 - 1e-9)) >= delta * (1 - 1e-6)
        assert gaussian_noise(epsilon, delta) == pytest.approx(noise, rel=1e-6)


def test_published_values():
    """Of the calibration in the paper's own figure: below the classical sqrt(2 log(1.25 / delta)) / epsilon."""
    assert gaussian_noise(1.0, 1e-5) == pytest.approx(3.7306, abs=1e-4)
    assert gaussian_noise(1.0, 1e-5) < math.sqrt(2 * math.log(1.25e5))
    assert gaussian_epsilon(1 / math.sqrt(60), 1e-5) == pytest.approx(62.24, abs=0.01)
    assert gaussian_epsilon(1 / math.sqrt(6), 1e-5) == pytest.approx(12.87, abs=0.01)


def test_where_delta_pays_for_all_epsilon_is_0():
    assert gaussian_epsilon(100.0, 0.1) == 0


def test_errors_say_what_is_allowed():
    with pytest.raises(InputError, match=r"The noise of a release must be > 0 and finite; got 0\."):
        gaussian_epsilon(0, 0.1)
    with pytest.raises(InputError, match=r"delta must be in \(0, 1\); got 1\."):
        gaussian_noise(1.0, 1)
    with pytest.raises(InputError, match=r"epsilon must be > 0 and finite; got inf\."):
        gaussian_noise(math.inf, 0.1)
