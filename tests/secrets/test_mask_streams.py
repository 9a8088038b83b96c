"""Masks are ChaCha20's stream, cancel, and hide what they are added to."""

import numpy as np
import pytest

from fedgraft.secrets.masked_sum import lane_type, mask

KEY = bytes(range(32))


def test_a_stream_is_that_of_rfc_8439():
    """Its appendix A.1, test vector 1: the key of zeros, counter and nonce 0."""
    values = np.zeros(64, np.uint8)
    mask(values, [bytes(32)], [])
    assert values[:16].tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"
    wide = np.zeros(16, np.uint32)
    mask(wide, [bytes(32)], [])
    assert wide.astype("<u4").tobytes() == values.tobytes()


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 16, 17, 32, 33, 63])
@pytest.mark.parametrize("size", [0, 1, 1 << 16, (1 << 16) + 5])
def test_what_one_adds_another_subtracts(bits, size):
    values = np.random.default_rng(bits).integers(0, 2**bits, size).astype(lane_type(bits))
    before = values.copy()
    mask(values, [KEY], [bytes(32)])
    if size > 1000:
        assert (values != before).mean() > 0.99
    mask(values, [bytes(32)], [KEY])
    np.testing.assert_array_equal(values, before)


def test_a_stream_goes_on_over_blocks():
    long, short = np.zeros(1 << 17, np.uint16), np.zeros(1 << 17, np.uint8)
    mask(long, [KEY], [])
    mask(short, [KEY], [])
    assert long.astype("<u2").tobytes()[: 1 << 17] == short.tobytes()


def test_a_masked_vector_is_uniform():
    """Chi-square of its bytes, of all-equal values: 255 degrees of freedom, a thousandth beyond 330."""
    values = np.full(1 << 18, 7, np.uint8)
    mask(values, [KEY], [])
    counts = np.bincount(values, minlength=256)
    assert ((counts - 1024) ** 2 / 1024).sum() < 330
