"""What users do elsewhere: a byte or two each way, never the client's own part."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.domains.ratings.shared_user_statistics import (
    COARSE,
    FINE,
    RANGE,
    SPREAD,
    RemoteRatings,
    check,
    combine,
    publish,
    understand,
)
from fedgraft.errors import WireError
from helpers.rating_shards import one_item_each

BOTH = pytest.mark.parametrize("code", [COARSE, FINE], ids=["a byte", "two bytes"])


def test_three_shops_by_hand():
    # User 5 is at all three, user 2 at the first only, user 9 at the last two.
    shops = [
        one_item_each([2, 5], [0, 1], [1.0, 5.0]),
        one_item_each([5, 9], [0, 0, 1], [5.0, 5.0, 2.0]),
        one_item_each([5, 9], [0, 1], [3.0, 3.0]),
    ]
    published = {client: publish(known, COARSE) for client, known in enumerate(shops)}
    assert np.flatnonzero(np.unpackbits(published[0]["users"])).tolist() == [2, 5]
    assert [len(each["codes"]) for each in published.values()] == [2, 2, 2]
    told = [
        understand(known, combine(published, 2, COARSE)[client]["codes"], COARSE) for client, known in enumerate(shops)
    ]
    # user 2 is nowhere else; user 5 has 2-3 at the second shop, told as 3, and 1 at the third: 4-7, told as 6
    assert told[0].ratings.tolist() == [0, 6]
    assert told[0].shrunk[0] == 0
    assert told[0].shrunk[1] > 0.1
    assert told[1].ratings.tolist() == [3, 1]
    assert told[2].shrunk[1] < -0.1  # user 9 is harsh at the second shop


@BOTH
def test_a_client_never_hears_itself(code):
    loud, quiet = one_item_each([1], [0], [5.0]), one_item_each([1], [0], [3.0])
    loud_again = one_item_each([1], [0], [1.0])
    first = combine({0: publish(loud, code), 1: publish(quiet, code)}, 2, code)[0]["codes"]
    second = combine({0: publish(loud_again, code), 1: publish(quiet, code)}, 2, code)[0]["codes"]
    assert first.tolist() == second.tolist()


@BOTH
@given(seed=st.integers(0, 10_000), clients=st.integers(2, 6))
def test_no_rounding_error_of_a_clients_own_part_comes_back(code, seed, clients):
    g = np.random.default_rng(seed)
    everybody = np.packbits(np.ones(48, np.uint8))
    published = {
        c: {"users": everybody, "codes": g.integers(0, 256, 48 * code.width).astype(np.uint8)} for c in range(clients)
    }
    first = combine(published, 2, code)[0]["codes"]
    published[0] = {"users": everybody, "codes": g.integers(0, 256, 48 * code.width).astype(np.uint8)}
    assert combine(published, 2, code)[0]["codes"].tolist() == first.tolist()


@given(st.lists(st.tuples(st.floats(-RANGE, RANGE), st.integers(0, 60)), min_size=1, max_size=30))
def test_error_of_a_byte(pairs):
    mean, count = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    found, ratings = COARSE.decode(COARSE.encode(mean, count))
    having = count > 0
    assert np.abs(found - mean)[having].max(initial=0) <= RANGE / 31 + 1e-12
    assert (found[~having] == 0).all()
    assert ((ratings >= count / 1.5 - 1e-9) & (ratings <= np.maximum(1.5 * count, 0))).all()


@given(st.lists(st.tuples(st.floats(-RANGE, RANGE), st.integers(0, 3000)), min_size=1, max_size=30))
def test_error_of_two_bytes(pairs):
    mean, count = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    found, ratings = FINE.decode(FINE.encode(mean, count))
    having = count > 0
    assert np.abs(found - mean)[having].max(initial=0) <= RANGE / 254 + 1e-12
    assert ((found == 0) & (ratings == 0))[~having].all()
    weight, told = count / (count + SPREAD), ratings / (ratings + SPREAD)
    assert np.abs(weight - told).max() <= 1 / 255 + 1e-12


def test_with_two_bytes_a_client_counts_by_what_its_mean_tells_of_others():
    # User 1 gave 12 ratings at one client and 36 at another: v = 1/2 and 3/4; a byte holds them nearly.
    mean, ratings = np.array([0.1, -0.1]), np.array([12.0, 36.0])
    said = [
        {"users": np.array([64], np.uint8), "codes": FINE.encode(mean[k : k + 1], ratings[k : k + 1])} for k in (0, 1)
    ]
    asking = {"users": np.array([64], np.uint8), "codes": FINE.encode(np.zeros(1), np.ones(1))}
    found, worth = FINE.decode(combine({0: said[0], 1: said[1], 2: asking}, 2, FINE)[2]["codes"])
    assert found[0] == pytest.approx((0.1 * 0.5 - 0.1 * 0.75) / 1.25, abs=2 * RANGE / 254)
    assert worth[0] == pytest.approx(12 * 1.25, rel=0.02), "12 (1/2 + 3/4) ratings"


def test_means_beyond_the_range_are_clipped_and_numbers_saturate():
    found, ratings = COARSE.decode(COARSE.encode(np.array([9.0, -9.0]), np.array([10_000, 1])))
    assert found.tolist() == [RANGE, -RANGE]
    assert ratings.tolist() == [96.0, 1.0]


def test_answers_that_do_not_fit_are_refused():
    known = one_item_each([1, 2], [0, 1], [5.0, 4.0])
    with pytest.raises(WireError, match="about 3 users; 2 were asked about"):
        understand(known, np.zeros(3, np.uint8), COARSE)
    assert understand(known, np.zeros(0, np.uint8), COARSE).ratings.tolist() == [0, 0]
    with pytest.raises(WireError, match="names 2 users but has 1 codes"):
        check({"users": np.packbits(np.array([1, 1], np.uint8)), "codes": np.zeros(1, np.uint8)}, COARSE)
    with pytest.raises(WireError, match=r"names 2 users but has 1\.5 codes"):
        check({"users": np.packbits(np.array([1, 1], np.uint8)), "codes": np.zeros(3, np.uint8)}, FINE)
    with pytest.raises(WireError, match=r"about 1\.5 users; 2 were asked about"):
        understand(known, np.zeros(3, np.uint8), FINE)


def test_columns_are_finite_and_newcomers_have_nothing():
    known = one_item_each([1, 2], [0, 1], [5.0, 4.0])
    elsewhere = RemoteRatings.of_means(np.array([0.5]), np.array([3.0])).padded(2)
    pairs, nodes = elsewhere.pair_columns(known, np.array([0, 1])), elsewhere.node_columns(known)
    assert pairs.shape == (2, 3)
    assert nodes.shape == (4, 2)
    assert np.isfinite(pairs).all()
    assert (pairs[0, 0], pairs[1, 0]) == (pytest.approx(3 * 4 * 0.5 * 3 / 8), 0.0)
    assert (nodes[1:] == 0).all()


def test_of_a_user_whom_fewer_clients_have_than_the_threshold_nothing_is_told():
    shops = [
        one_item_each([2, 5], [0, 1], [1.0, 5.0]),
        one_item_each([5, 9], [0, 0, 1], [5.0, 5.0, 2.0]),
        one_item_each([5, 9], [0, 1], [3.0, 3.0]),
    ]
    published = {client: publish(known, COARSE) for client, known in enumerate(shops)}
    told = [
        understand(known, combine(published, 3, COARSE)[client]["codes"], COARSE).ratings.tolist()
        for client, known in enumerate(shops)
    ]
    assert [each[-1] for each in told[1:]] == [0, 0], "user 9 is at two of them"
    assert told[0][1] == 6, "user 5 is at all three"
    assert all(
        not understand(k, combine(published, 4, COARSE)[c]["codes"], COARSE).ratings.any() for c, k in enumerate(shops)
    )


def test_how_far_a_client_says_that_users_reach_costs_nothing():
    """Four of these took 2 GB: three arrays of float64 as long as the common id space."""
    far = np.zeros(1 << 22, np.uint8)
    far[-1] = 1
    one = {"users": far, "codes": np.array([129], np.uint8)}
    tracemalloc.start()
    answers = combine(dict.fromkeys(range(3), one), 2, COARSE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [len(each["codes"]) for each in answers.values()] == [1, 1, 1]
    assert peak < len(far)
