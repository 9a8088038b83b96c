import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import WireError
from fedgraft.methods import bit_packing
from fedgraft.wire.layouts import VARIABLE, Layout, Spec


def padded(values, bits):
    codes = np.zeros(-(-len(values) // 8) * 8, bit_packing.code_type(bits))
    codes[: len(values)] = values
    return codes


def test_packing_by_hand():
    # The first code is the lowest bits: 0b101, 0b011, 0b111 are 0b1_11_011_101 = 0x1DD in two bytes.
    assert bit_packing.pack(padded([5, 3, 7], 3), 3, 3).tolist() == [0xDD, 0x01]
    # Beyond eight bits, the low bytes 0x23 and 0xBC come first, then 0x1 and 0xA.
    assert bit_packing.pack(padded([0x123, 0xABC], 12), 2, 12).tolist() == [0x23, 0xBC, 0xA1]
    assert bit_packing.unpack(np.array([0x23, 0xBC, 0xA1], np.uint8), 2, 12).tolist() == [0x123, 0xABC]


@pytest.mark.parametrize("bits", range(33))
@pytest.mark.parametrize("values", [0, 1, 7, 8, 9, 255, 1000])
def test_packing_is_exact_and_as_short_as_it_can_be(bits, values):
    codes = padded(np.random.default_rng(bits).integers(0, 2**bits, values), bits)
    packed = bit_packing.pack(codes, values, bits)
    assert packed.nbytes == bit_packing.packed_bytes(values, bits) == math.ceil(values * bits / 8)
    unpacked = bit_packing.unpack(packed, values, bits)
    assert unpacked.dtype == codes.dtype
    np.testing.assert_array_equal(unpacked, codes[:values])


def test_unpacking_what_is_never_packed():
    with pytest.raises(WireError, match="3 codes of 3 bits take 2 bytes; got 1"):
        bit_packing.unpack(np.zeros(1, np.uint8), 3, 3)
    with pytest.raises(WireError, match="behind the last packed value"):
        bit_packing.unpack(np.array([0xDD, 0x03], np.uint8), 3, 3)


LAYOUT = Layout(
    (
        Spec("w", "float32", (VARIABLE, 3)),
        Spec("n", "int64", (VARIABLE,)),
        Spec("b", "float32", (2,)),
        Spec("g", "float32", ()),
    )
)
ARRAYS = {
    "w": np.arange(6, dtype=np.float32).reshape(3, 2).T,
    "n": np.arange(5),
    "b": np.array([7, 8], np.float32),
    "g": np.array(9, np.float32),
}


def test_arrays_end_to_end_and_back():
    specs, arrays = bit_packing.float32_specs(LAYOUT), list(bit_packing.float32_arrays(ARRAYS).values())
    assert [spec.name for spec in specs] == list(bit_packing.float32_arrays(ARRAYS)) == ["b", "g", "w"]
    flat = bit_packing.flatten(arrays, 11)
    assert flat.tolist() == [7, 8, 9, 0, 2, 4, 1, 3, 5, 0, 0]
    variable = bit_packing.variable_axes(specs)
    assert variable.tolist() == [[2, 0]]
    dims = bit_packing.dims_of(arrays, variable)
    assert (dims.dtype, dims.tolist()) == (np.uint32, [2])
    shapes = bit_packing.shapes_of(specs, dims)
    assert shapes == [(2,), (), (2, 3)]
    again = bit_packing.split(flat, specs, shapes)
    for name in ("b", "g", "w"):
        np.testing.assert_array_equal(again[name], ARRAYS[name], strict=True)
    assert [spec.name for spec in bit_packing.float32_specs(LAYOUT, min_dims=2)] == ["w"]
    assert list(bit_packing.float32_arrays(ARRAYS, min_dims=1)) == ["b", "w"]


def test_nothing_varies():
    assert bit_packing.variable_axes([]).shape == (0, 2)
    assert bit_packing.shapes_of([Spec("b", "float32", (2,))], None) == [(2,)]


def test_shapes_that_no_array_has():
    with pytest.raises(WireError, match="No array has the shape"):
        bit_packing.reshaped(np.zeros(0, np.float32), (2**32, 2**32, 0))


@given(st.sets(st.sampled_from(["a", "b", "a+", "b+", "a++", "c"])))
def test_free_names_are_free_and_alike(taken):
    names = bit_packing.free_names(taken, "a", "b")
    assert not taken & set(names)
    assert [name.rstrip("+") for name in names] == ["a", "b"]
    assert len({name.count("+") for name in names}) == 1


def test_largest_magnitude():
    assert bit_packing.largest_magnitude(np.array([1, -3], np.float32)) == 3
    assert bit_packing.largest_magnitude(np.zeros((0, 2), np.float32)) == 0
    assert np.isnan(bit_packing.largest_magnitude(np.array([1, np.nan], np.float32)))
