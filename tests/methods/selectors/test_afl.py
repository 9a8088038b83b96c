"""AFL: valuations by hand, and how often clients are drawn."""

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.afl import AFL


def trained(selector, view, outcome, *losses, **given):
    """The state after all clients reported their losses."""
    reports = {k: {"loss": loss} for k, loss in enumerate(losses)}
    state = selector.init(view(len(losses), **given))
    return selector.update(state, view(len(losses), **given), outcome(tuple(reports), reports=reports))


def test_a_client_is_worth_its_loss_times_the_root_of_its_examples(view, outcome):
    state = trained(AFL(), view, outcome, 0.5, 0.2, 1.0, samples=[4, 100, 9])
    np.testing.assert_allclose(state["valuation"], [1.0, 2.0, 3.0])


def test_draws_are_those_of_the_softmax_over_the_worth(view, outcome):
    """sec. 3: worth 10, 20 and 30, so probabilities exp(0.05 * worth) / sum."""
    selector = AFL(clients=1, discarded=0.0, temperature=0.05, uniform=0.0)
    state = trained(selector, view, outcome, 1.0, 2.0, 3.0, samples=[100] * 3)
    g = np.random.default_rng(0)
    found = np.bincount([selector.select(state, view(3), g).clients[0] for _ in range(6000)], minlength=3) / 6000
    expected = np.exp(0.05 * np.array([10, 20, 30]))
    np.testing.assert_allclose(found, expected / expected.sum(), atol=0.02)


def test_the_lowest_are_left_out_and_come_in_by_the_uniform_part_alone(view, outcome):
    selector = AFL(clients=2, discarded=0.75, uniform=0.0)
    state = trained(selector, view, outcome, *range(1, 9))
    g = np.random.default_rng(0)
    assert {selector.select(state, view(8), g).clients for _ in range(200)} == {(6, 7)}

    half = AFL(clients=2, discarded=0.75, uniform=0.5)
    drawn = [half.select(state, view(8), g).clients for _ in range(400)]
    assert all({6, 7} & set(pair) for pair in drawn)
    assert set().union(*drawn) == set(range(8))


def test_ties_at_the_cut_fall_at_random(view, outcome):
    selector = AFL(clients=1, discarded=0.5, uniform=0.0)
    state = trained(selector, view, outcome, 1.0, 1.0, 1.0, 1.0)
    g = np.random.default_rng(0)
    assert {selector.select(state, view(4), g).clients[0] for _ in range(100)} == {0, 1, 2, 3}


def test_who_never_trained_is_worth_as_much_as_the_best(view, outcome):
    selector = AFL(clients=1, discarded=0.5, temperature=100.0, uniform=0.0)
    state = selector.update(
        selector.init(view(4)), view(4), outcome((0, 1), reports={0: {"loss": 1.0}, 1: {"loss": 2.0}})
    )
    g = np.random.default_rng(0)
    assert {selector.select(state, view(4), g).clients[0] for _ in range(100)} == {1, 2, 3}


def test_huge_losses_overflow_nothing_and_what_is_no_number_is_not_kept(view, outcome):
    selector = AFL(clients=1, discarded=0.0, temperature=10.0, uniform=0.0)
    state = trained(selector, view, outcome, 1e300, 1.0, 2.0)
    assert selector.select(state, view(3), np.random.default_rng(0)).clients == (0,)
    after = selector.update(state, view(3), outcome((2,), reports={2: {"loss": float("nan")}}))
    assert after["valuation"][2] == state["valuation"][2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"clients": -1}, r"AFL\.clients must be >= 0"),
        ({"discarded": 1.5}, r"AFL\.discarded must be in \[0, 1\]; got 1\.5"),
        ({"temperature": -1.0}, r"AFL\.temperature must be >= 0"),
        ({"uniform": 2.0}, r"AFL\.uniform must be in \[0, 1\]"),
    ],
)
def test_errors_name_the_option(options, said):
    with pytest.raises(InputError, match=said):
        AFL(**options)
