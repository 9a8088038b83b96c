import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import WireError
from fedgraft.methods import float_codec
from fedgraft.wire.layouts import VARIABLE, Layout, Spec

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
    specs, arrays = float_codec.float32_specs(LAYOUT), list(float_codec.float32_arrays(ARRAYS).values())
    assert [spec.name for spec in specs] == list(float_codec.float32_arrays(ARRAYS)) == ["b", "g", "w"]
    flat = float_codec.flatten(arrays, 11)
    assert flat.tolist() == [7, 8, 9, 0, 2, 4, 1, 3, 5, 0, 0]
    variable = float_codec.variable_axes(specs)
    assert variable.tolist() == [[2, 0]]
    dims = float_codec.dims_of(arrays, variable)
    assert (dims.dtype, dims.tolist()) == (np.uint32, [2])
    shapes = float_codec.shapes_of(specs, dims)
    assert shapes == [(2,), (), (2, 3)]
    again = float_codec.split(flat, specs, shapes)
    for name in ("b", "g", "w"):
        np.testing.assert_array_equal(again[name], ARRAYS[name], strict=True)
    assert [spec.name for spec in float_codec.float32_specs(LAYOUT, min_dims=2)] == ["w"]
    assert list(float_codec.float32_arrays(ARRAYS, min_dims=1)) == ["b", "w"]


def test_nothing_varies():
    assert float_codec.variable_axes([]).shape == (0, 2)
    assert float_codec.shapes_of([Spec("b", "float32", (2,))], None) == [(2,)]


def test_shapes_that_no_array_has():
    with pytest.raises(WireError, match="No array has the shape"):
        float_codec.reshaped(np.zeros(0, np.float32), (2**32, 2**32, 0))


@given(st.sets(st.sampled_from(["a", "b", "a+", "b+", "a++", "c"])))
def test_free_names_are_free_and_alike(taken):
    names = float_codec.free_names(taken, "a", "b")
    assert not taken & set(names)
    assert [name.rstrip("+") for name in names] == ["a", "b"]
    assert len({name.count("+") for name in names}) == 1


def test_largest_magnitude():
    assert float_codec.largest_magnitude(np.array([1, -3], np.float32)) == 3
    assert float_codec.largest_magnitude(np.zeros((0, 2), np.float32)) == 0
    assert np.isnan(float_codec.largest_magnitude(np.array([1, np.nan], np.float32)))
