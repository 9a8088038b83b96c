"""Adam at the server: Algorithm 2 of Reddi et al. by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import InputError
from fedgraft.methods.server_optimizers.fedadam import FedAdam
from helpers.server_steps import walk


def test_algorithm_2_by_hand():
    # beta1 = beta2 = 1/2, tau = 1, so v = 1 before. Change 3: m = 1.5, v = 0.5 + 4.5 = 5. Change -1: m = 0.25, v = 3.
    moves, state = walk(FedAdam(learning_rate=0.1, first_moment=0.5, second_moment=0.5, tau=1.0), 3, -1)
    assert moves == pytest.approx([0.1 * 1.5 / (5**0.5 + 1), 0.1 * 0.25 / (3**0.5 + 1)], rel=1e-6)
    assert state == pytest.approx({"first": 0.25, "second": 3.0})


def test_golden_numbers_of_its_defaults():
    # m = 0.1, v = 0.99e-6 + 0.01, and m = 0.09 + 0.05 = 0.14, v = 0.99 (0.99e-6 + 0.01) + 0.0025.
    moves, state = walk(FedAdam(), 1.0, 0.5)
    assert moves == pytest.approx([0.01 * 0.1 / (0.01000099**0.5 + 0.001), 0.01 * 0.14 / (0.0124009801**0.5 + 0.001)])
    assert state == pytest.approx({"first": 0.14, "second": 0.0124009801})


@given(st.floats(1e-3, 1e3), st.sampled_from([0.0, 0.5, 0.9]))
def test_a_steady_change_ends_up_moving_by_the_rate_whatever_its_size(change, first_moment):
    moves, _ = walk(FedAdam(first_moment=first_moment, second_moment=0.5, tau=1e-9), *[change] * 80)
    assert moves[-1] == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize(
    ("option", "value"), [("learning_rate", 0.0), ("first_moment", 1.0), ("second_moment", -0.1), ("tau", 0.0)]
)
def test_impossible_options_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^FedAdam\.{option} must be .*; got {value}"):
        FedAdam(**{option: value})
