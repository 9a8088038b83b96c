"""What users do elsewhere: a byte each way, never the client's own part."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.domains.ratings.features import Known
from fedgraft.domains.ratings.shards import RatingShard
from fedgraft.domains.ratings.shared_user_statistics import (
    RANGE,
    Elsewhere,
    _decode,
    _encode,
    check,
    combine,
    publish,
    understand,
)
from fedgraft.errors import WireError


def shard(users: list[int], user: list[int], rating: list[float]) -> RatingShard:
    """One item per rating, so that item biases are shrunk residuals and nothing else."""
    n = len(rating)
    return RatingShard(
        name="shop",
        users=np.array(users),
        items=np.arange(n),
        user=np.array(user),
        item=np.arange(n),
        category=np.zeros(n, np.int64),
        rating=np.array(rating, np.float32),
        split=np.zeros(n, np.uint8),
        trust=np.zeros((2, 0), np.int64),
        scale=(1.0, 5.0),
        n_categories=1,
        user_ids=np.array(users),
        item_ids=np.arange(n),
    )


def known_of(*arguments) -> Known:
    one = shard(*arguments)
    return Known(one, np.arange(len(one.rating)))


def test_three_shops_by_hand():
    # User 5 is at all three, user 2 at the first only, user 9 at the last two.
    shops = [
        known_of([2, 5], [0, 1], [1.0, 5.0]),
        known_of([5, 9], [0, 0, 1], [5.0, 5.0, 2.0]),
        known_of([5, 9], [0, 1], [3.0, 3.0]),
    ]
    published = {client: publish(known) for client, known in enumerate(shops)}
    assert np.flatnonzero(np.unpackbits(published[0]["users"])).tolist() == [2, 5]
    assert [len(each["codes"]) for each in published.values()] == [2, 2, 2]
    told = [understand(known, combine(published, 2)[client]["codes"]) for client, known in enumerate(shops)]
    # user 2 is nowhere else; user 5 has 2-3 at the second shop, told as 3, and 1 at the third: 4-7, told as 6
    assert told[0].ratings.tolist() == [0, 6]
    assert told[0].residual[0] == 0
    assert told[0].residual[1] > 0.05
    assert told[1].ratings.tolist() == [3, 1]
    assert told[2].residual[1] < -0.05  # user 9 is harsh at the second shop


def test_a_client_never_hears_itself():
    loud, quiet = known_of([1], [0], [5.0]), known_of([1], [0], [3.0])
    loud_again = known_of([1], [0], [1.0])
    first = combine({0: publish(loud), 1: publish(quiet)}, 2)[0]["codes"]
    second = combine({0: publish(loud_again), 1: publish(quiet)}, 2)[0]["codes"]
    assert first.tolist() == second.tolist()


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_no_rounding_error_of_a_clients_own_part_comes_back(seed, clients):
    g = np.random.default_rng(seed)
    everybody = np.packbits(np.ones(48, np.uint8))
    published = {c: {"users": everybody, "codes": g.integers(0, 256, 48).astype(np.uint8)} for c in range(clients)}
    first = combine(published, 2)[0]["codes"]
    published[0] = {"users": everybody, "codes": g.integers(0, 256, 48).astype(np.uint8)}
    assert combine(published, 2)[0]["codes"].tolist() == first.tolist()


@given(st.lists(st.tuples(st.floats(-RANGE, RANGE), st.integers(0, 60)), min_size=1, max_size=30))
def test_error_of_a_byte(pairs):
    mean, count = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    found, ratings = _decode(_encode(mean, count))
    having = count > 0
    assert np.abs(found - mean)[having].max(initial=0) <= RANGE / 31 + 1e-12
    assert (found[~having] == 0).all()
    assert ((ratings >= count / 1.5 - 1e-9) & (ratings <= np.maximum(1.5 * count, 0))).all()


def test_means_beyond_the_range_are_clipped_and_numbers_saturate():
    found, ratings = _decode(_encode(np.array([9.0, -9.0]), np.array([10_000, 1])))
    assert found.tolist() == [RANGE, -RANGE]
    assert ratings.tolist() == [96.0, 1.0]


def test_answers_that_do_not_fit_are_refused():
    known = known_of([1, 2], [0, 1], [5.0, 4.0])
    with pytest.raises(WireError, match="about 3 users; 2 were asked about"):
        understand(known, np.zeros(3, np.uint8))
    assert understand(known, np.zeros(0, np.uint8)).ratings.tolist() == [0, 0]
    with pytest.raises(WireError, match="names 2 users but has 1 codes"):
        check({"users": np.packbits(np.array([1, 1], np.uint8)), "codes": np.zeros(1, np.uint8)})


def test_columns_are_finite_and_newcomers_have_nothing():
    known = known_of([1, 2], [0, 1], [5.0, 4.0])
    elsewhere = Elsewhere(np.array([0.5]), np.array([3.0])).padded(2)
    pairs, nodes = elsewhere.pair_columns(known, np.array([0, 1])), elsewhere.node_columns(known)
    assert pairs.shape == (2, 3)
    assert nodes.shape == (4, 2)
    assert np.isfinite(pairs).all()
    assert (pairs[0, 0], pairs[1, 0]) == (pytest.approx(3 * 4 * 0.5 * 3 / 8), 0.0)
    assert (nodes[1:] == 0).all()


def test_of_a_user_whom_fewer_clients_have_than_the_threshold_nothing_is_told():
    shops = [
        known_of([2, 5], [0, 1], [1.0, 5.0]),
        known_of([5, 9], [0, 0, 1], [5.0, 5.0, 2.0]),
        known_of([5, 9], [0, 1], [3.0, 3.0]),
    ]
    published = {client: publish(known) for client, known in enumerate(shops)}
    told = [
        understand(known, combine(published, 3)[client]["codes"]).ratings.tolist() for client, known in enumerate(shops)
    ]
    assert [each[-1] for each in told[1:]] == [0, 0], "user 9 is at two of them"
    assert told[0][1] == 6, "user 5 is at all three"
    assert all(not understand(k, combine(published, 4)[c]["codes"]).ratings.any() for c, k in enumerate(shops))


def test_how_far_a_client_says_that_users_reach_costs_nothing():
    """Four of these took 2 GB: three arrays of float64 as long as the common id space."""
    far = np.zeros(1 << 22, np.uint8)
    far[-1] = 1
    one = {"users": far, "codes": np.array([129], np.uint8)}
    tracemalloc.start()
    answers = combine(dict.fromkeys(range(3), one), 2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [len(each["codes"]) for each in answers.values()] == [1, 1, 1]
    assert peak < len(far)
