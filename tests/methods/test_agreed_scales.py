"""Codes that add up: by hand, exact sums, unbiased, clamped values counted, scales that follow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import ClientError, InputError, WireError
from fedgraft.methods.agreed_scales import MOST_CLAMPED, SLACK, AgreedScales
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.wire.layouts import VARIABLE, Layout, Spec

LAYOUT = Layout((Spec("w", "float32", (2, 2)), Spec("b", "float32", (1,))))


def rng(seed=0):
    return np.random.default_rng(seed)


def arrays(b, w):
    return {"w": np.array(w, np.float32).reshape(2, 2), "b": np.array([b], np.float32)}


def test_by_hand():
    """Three bits are levels -3 .. 3; "b" comes first; of the first bucket one value of two is beyond its scale."""
    coding = AgreedScales(LAYOUT, 3, 2, stochastic=False)
    scales = np.array([3.0, 6.0, 3.0], np.float32)
    codes = coding.coded(arrays(-1.0, [4.0, 2.0, -6.0, 0.4]), scales, rng())
    assert codes[:5].tolist() == [2, 6, 4, 0, 3]
    assert codes[5:].tolist() == [3, 0, 0]
    other = coding.coded(arrays(1.0, [0.0, 6.0, -6.0, 0.0]), scales, rng())
    total = 1 * codes.astype(np.uint64) + 3 * other.astype(np.uint64)
    mean = coding.mean(total, 4, scales)
    assert mean["b"].tolist() == [(1 * -1 + 3 * 1) / 4]
    np.testing.assert_allclose(mean["w"], [[3 / 4, (2 + 3 * 6) / 4], [-6, 0]], rtol=1e-6)
    assert list(mean) == ["w", "b"]


def test_scales_follow_what_is_clamped_and_how_large_the_mean_is():
    coding = AgreedScales(LAYOUT, 3, 2, stochastic=False)
    scales = np.array([3.0, 6.0, 3.0], np.float32)
    total = coding.coded(arrays(-1.0, [4.0, 2.0, -6.0, 0.4]), scales, rng()).astype(np.uint64)
    after = coding.following(total, 1, scales)
    np.testing.assert_allclose(after, [3 * SLACK, 6 * SLACK, 1.5])  # the mean fills two buckets, and nothing the third
    quiet = coding.coded(arrays(0.0, [0.0] * 4), scales, rng()).astype(np.uint64)
    assert coding.following(quiet, 1, scales).tolist() == [1.5, 3.0, 1.5]
    quiet[5] = 3  # half of a bucket's values were clamped, though the mean is 0
    assert MOST_CLAMPED < 0.5
    assert coding.following(quiet, 1, scales).tolist() == [6.0, 3.0, 1.5]


@given(st.integers(1, 16), st.integers(1, 7), st.booleans(), st.integers(0, 99), st.integers(1, 5))
def test_a_sum_of_codes_is_the_mean_within_a_step(bits, bucket, stochastic, seed, clients):
    coding, g = AgreedScales(LAYOUT, bits, bucket, stochastic), rng(seed)
    scales = coding.first(1.0)
    assert len(scales) == coding.scales
    weights = g.integers(1, 4, clients)
    sent = [arrays(g.uniform(-1, 1), g.uniform(-1, 1, 4)) for _ in range(clients)]
    codes = [coding.coded(each, scales, rng(k)) for k, each in enumerate(sent)]
    assert all(each.max() < 2**bits and len(each) == coding.codes for each in codes)
    total = np.sum([w * each.astype(np.uint64) for w, each in zip(weights, codes, strict=True)], axis=0)
    mean = coding.mean(total, int(weights.sum()), scales)
    levels = 2.0 ** (bits - 1) - 1 if bits > 1 else 0.5
    for name in ("w", "b"):
        true = np.sum([w * each[name] for w, each in zip(weights, sent, strict=True)], axis=0) / weights.sum()
        np.testing.assert_allclose(mean[name], true, atol=(1 if stochastic else 0.5) / levels + 1e-5)


def test_rounding_at_random_has_the_value_as_its_mean():
    layout = Layout((Spec("w", "float32", (20000,)),))
    coding = AgreedScales(layout, 4, 256, stochastic=True)
    codes = coding.coded({"w": np.full(20000, 0.123, np.float32)}, coding.first(1.0), rng())
    mean = coding.mean(codes.astype(np.uint64), 1, coding.first(1.0))["w"]
    assert mean.mean() == pytest.approx(0.123, abs=0.002)
    assert len(np.unique(mean)) == 2


def test_what_no_sum_can_hold_is_named():
    coding = AgreedScales(LAYOUT, 3, 2, stochastic=False)
    with pytest.raises(ClientError, match="NaN or infinity"):
        coding.coded(arrays(np.nan, [0] * 4), coding.first(1.0), rng())
    with pytest.raises(WireError, match="no sum of 8 codes of 3 bits with weights of 2 in all"):
        coding.mean(np.full(8, 13, np.uint64), 2, coding.first(1.0))
    with pytest.raises(WireError, match="no sum of 8 codes"):
        coding.mean(np.zeros(7, np.uint64), 2, coding.first(1.0))
    for spec in (Spec("n", "int32", (2,)), Spec("n", "float32", (VARIABLE,))):
        with pytest.raises(InputError, match="codes of 'n' cannot be added up"):
            AgreedScales(Layout((spec,)), 4, 8, False)


def test_quantized_has_agreed_scales_where_they_are_asked_for():
    assert Quantized().sum_coding(LAYOUT) is None
    coding = Quantized(bits=5, scale="agreed", bucket=4, rounding="stochastic").sum_coding(LAYOUT)
    assert (coding.sum_bits(1), coding.codes, coding.scales) == (5, 7, 2)
    plain, agreed = Quantized(), Quantized(scale="agreed")
    made = arrays(1.0, [0.5, -0.5, 0.25, 0.0])
    one, two = (each.encode(made, each.init(LAYOUT), rng())[0] for each in (plain, agreed))
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])
    for wrong in ({"bits": 32}, {"bucket": 0}):
        with pytest.raises(InputError, match=r"Quantized\.scale must be 'max' at 32 bits, and with bucket = 0"):
            Quantized(scale="agreed", **wrong)
