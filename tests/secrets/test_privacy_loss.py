"""A loss on a grid is never smaller than the loss, and hardly larger."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom

from fedgraft.secrets.gaussian import SampledGaussian, gaussian_epsilon
from fedgraft.secrets.privacy_loss import least_epsilon, two_losses

STEP = 1e-3


def delta_of(loss, epsilon):
    """Delta of one loss on a grid."""
    return float((loss.mass * np.maximum(0, -np.expm1(np.minimum(0, epsilon - loss.losses)))).sum() + loss.infinite)


def exact_delta(noise, share, epsilon):
    """Of one sampled release whose unit leaves, in closed form."""
    start = noise**2 * math.log1p(math.expm1(epsilon) / share) + 0.5
    without = ndtr(-start / noise)
    return (1 - share) * without + share * ndtr((1 - start) / noise) - math.exp(epsilon) * without


def exact_delta_added(noise, share, epsilon):
    """Of one whose unit comes."""
    if math.exp(-epsilon) <= 1 - share:
        return 0.0
    end = noise**2 * math.log1p(math.expm1(-epsilon) / share) + 0.5
    without = ndtr(end / noise)
    return without - math.exp(epsilon) * ((1 - share) * without + share * ndtr((end - 1) / noise))


@pytest.mark.parametrize("share", [0.003, 0.2, 1.0])
@pytest.mark.parametrize("noise", [0.5, 1.0, 8.0])
@pytest.mark.parametrize("removed", [True, False])
def test_on_the_lines_of_the_grid_delta_is_exact_and_between_them_above(noise, share, removed):
    exact = exact_delta if removed else exact_delta_added
    loss = SampledGaussian(noise, share).loss(STEP, 1e-15, removed)
    for lines in (0, 5, 40, 200):
        assert delta_of(loss, lines * STEP) == pytest.approx(exact(noise, share, lines * STEP), rel=1e-7, abs=1e-13)
        between = (lines + 0.4) * STEP
        assert delta_of(loss, between) >= exact(noise, share, between) * (1 - 1e-9)


@pytest.mark.parametrize("share", [0.003, 0.2, 1.0])
@pytest.mark.parametrize("removed", [True, False])
def test_both_probabilities_are_kept(share, removed):
    loss = SampledGaussian(1.0, share).loss(STEP, 1e-15, removed)
    assert loss.mass.sum() + loss.infinite == pytest.approx(1, abs=1e-12)
    assert (loss.mass * np.exp(-loss.losses)).sum() == pytest.approx(1, abs=1e-9)
    assert loss.mass.min() >= 0


@settings(max_examples=30)
@given(st.floats(0.4, 20), st.floats(-4, -0.01), st.floats(-12, -1))
def test_one_release_has_its_exact_epsilon(noise, share_power, delta_power):
    share, delta = 10**share_power, 10**delta_power
    part = SampledGaussian(noise, share)
    step = max(0.01 * math.sqrt(part.variance()), part.width() / 2**16)
    got = least_epsilon([(part.loss(step, delta * 1e-9, removed=True), 1)], delta)
    if exact_delta(noise, share, 0.0) <= delta:
        assert got <= 2 * step
    else:
        truth = brentq(lambda epsilon: exact_delta(noise, share, epsilon) - delta, 0, 300, xtol=1e-15)
        assert truth * (1 - 1e-8) <= got <= truth * 1.002 + 2 * step


@pytest.mark.parametrize(
    ("size", "times", "delta"), [(0.3, 40, 1e-5), (0.01, 900, 1e-3), (2.0, 3, 1e-9), (1.0, 7, 0.2)]
)
def test_answers_add_as_a_binomial(size, times, delta):
    """Of n randomised responses k tell the truth: the loss is (2 k - n) epsilon."""
    truths = np.arange(times + 1)
    likely = binom.pmf(truths, times, 1 / (1 + math.exp(-size)))
    losses = (2 * truths - times) * size

    def excess(epsilon):
        return float((likely * np.maximum(0, -np.expm1(np.minimum(0, epsilon - losses)))).sum()) - delta

    truth = brentq(excess, 0, size * times, xtol=1e-14)
    assert least_epsilon([(two_losses(size, 0.0, size / 3), times)], delta) == pytest.approx(truth, rel=1e-6)


def test_a_coarser_grid_is_never_below_a_finer_one():
    part = SampledGaussian(1.0, 0.1)
    found = [least_epsilon([(part.loss(step, 1e-16, True), 60)], 1e-5) for step in (0.1, 0.03, 0.01, 1e-3)]
    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(5.5727, abs=1e-4)


def test_infinite_losses_use_up_delta():
    leaky = two_losses(1.0, 1e-6, 0.5)
    assert leaky.infinite == 1e-6
    assert least_epsilon([(leaky, 11)], 1e-5) == math.inf
    assert 1 < least_epsilon([(leaky, 9)], 1e-5) <= 9


@pytest.mark.parametrize("delta", [0.3, 1e-40, 1e-100])
def test_delta_may_be_large_or_below_what_doubles_tell_apart(delta):
    """One whole Gaussian release, whose closed form is known at any delta."""
    loss = SampledGaussian(1.0, 1.0).loss(0.01, delta * 1e-9, True)
    truth = gaussian_epsilon(1.0, delta)
    assert truth <= least_epsilon([(loss, 1)], delta) <= truth * (1 + 1e-4)
