"""Times of all clients' edges in one order, by mean times of groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.domains.edges.order_of_time import agreed_order, places_of, told_times
from fedgraft.errors import InputError


def test_two_clients_by_hand() -> None:
    """Four edges at 0, 1, 2, 3 and two at 10, 12, each two of a group: means 0.5, 2.5 and 11."""
    one, other = told_times(np.array([3.0, 0, 2, 1]), 2), told_times(np.array([12.0, 10]), 2)
    assert (one["mean"].tolist(), one["count"].tolist()) == ([0.5, 2.5], [2, 2])
    order = agreed_order([one, other])
    assert order["times"] == [0.5, 2.5, 11.0]
    assert order["places"] == pytest.approx([1 / 6, 3 / 6, 5 / 6])
    place = places_of(np.array([0.5, 1.5, 11.0]), **order)
    assert place == pytest.approx([1 / 6, 2 / 6, 5 / 6])
    # Knots are 5.25 apart: that far before the first one the place is 1 / (1 + log 2) of its own.
    assert places_of(np.array([0.5 - 5.25]), **order) == pytest.approx(1 / 6 / (1 + np.log(2)))
    far = places_of(np.array([-1e18, -1e9, 1e9, 1e18]), **order)
    assert (np.diff(far) > 0).all()
    assert 0 < far[0] < 0.01
    assert 0.99 < far[-1] < 1


def test_nothing_is_told_that_few_edges_are_behind() -> None:
    assert told_times(np.array([1.0, 2, 3, 4]), 5)["mean"].tolist() == []
    told = told_times(np.arange(1000.0), 5)
    assert len(told["mean"]) == 100
    assert told["count"].min() >= 5
    with pytest.raises(InputError, match=r"data\.time: every client has fewer edges than data\.min_examples"):
        agreed_order([told_times(np.array([1.0]), 5)])


@pytest.mark.parametrize(
    "told",
    [
        None,
        {"mean": np.array([1.0])},
        {"mean": np.array([np.nan]), "count": np.array([1], np.uint32)},
        {"mean": np.array([1.0]), "count": np.array([0], np.uint32)},
        {"mean": np.array([1.0, 2.0]), "count": np.array([1], np.uint32)},
    ],
)
def test_what_no_client_can_have_published(told) -> None:
    with pytest.raises(InputError, match="Client 0 has published something that is no mean times"):
        agreed_order([told])


@given(
    st.lists(st.lists(st.integers(-50, 50), min_size=5, max_size=60), min_size=1, max_size=4),
    st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=20),
)
def test_later_is_later(clients: list[list[int]], more: list[int]) -> None:
    order = agreed_order([told_times(np.array(each, np.float64), 5) for each in clients])
    times = np.unique([*more, *(time for each in clients for time in each)]).astype(np.float64)
    places = places_of(times, **order)
    assert (np.diff(places) > 0).all()
    assert places[0] >= 0
    assert places[-1] < 1


def test_shares_are_about_right() -> None:
    g = np.random.default_rng(1)
    clients = [g.exponential(size, 400 * size) for size in (1, 5, 20)]
    order = agreed_order([told_times(each, 5) for each in clients])
    every = np.concatenate(clients)
    assert (places_of(every, **order) < 0.64).mean() == pytest.approx(0.64, abs=0.02)
