"""What all clients' users do together: two numbers each, in which one rating has a part no longer than 1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.domains.ratings.shared_user_statistics import SPREAD
from fedgraft.domains.ratings.telling_users import (
    COUNT,
    HEIGHT,
    UNITS,
    VARIANCE,
    from_sum,
    summed,
    understand,
)
from fedgraft.errors import WireError
from helpers.rating_shards import one_item_each

USERS = 8


def told(shops, unit="", longest=1.0, noise=0.0):
    total = sum(summed(known, USERS, 0.75, unit, longest) for known in shops)
    return from_sum(total, unit, longest, noise)


def heard(known, shared):
    return understand(known, shared, 0.75)


def test_three_shops_by_hand():
    """User 5 gives 5, 4 at one shop, 5 at another: heights 1, 0 and 1 above four stars; 1, 2 and 3 stars are -1."""
    shops = [
        one_item_each([2, 5], [0, 1, 1], [3.0, 5.0, 4.0]),
        one_item_each([5], [0], [5.0]),
        one_item_each([1, 2], [0, 1], [1.0, 2.0]),
    ]
    total = sum(summed(known, USERS, 0.75, "", 1.0) for known in shops)
    np.testing.assert_allclose(total[5], [HEIGHT * 2, COUNT * 3], atol=1 / 16)
    np.testing.assert_allclose(total[1], [-HEIGHT, COUNT], atol=1 / 32)
    found = heard(shops[1], told(shops))
    mean = (-1 + 1 + 0 - 1 - 1) / 5
    effect, n = VARIANCE / SPREAD, 2
    guess = (1 - mean * n) * n * effect / (n * n * effect + n * VARIANCE)
    assert found.ratings == pytest.approx([2.0], abs=0.1)  # sums are told in sixteenths
    assert found.shrunk == pytest.approx([guess], abs=0.01)


def test_a_client_never_hears_itself():
    quiet = one_item_each([1], [0], [3.0])
    first, second = (heard(loud, told([loud, quiet])) for loud in (one_item_each([1], [0], [r]) for r in (5.0, 1.0)))
    assert first.ratings.tolist() == second.ratings.tolist()
    other = heard(one_item_each([3], [0], [4.0]), told([one_item_each([3], [0], [4.0]), quiet]))
    assert (other.ratings.tolist(), other.shrunk.tolist()) == ([0.0], [0.0])


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(1, 5)), min_size=1, max_size=30),
    st.sampled_from(UNITS),
    st.floats(0.1, 5),
)
def test_a_unit_less_moves_a_clients_part_by_no_more_than_the_length(ratings, unit, longest):
    user, rating = [u for u, _ in ratings], [r for _, r in ratings]
    whole = summed(one_item_each([0, 2, 5, 7], user, rating), USERS, 0.75, unit, longest)
    left = [k for k in range(len(user)) if (k if unit == "rating" else user[k]) != (0 if unit == "rating" else user[0])]
    rest = summed(
        one_item_each([0, 2, 5, 7], [user[k] for k in left], [rating[k] for k in left]), USERS, 0.75, unit, longest
    )
    assert np.linalg.norm(whole - rest) <= longest * (1 + 1e-6)


def test_with_more_noise_less_is_believed():
    shops = [one_item_each([1], [0] * 9, [5.0] * 9), one_item_each([1, 2], [0, 1], [3.0, 1.0])]
    found = [heard(shops[1], told(shops, "rating", 1.0, noise)).shrunk[0] for noise in (0.0, 1.0, 5.0, 100.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 4 * found[2] > 0
    assert found[3] == pytest.approx(0, abs=1e-3)


def test_sums_that_no_server_made():
    known = one_item_each([1], [0], [3.0])
    shared = told([known])
    for made in ([-1, 1 << 16, 0], [0, 0, 0], [0, 1 << 16, 3]):
        with pytest.raises(WireError, match="made in no way that is known"):
            heard(known, {**shared, "made": np.array(made, np.int32)})
