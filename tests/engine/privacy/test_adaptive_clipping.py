"""A clipped length that follows updates: the numbers of Andrew et al., by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.engine.privacy.central import count_noise, following, update_noise
from fedgraft.errors import InputError


def test_a_hundred_clients_count_with_noise_of_five():
    """Sigma_b = 5, so that z = 1 becomes (1 - 1/100)**(-1/2) = 1.00504: a half percent more noise on the sum."""
    assert count_noise(100) == 5
    assert update_noise(1.0, 5.0) == pytest.approx(1.0050378)


@given(st.floats(0.1, 10), st.floats(0.6, 100))
def test_sum_and_count_tell_together_as_much_as_one_sum(noise, times):
    counting = noise * times
    both = update_noise(noise, counting) ** -2 + (2 * counting) ** -2
    assert both == pytest.approx(noise**-2)


def test_a_length_falls_where_more_are_shorter_than_wanted():
    """Eight of ten are shorter, five are to be: ln C falls by 0.2 (0.8 - 0.5) = 0.06."""
    assert following(2.0, 0.8, 0.5) == pytest.approx(2.0 * math.exp(-0.06))
    assert following(2.0, 0.5, 0.5) == 2.0
    assert following(2.0, -0.5, 0.5) == pytest.approx(2.0 * math.exp(0.2)), "noise may count less than nobody"


@pytest.mark.parametrize("first", [0.01, 1.0, 100.0])
def test_a_length_comes_to_the_median_from_either_side(first):
    lengths = [0.1 * place for place in range(1, 22)]  # the median is 1.1
    length = first
    for _ in range(300):
        length = following(length, sum(each <= length for each in lengths) / len(lengths), 0.5)
    assert length == pytest.approx(1.1, rel=0.05)


def test_too_small_a_cohort_is_refused_with_the_least_one():
    with pytest.raises(InputError, match=r"the cohort at least 31 clients on average: with 20 the count"):
        update_noise(3.0, count_noise(20))
    assert update_noise(3.0, count_noise(31)) > 3
