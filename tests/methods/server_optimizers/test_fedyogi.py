"""Yogi at the server: Algorithm 2 of Reddi et al. by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import InputError
from fedgraft.methods.server_optimizers.fedadam import FedAdam
from fedgraft.methods.server_optimizers.fedyogi import FedYogi
from helpers.server_steps import walk


def test_algorithm_2_by_hand():
    # beta1 = beta2 = 1/2, tau = 1, so v = 1 before. Change 3: m = 1.5, v = 1 + 4.5 = 5.5. Change -1: m = 0.25, v = 5.
    moves, state = walk(FedYogi(learning_rate=0.1, first_moment=0.5, second_moment=0.5, tau=1.0), 3, -1)
    assert moves == pytest.approx([0.1 * 1.5 / (5.5**0.5 + 1), 0.1 * 0.25 / (5**0.5 + 1)], rel=1e-6)
    assert state == pytest.approx({"first": 0.25, "second": 5.0})


def test_golden_numbers_of_its_defaults():
    # v = 1e-6 + 0.01 after a change of 1; one of 0.05 takes 0.01 0.0025 away from it.
    moves, state = walk(FedYogi(), 1.0, 0.05)
    assert moves == pytest.approx([0.01 * 0.1 / (0.010001**0.5 + 0.001), 0.01 * 0.095 / (0.009976**0.5 + 0.001)])
    assert state == pytest.approx({"first": 0.095, "second": 0.009976})


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6), st.floats(0, 0.99))
def test_its_mean_square_moves_towards_the_square_by_no_more_than_its_share(changes, decay):
    _, before = walk(FedYogi(second_moment=decay), *changes[:-1])
    _, after = walk(FedYogi(second_moment=decay), *changes)
    square = changes[-1] ** 2
    assert abs(after["second"] - before["second"]) <= (1 - decay) * square * (1 + 1e-6) + 1e-6 * before["second"]
    assert after["second"] >= 0


def test_after_one_large_change_it_goes_slower_than_adam_for_long():
    (*_, slow), _ = walk(FedYogi(second_moment=0.9), 10, *[0.01] * 30)
    (*_, quick), _ = walk(FedAdam(second_moment=0.9), 10, *[0.01] * 30)
    assert 0 < slow < quick


def test_impossible_options_are_refused():
    with pytest.raises(InputError, match=r"^FedYogi\.tau must be > 0; got 0"):
        FedYogi(tau=0.0)
