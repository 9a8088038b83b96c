"""Uniform selection: a fixed number, or by probability."""

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.random import Random


def cohorts(selector, view, draws=4000):
    g = np.random.default_rng(0)
    return [selector.select(None, view, g).clients for _ in range(draws)]


def test_fixed_number_is_uniform(view):
    drawn = cohorts(Random(clients=2), view(5))
    assert {len(cohort) for cohort in drawn} == {2}
    share = np.bincount(np.concatenate(drawn), minlength=5) / len(drawn)
    assert np.allclose(share, 2 / 5, atol=0.03)


def test_fixed_number_of_the_available(view):
    seen = view(5, available=[True, False, True, False, False])
    assert set(cohorts(Random(clients=3), seen, 20)) == {(0, 2)}


@pytest.mark.parametrize("probability", [0.5, 0.05, 1.0])
def test_by_probability_is_an_independent_draw_repeated_until_somebody_is_drawn(view, probability):
    drawn = cohorts(Random(probability=probability), view(3))
    assert min(len(cohort) for cohort in drawn) == 1 or probability == 1
    somebody = 1 - (1 - probability) ** 3
    share = np.bincount(np.concatenate(drawn), minlength=3) / len(drawn)
    assert np.allclose(share, probability / somebody, atol=0.03)
    everybody = np.mean([len(cohort) == 3 for cohort in drawn])
    assert everybody == pytest.approx(probability**3 / somebody, abs=0.03)


def test_tiny_probability_ends(view):
    assert {len(cohort) for cohort in cohorts(Random(probability=1e-300), view(3), 50)} == {1}


def test_little_budget_drops_clients_at_random(view):
    drawn = cohorts(Random(clients=4), view(4, bytes_left=250), 200)
    assert {len(cohort) for cohort in drawn} == {2}
    assert len(set(drawn)) == 6
    assert cohorts(Random(), view(4, bytes_left=99), 1) == [()]


def test_only_payable_clients_are_drawn(view):
    seen = view(3, bytes_per_client=[50, 500, 500], bytes_left=100)
    assert set(cohorts(Random(clients=1), seen, 20)) == {(0,)}


def test_all_train_while_it_warms_up(view):
    selector = Random(clients=2, warm_up=1)
    first, second = (cohorts(selector, view(4, round=round), 1)[0] for round in (1, 2))
    assert sorted(first) == [0, 1, 2, 3]
    assert len(second) == 2
    assert cohorts(selector, view(4, round=2), 5) == cohorts(Random(clients=2), view(4, round=2), 5), "the same draws"
    assert len(cohorts(selector, view(4, bytes_left=250), 1)[0]) == 2, "those whom the budget pays for"
    with pytest.raises(InputError, match=r"Random\.warm_up must be >= 0; got -1\."):
        Random(warm_up=-1)


def test_errors_name_the_option(view):
    with pytest.raises(InputError, match=r"Random\.probability must be in \(0, 1\]; got 0\."):
        Random(probability=0)
    with pytest.raises(InputError, match=r"Random\.clients must be >= 0; got -1\."):
        Random(clients=-1)
    with pytest.raises(InputError, match=r"Random\.clients must be in \[0, 4\], the number of clients; got 5\."):
        Random(clients=5).init(view(4))
