"""Budgets and random orders that every selector shares."""

import itertools

import numpy as np
import pytest
from hypothesis import given
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


def test_candidates_are_affordable_one_by_one():
    assert cohorts.candidates(view([5, 3, 4], left=4, available=[True, True, False])) == [1]
    assert cohorts.candidates(view([5, 3, 4])) == [0, 1, 2]


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
