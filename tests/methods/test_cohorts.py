"""Budgets and random orders that every selector shares."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedgraft.contracts import View
from fedgraft.errors import InputError
from fedgraft.methods import cohorts


def view(costs, left=None, available=None, probes=None):
    n = len(costs)
    return View(
        round=1,
        samples=np.ones(n, dtype=np.int64),
        bytes_per_client=np.array(costs, dtype=np.int64),
        bytes_per_probe=np.array(probes or [1] * n, dtype=np.int64),
        seconds=np.ones(n),
        available=np.ones(n, dtype=bool) if available is None else np.array(available),
        bytes_left=left,
    )


def test_takes_down_the_order_what_still_fits():
    assert cohorts.affordable([2, 0, 1], view([5, 3, 4], left=8)) == (1, 2)  # 4, then 5 no longer fits, then 3
    assert cohorts.affordable([2, 0, 1], view([5, 3, 4])) == (0, 1, 2)
    assert cohorts.affordable([2, 0, 1], view([5, 3, 4], left=2)) == ()
    assert cohorts.affordable([2, 0, 1], view([5, 3, 4], available=[True, True, False])) == (0, 1)
    assert cohorts.affordable([2, 0, 1], view([5, 3, 4]), most=2) == (0, 2)
    assert cohorts.affordable([], view([5])) == ()


def test_leaves_room_for_the_least_number():
    assert cohorts.affordable([0, 1, 2], view([8, 3, 4], left=9)) == (0,)
    assert cohorts.affordable([0, 1, 2], view([8, 3, 4], left=9), least=2) == (1, 2)
    assert cohorts.affordable([0, 1, 2], view([8, 3, 4], left=11), least=2) == (0, 1)
    assert cohorts.affordable([0, 1, 2], view([8, 3, 4], left=9), least=3) == ()
    assert cohorts.affordable([0], view([8, 3, 4]), least=2) == ()


@given(
    costs=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    left=st.integers(0, 30),
    least=st.integers(1, 4),
)
def test_finds_the_least_number_exactly_when_there_is_one(costs, left, least):
    seen = view(costs, left)
    chosen = cohorts.affordable(range(len(costs)), seen, least)
    assert sum(costs[k] for k in chosen) <= left
    exists = any(sum(group) <= left for group in itertools.combinations(costs, least))
    assert bool(chosen) == exists
    assert not chosen or len(chosen) >= least


@given(
    costs=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    left=st.none() | st.integers(0, 40),
    most=st.none() | st.integers(0, 6),
    seed=st.integers(0, 99),
)
def test_an_array_is_walked_as_a_list_is(costs, left, most, seed):
    g = np.random.default_rng(seed)
    order, seen = g.permutation(len(costs)), view(costs, left, available=g.random(len(costs)) < 0.8)
    assert cohorts.affordable(order, seen, most=most) == cohorts.affordable(order.tolist(), seen, most=most)


def test_nobody_is_asked_for_more_than_is_wanted():
    def order():
        yield from (2, 0)
        raise AssertionError

    assert cohorts.affordable(order(), view([5, 3, 4]), most=2) == (0, 2)
    assert cohorts.affordable(order(), view([5, 3, 4]), most=0) == ()


def test_who_is_reachable_is_affordable_alone():
    assert cohorts.reachable(view([5, 3, 4], left=4, available=[True, True, False])).tolist() == [1]
    assert cohorts.reachable(view([5, 3, 4])).tolist() == [0, 1, 2]
    assert cohorts.reachable(view([5, 3, 4], available=[True, False, True])).tolist() == [0, 2]


def test_probes_leave_enough_for_one_client():
    # Probing 0 leaves 7 for a client of 6; probing 1 as well (3 + 3) would leave 4 for the cheaper of 6 and 5.
    assert cohorts.probeable([0, 1, 2], view([6, 5, 9], left=10, probes=[3, 3, 1])) == (0, 2)
    assert cohorts.probeable([0, 1, 2], view([6, 5, 9], left=11, probes=[3, 3, 1])) == (0, 1)
    assert cohorts.probeable([0, 1, 2], view([6, 5, 9], left=5, probes=[3, 3, 1])) == ()
    assert cohorts.probeable([0, 1, 2], view([6, 5, 9])) == (0, 1, 2)
    assert cohorts.probeable([0, 1], view([6, 5], available=[False, True])) == (1,)


def test_size_is_half_rounded_up_and_at_most_everybody():
    assert cohorts.size(0, view([1] * 5), "X.clients") == 3
    assert cohorts.size(0, view([1]), "X.clients") == 1
    assert cohorts.size(5, view([1] * 5), "X.clients") == 5
    with pytest.raises(InputError, match=r"X\.clients must be in \[0, 5\], the number of clients; got 6\."):
        cohorts.size(6, view([1] * 5), "X.clients")


def test_weighted_order_draws_successively_in_proportion():
    g = np.random.default_rng(0)
    orders = [cohorts.weighted_order([7, 8, 9], [1, 2, 5], g) for _ in range(4000)]
    first = np.array([order[0] for order in orders])
    assert np.allclose([(first == k).mean() for k in (7, 8, 9)], [1 / 8, 2 / 8, 5 / 8], atol=0.03)
    second = np.array([order[1] for order in orders if order[0] == 9])
    assert (second == 8).mean() == pytest.approx(2 / 3, abs=0.04)


def test_weighted_order_puts_weight_zero_last_at_random():
    g = np.random.default_rng(0)
    orders = [cohorts.weighted_order([0, 1, 2], [0, 3, 0], g) for _ in range(200)]
    assert all(order[0] == 1 and sorted(order) == [0, 1, 2] for order in orders)
    assert {order[1] for order in orders} == {0, 2}
    assert cohorts.weighted_order([], [], g) == []


def test_the_first_of_a_weighted_order_are_those_of_the_whole():
    weights = np.random.default_rng(1).integers(0, 4, 50)
    whole = cohorts.weighted_order(range(50), weights, np.random.default_rng(2))
    for most in (0, 1, 7, 50):
        assert cohorts.weighted_order(np.arange(50), weights, np.random.default_rng(2), most) == whole[:most]


@pytest.fixture
def few_are_many(monkeypatch):
    """More than three clients are many."""
    monkeypatch.setattr(cohorts, "MANY", 3)
    monkeypatch.setattr(cohorts, "SAMPLED", 4)


VALUES = st.lists(st.sampled_from([0.0, 1.0, 2.0, 2.5, np.inf, -np.inf, np.nan]), max_size=60)


@pytest.mark.usefixtures("few_are_many")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=VALUES, count=st.integers(0, 70))
def test_the_highest_are_in_the_order_of_a_stable_sort(values, count):
    worth = np.array(values, np.float64)
    order = np.argsort(-worth, kind="stable")
    assert cohorts.first_falling(worth, count).tolist() == order[:count].tolist()
    assert list(cohorts.falling(worth, count)) == order.tolist()


@pytest.mark.usefixtures("few_are_many")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=VALUES, count=st.integers(0, 70))
def test_equals_fall_at_random_and_nobody_is_left_out(values, count):
    worth, g = np.array(values, np.float64), np.random.default_rng(0)
    first, whole = cohorts.first_falling(worth, count, g), list(cohorts.falling(worth, count, g))
    assert sorted(whole) == list(range(len(worth)))
    falling = worth[np.argsort(-worth, kind="stable")]
    np.testing.assert_array_equal(worth[whole], falling)
    np.testing.assert_array_equal(worth[first], falling[:count])


@pytest.mark.usefixtures("few_are_many")
def test_each_of_some_equals_is_as_likely():
    worth, g = np.array([1.0, 5, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), np.random.default_rng(0)
    drawn = [cohorts.first_falling(worth, 3, g).tolist() for _ in range(3000)]
    assert {first for first, *_ in drawn} == {1}
    share = np.bincount([k for _, *others in drawn for k in others], minlength=7) / len(drawn)
    assert np.allclose(share[[0, 2, 3, 4, 6]], 2 / 5, atol=0.04)


@pytest.mark.parametrize("many", [3, 10])
def test_the_first_of_a_random_order_are_uniform(monkeypatch, many):
    monkeypatch.setattr(cohorts, "MANY", many)
    g = np.random.default_rng(0)
    drawn = [cohorts.random_first(np.arange(10, 16), 2, g) for _ in range(6000)]
    assert np.allclose(np.bincount(np.concatenate(drawn), minlength=16)[10:] / 6000, 1 / 3, atol=0.03)
    assert np.allclose(np.bincount([one for one, _ in drawn], minlength=16)[10:] / 6000, 1 / 6, atol=0.02)


def test_few_are_in_the_order_of_a_permutation():
    pool = np.arange(5, 40)
    assert cohorts.random_first(pool, 9, np.random.default_rng(3)).tolist() == (
        np.random.default_rng(3).permutation(pool)[:9].tolist()
    )


@pytest.mark.parametrize("discarded", [0.0, 0.5])
def test_many_are_drawn_with_the_chances_of_few(monkeypatch, discarded):
    worth = np.array([3.0, 0, 1, np.nan, 1, np.nan, 2, 1])

    def shares(many):
        monkeypatch.setattr(cohorts, "MANY", many)
        g = np.random.default_rng(0)
        drawn = [cohorts.softmax_draw(worth, 3, discarded, 0.7, g) for _ in range(8000)]
        assert all(len(set(each.tolist())) == 3 for each in drawn)
        return np.array([np.bincount([each[place] for each in drawn], minlength=8) for place in range(3)]) / 8000

    assert np.allclose(shares(3), shares(10), atol=0.03)
