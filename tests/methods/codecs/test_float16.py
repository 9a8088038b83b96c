import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.errors import ClientError, WireError
from fedgraft.methods.codecs.float16 import Float16
from fedgraft.wire import Message
from fedgraft.wire.layouts import Layout

G = np.random.default_rng(0)


def there_and_back(*values):
    arrays = {"w": np.array(values, np.float32)}
    encoded, _ = Float16().encode(arrays, None, G)
    assert encoded["w"].dtype == np.float16
    return Float16().decode(encoded, Layout.of(arrays))["w"].tolist()


def test_by_hand():
    # One step of a half is 2**-10 in [1, 2) and 2**-24 near zero; ties go to even.
    assert there_and_back(1.0, 1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-11, 2**-24, 2**-26, -0.0) == [
        1.0, 1 + 2**-10, 1.0, 1 + 2**-9, 2**-24, 0.0, 0.0
    ]  # fmt: skip


def test_large_values_saturate():
    assert there_and_back(65504, 65519, 65520, 1e30, -1e38) == [65504, 65504, 65504, 65504, -65504]


@given(st.lists(st.floats(-65504, 65504, width=32), max_size=20))
def test_error_bound(values):
    for value, got in zip(values, there_and_back(*values), strict=True):
        assert abs(value - got) <= max(2**-11 * abs(value), 2**-25)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_at_both_ends(bad):
    with pytest.raises(ClientError, match="'w' holds NaN or infinity"):
        there_and_back(1.0, bad)
    layout = Layout.of({"w": np.zeros(1, np.float32)})
    with pytest.raises(WireError, match="'w' holds NaN or infinity"):
        Float16().decode({"w": np.array([bad], np.float16)}, layout)


def test_halves_that_were_halves_stay():
    arrays = {"h": np.array([np.inf], np.float16)}
    encoded, _ = Float16().encode(arrays, None, G)
    assert Float16().decode(encoded, Layout.of(arrays))["h"].dtype == np.float16


def test_cost_is_two_bytes_a_value():
    arrays = {"w": np.ones((10, 10), np.float32), "b": np.ones(3, np.float32)}
    encoded, _ = Float16().encode(arrays, None, G)
    layout = Float16().encoded(Layout.of(arrays))
    blob = wire.encode(Message("train", arrays=encoded), layout)
    assert len(blob) == wire.header_bytes(blob) + 2 * 103 == wire.message_bytes(layout)


def test_rounds_as_numpy_does_from_any_memory_order():
    bits = np.arange(0, 2**32, 65_521, dtype=np.uint64).astype(np.uint32).view(np.float32)
    values = bits[np.abs(bits) <= 65504]
    values = values[: values.size // 6 * 6].reshape(2, -1)
    expected = values.astype(np.float16)
    read_only = values.copy()
    read_only.flags.writeable = False
    for array, half in (
        (values, expected),
        (read_only, expected),
        (values.T, expected.T),
        (values[:, ::-2], expected[:, ::-2]),
    ):
        encoded, _ = Float16().encode({"w": array}, None, G)
        np.testing.assert_array_equal(encoded["w"].view(np.uint16), np.ascontiguousarray(half).view(np.uint16))
