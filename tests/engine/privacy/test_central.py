"""The noise of a trusted server: a claim that holds, amplified where clients are drawn in secret."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.engine.privacy.central import central_mechanism
from fedgraft.engine.privacy.options import Privacy
from fedgraft.errors import InputError
from fedgraft.secrets.accountant import Released, epsilon_of
from fedgraft.secrets.gaussian import gaussian_epsilon

FIXED = Privacy(name="central", unit="client", epsilon=4.0, delta=1e-5)
ADAPTIVE = replace(FIXED, target_quantile=0.5)


@settings(max_examples=15, deadline=None)
@given(
    st.floats(0.5, 10),
    st.sampled_from([1e-3, 1e-5]),
    st.integers(1, 200),
    st.sampled_from([0.02, 0.1, 0.5, 1.0]),
    st.integers(1, 5000),
    st.booleans(),
)
def test_a_claim_is_never_below_the_accountant_s_for_the_rounds_planned(
    epsilon, delta, rounds, share, numbers, adaptive
):
    privacy = replace(ADAPTIVE if adaptive else FIXED, epsilon=epsilon, delta=delta)
    made = central_mechanism(privacy, rounds, numbers, share, 4000.0)
    assert made.epsilon <= epsilon
    undisturbed = epsilon_of([Released(made.released.noise, rounds, share)], delta)
    assert undisturbed <= made.epsilon * (1 + 1e-12)
    assert made.epsilon <= made.told
    if share < 1 and made.released.noise > 0.11:  # below that delta pays for any noise
        assert made.epsilon > 0.98 * epsilon


def test_the_figures_of_a_hundred_of_a_thousand_clients():
    """A hundred rounds: 1.39 of noise where nobody knows who took part; told that, 56 would be the epsilon."""
    made = central_mechanism(FIXED, 100, 1500, 0.1, 100.0)
    assert made.released.noise == pytest.approx(1.386, abs=2e-3)
    assert made.epsilon == pytest.approx(4.0, abs=2e-3)
    assert made.told == pytest.approx(56.0, abs=0.1)
    whole = central_mechanism(FIXED, 100, 1500, 1.0, 1000.0)
    assert whole.released.noise == pytest.approx(10.8, abs=0.1)
    assert whole.told == whole.epsilon


def test_the_count_costs_the_sum_a_little_noise_and_the_claim_nothing():
    fixed, adaptive = (central_mechanism(each, 100, 1500, 0.1, 100.0) for each in (FIXED, ADAPTIVE))
    assert adaptive.released.noise == pytest.approx(fixed.released.noise, rel=1e-3)
    assert adaptive.of_sum.released.noise == pytest.approx(1.386 * (1 - (1.386 / 10) ** 2) ** -0.5, rel=1e-3)


def test_where_another_client_comes_the_claim_is_the_less_of_two_bounds():
    whole = central_mechanism(FIXED, 10, 100, 1.0, 50.0)
    half = epsilon_of([replace(whole.released, noise=whole.released.noise / 2)], 1e-5)
    assert whole.replaced == pytest.approx(min(half, whole.replaced))
    sampled = central_mechanism(FIXED, 100, 1500, 0.1, 100.0)
    assert 2 * 4.0 < sampled.replaced < 11, "by group privacy: twice epsilon, at a smaller delta"


def test_one_release_is_the_gaussian_mechanism():
    made = central_mechanism(FIXED, 1, 10, 1.0, 5.0)
    assert made.epsilon == pytest.approx(gaussian_epsilon(made.released.noise, 1e-5), rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"unit": "node"}, r"privacy\.unit must be 'client' where privacy\.name = 'central': the server clips whole"),
        ({"unit": ""}, r"privacy\.unit must be 'client' where privacy\.name = 'central'"),
        ({"shares": 3}, r"privacy\.shares must be 0 where privacy\.name = 'central'"),
        ({"answers": 1.0}, r"privacy\.answers must be 0 where privacy\.name = 'central'"),
        ({"target_quantile": 1.0}, r"privacy\.target_quantile must be in \(0, 1\), or 0 for a fixed length; got 1\."),
        ({"name": "local"}, r"privacy\.name must be .*distributed.*central.*got 'local'"),
        ({"name": "distributed", "target_quantile": 0.5}, r"target_quantile must be 0 unless privacy\.name = 'cen"),
    ],
)
def test_options_that_do_not_go_together_are_refused(changes, error):
    with pytest.raises(InputError, match=error):
        replace(FIXED, **changes)


def test_very_many_clients_are_counted_in_whole_ones():
    few, many = (central_mechanism(ADAPTIVE, 10, 10, 0.1, cohort) for cohort in (1e4, 1e6))
    assert (few.count_steps, many.count_steps) == (64, 1)
    assert many.epsilon <= 4.0
