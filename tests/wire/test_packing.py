"""Numbers of few bits: exact, and as short as can be."""

import math

import numpy as np
import pytest

from fedgraft.errors import WireError
from fedgraft.wire import packing


def padded(values, bits):
    codes = np.zeros(-(-len(values) // 8) * 8, packing.code_type(bits))
    codes[: len(values)] = values
    return codes


def test_packing_by_hand():
    # The first code is the lowest bits: 0b101, 0b011, 0b111 are 0b1_11_011_101 = 0x1DD in two bytes.
    assert packing.pack(padded([5, 3, 7], 3), 3, 3).tolist() == [0xDD, 0x01]
    # Beyond eight bits, the low bytes 0x23 and 0xBC come first, then 0x1 and 0xA.
    assert packing.pack(padded([0x123, 0xABC], 12), 2, 12).tolist() == [0x23, 0xBC, 0xA1]
    assert packing.unpack(np.array([0x23, 0xBC, 0xA1], np.uint8), 2, 12).tolist() == [0x123, 0xABC]


@pytest.mark.parametrize("bits", range(33))
@pytest.mark.parametrize("values", [0, 1, 7, 8, 9, 255, 1000])
def test_packing_is_exact_and_as_short_as_it_can_be(bits, values):
    codes = padded(np.random.default_rng(bits).integers(0, 2**bits, values), bits)
    packed = packing.pack(codes, values, bits)
    assert packed.nbytes == packing.packed_bytes(values, bits) == math.ceil(values * bits / 8)
    unpacked = packing.unpack(packed, values, bits)
    assert unpacked.dtype == codes.dtype
    np.testing.assert_array_equal(unpacked, codes[:values])


def test_unpacking_what_is_never_packed():
    with pytest.raises(WireError, match="3 codes of 3 bits take 2 bytes; got 1"):
        packing.unpack(np.zeros(1, np.uint8), 3, 3)
    with pytest.raises(WireError, match="behind the last packed value"):
        packing.unpack(np.array([0xDD, 0x03], np.uint8), 3, 3)
