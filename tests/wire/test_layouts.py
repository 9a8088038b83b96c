import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.wire.layouts import VARIABLE, Layout, Spec, digest, finite
from fedgraft.wire.lazy import Made, MadeOnce


def test_a_layout_says_names_types_and_shapes_in_order():
    layout = Layout.of({"w": np.zeros((2, 3), np.float32), "b": np.zeros((), np.int64)})
    assert layout.specs == (Spec("w", "float32", (2, 3)), Spec("b", "int64", ()))
    assert [spec.name for spec in layout] == ["w", "b"]


@pytest.mark.parametrize(
    "other",
    [
        (Spec("v", "float32", (2, 3)),),
        (Spec("w", "float16", (2, 3)),),
        (Spec("w", "float32", (3, 2)),),
        (Spec("w", "float32", (VARIABLE, 3)),),
        (Spec("w", "float32", (2, 3)), Spec("b", "float32", ())),
        (),
    ],
)
def test_a_layout_s_digest_tells_layouts_apart(other):
    layout = Layout((Spec("w", "float32", (2, 3)),))
    assert layout.digest == Layout((Spec("w", "float32", (2, 3)),)).digest
    assert len(layout.digest) == 8
    assert layout.digest != Layout(other).digest


def test_the_digest_of_a_layout_is_a_golden_number():
    # It is on the wire: changing it changes the protocol.
    assert Layout((Spec("w", "float32", (2, 3)), Spec("b", "int64", ()))).digest.hex() == "2388237c505b4ecd"


@given(st.lists(st.floats(width=32, allow_nan=True), min_size=1, max_size=5), st.integers(0, 4), st.integers(0, 31))
def test_a_digest_covers_every_bit(values, place, bit):
    array = np.array(values, np.float32)
    changed = array.copy()
    changed.view(np.uint32)[place % len(values)] ^= np.uint32(1 << bit)
    assert digest({"w": array}) == digest({"w": array.copy()})
    assert digest({"w": array}) != digest({"w": changed})


def test_a_digest_covers_names_types_and_shapes_but_not_the_order():
    zeros = np.zeros(4, np.float32)
    others = [{"v": zeros}, {"w": zeros.astype(np.int32)}, {"w": zeros.reshape(2, 2)}, {"w": zeros, "v": zeros}, {}]
    digests = {digest(arrays) for arrays in [{"w": zeros}, *others]}
    assert len(digests) == 6
    assert digest({"a": zeros, "b": zeros + 1}) == digest({"b": zeros + 1, "a": zeros})
    assert digest({"w": np.arange(6.0).reshape(2, 3).T}) == digest(
        {"w": np.ascontiguousarray(np.arange(6.0).reshape(2, 3).T)}
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("value", [0.0, 1.0, 6e4, 1e38, 1e308, np.inf, -np.inf, np.nan])
def test_numbers_are_finite_however_large_and_however_they_lie(dtype, value):
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.array([[1.0, 2.0, 3.0], [-value, 4.0, value]]).astype(dtype)
    for seen in (array, array.T, array[:, ::2], array[:0], array[1, 2]):
        assert finite(seen) == bool(np.isfinite(seen).all())


def test_values_can_be_made_when_they_are_asked_for():
    made = []
    squares = Made([3, 1, 3], lambda key: made.append(key) or key**2)
    assert (list(squares), len(squares), made) == ([3, 1], 2, [])
    assert (squares[3], dict(squares)) == (9, {3: 9, 1: 1})
    assert made == [3, 3, 1]
    with pytest.raises(KeyError):
        squares[2]


def test_others_are_made_when_first_asked_for():
    made = []
    squares = MadeOnce([3, 1], lambda key: made.append(key) or key**2)
    assert (squares[1], made) == (1, [1])
    assert (dict(squares), made) == ({3: 9, 1: 1}, [1, 3])
    with pytest.raises(KeyError):
        squares[2]
