import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedgraft import wire
from fedgraft.errors import ClientError, InputError, WireError
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.wire import Message
from fedgraft.wire.layouts import VARIABLE, Layout, Spec, digest


def g(seed=0):
    return np.random.Generator(np.random.Philox(seed))


def there(codec, arrays, seed=0):
    layout = Layout.of(arrays)
    return codec.encode(arrays, codec.init(layout), g(seed))[0], layout


def there_and_back(codec, arrays, seed=0):
    encoded, layout = there(codec, arrays, seed)
    return codec.decode(encoded, layout)


def test_four_bits_by_hand():
    # Scale 7 and 7 levels: steps of 1, from code 0 = -7 to code 14 = 7; the first of two values in the low half.
    arrays = {"w": np.array([7.0, -7.0, 1.2, 0.0, -2.6], np.float32)}
    encoded, layout = there(Quantized(), arrays)
    assert encoded["scales"].tolist() == [7.0]
    assert encoded["packed"].tolist() == [0x0E, 0x78, 0x04]
    assert Quantized().decode(encoded, layout)["w"].tolist() == [7, -7, 1, 0, -3]


def test_rows_each_by_itself_by_hand():
    # Eight values a bucket, of which three are there: a scale of 7, then codes as above; zero is code 7.
    rows = np.array([[7, -7, 1.2], [0, 0, 0]], np.float32)
    coded = Quantized().encode_rows(rows, g())
    assert coded.tolist() == [[0, 0, 0xE0, 0x40, 0x0E, 0x78, 0x77, 0x77], [0, 0, 0, 0, 0x77, 0x77, 0x77, 0x77]]
    assert Quantized().decode_rows(coded, 3).tolist() == [[7, -7, 1], [0, 0, 0]]
    wide = Quantized(bits=12).encode_rows(rows, g())  # low bytes first, then four bits a code
    assert wide.shape == (2, 4 + 8 + 4)
    assert np.abs(Quantized(bits=12).decode_rows(wide, 3) - rows).max() < 0.01
    assert [Quantized(bucket=16).row_bytes(width) for width in (1, 16, 17, 40)] == [8, 12, 24, 36]
    with pytest.raises(WireError, match="beyond its scale"):
        Quantized().decode_rows(coded | np.array([0, 0, 0, 0, 0xF0, 0, 0, 0], np.uint8), 3)


def test_one_bit_by_hand():
    arrays = {"w": np.array([1.0, -2.0, 0.0, 5.0, -1.0, -3.0], np.float32)}
    encoded, layout = there(Quantized(bits=1), arrays)
    assert encoded["scales"].tolist() == [2.0]
    assert encoded["packed"].tolist() == [0b001101]
    assert Quantized(bits=1).decode(encoded, layout)["w"].tolist() == [2, -2, 2, 2, -2, -2]


def test_two_bits_are_minus_scale_zero_and_scale():
    arrays = {"w": np.array([3.0, 1.6, 1.4, -1.4, -1.6, -3.0], np.float32)}
    assert there_and_back(Quantized(bits=2), arrays)["w"].tolist() == [3, 3, 0, 0, -3, -3]


def test_one_scale_per_bucket():
    arrays = {"b": np.array([0.5, 1.0], np.float32), "a": np.array([1, 2, 300], np.float32)}
    encoded, _ = there(Quantized(bucket=2), arrays)
    assert encoded["scales"].tolist() == [2, 300, 1]  # a's values come first
    encoded, _ = there(Quantized(bucket=0), arrays)
    assert encoded["scales"].tolist() == [300, 1]


@pytest.mark.parametrize("bits", [2, 4, 8, 12])
def test_paper_equations_10_and_11(bits):
    x = g(1).standard_normal(1000).astype(np.float32)
    levels = 2 ** (bits - 1) - 1
    norm = np.linalg.norm(x.astype(np.float64))
    expected = norm * np.sign(x) * np.round(levels * np.abs(x) / norm) / levels
    got = there_and_back(Quantized(bits, "l2", bucket=0), {"x": x})["x"]
    np.testing.assert_allclose(got, expected, atol=1e-6 * norm)


def test_the_norm_of_a_large_tensor_zeroes_it_and_buckets_do_not():
    x = {"x": g(1).standard_normal(10_000).astype(np.float32)}
    assert (there_and_back(Quantized(4, "l2", bucket=0), x)["x"] == 0).all()
    assert (there_and_back(Quantized(4), x)["x"] == 0).mean() < 0.25


def test_the_printed_form_with_random_rounding():
    # The text of (10) calls it random: one of the two steps around each entry, of the norm of the whole tensor.
    x = g(1).standard_normal(1000).astype(np.float32)
    norm = np.linalg.norm(x.astype(np.float64))
    got = there_and_back(Quantized(8, "l2", bucket=0, rounding="stochastic"), {"x": x})["x"]
    steps, place = got.astype(np.float64) / norm * 127, x.astype(np.float64) / norm * 127
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-4)
    assert (np.abs(steps - place) < 1 + 1e-4).all()
    assert (np.rint(steps) != np.rint(place)).any()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((1,), "418a4d2e61b26e5adf7083b2bc53f029"),
        ((1, "max", 7, "stochastic"), "b8f5a363c35ecadcab5a752c8f563d43"),
        ((2,), "85a619cc0f64825e9d14bce5ec6a692e"),
        ((3, "max", 100), "875b98066e73e281d1866e32788c0c62"),
        ((4,), "2c820335232df4e666520ca4ba4400e7"),
        ((4, "l2", 0, "stochastic"), "f4898c24a7f44c088fd1d78dade94314"),
        ((5, "l2"), "ec8397935e9d36c3b2e2acab0a08d4a0"),
        ((8,), "256fb40f22bef5ff1df0256dbee5e839"),
        ((11, "max", 256, "stochastic"), "716b899b73789ab02a8906bce8057710"),
        ((16, "max", 0), "9be3eb670da0b95b225503c43b81ab3d"),
    ],
)
def test_the_bytes_of_recorded_runs_stay(options, expected):
    x = ((np.arange(3007) * 7919 % 1009 - 504) / 64).astype(np.float32)
    arrays = {
        "w": x[:3000].reshape(60, 50), "a": x[3000:] * 100, "gain": x[5].reshape(()), "packed": np.arange(3)
    }  # fmt: skip
    specs = [replace(s, shape=(VARIABLE, 50)) if s.name == "w" else s for s in Layout.of(arrays)]
    codec = Quantized(*options)
    encoded, _ = codec.encode(arrays, codec.init(Layout(tuple(specs))), g(1))
    assert digest(encoded) == expected


def test_32_bits_switch_it_off():
    arrays = {"w": np.array([1.1, np.nan, -0.0, 3e38], np.float32), "ids": np.arange(2)}
    codec = Quantized(32, rounding="stochastic")
    open_ended = Layout((Spec("w", "float32", (VARIABLE,)), Spec("ids", "int64", (2,))))
    for layout in (Layout.of(arrays), open_ended):
        assert codec.encoded(layout) == layout
        assert codec.bounds(layout, Layout.of(arrays)) == Layout.of(arrays)
        encoded, _ = codec.encode(arrays, codec.init(layout), g())
        assert digest(encoded) == digest(arrays) == digest(codec.decode(encoded, layout))


def test_bounds_by_hand():
    layout = Layout((Spec("a", "float32", (VARIABLE, 3)), Spec("n", "int64", (VARIABLE,)), Spec("b", "float32", (4,))))
    largest = Layout((Spec("a", "float32", (100, 3)), Spec("n", "int64", (9,)), Spec("b", "float32", (4,))))
    # 304 values are two buckets and 152 bytes at four bits; one dimension varies.
    assert [(s.name, s.shape) for s in Quantized().bounds(layout, largest)] == [
        ("n", (9,)), ("scales", (2,)), ("packed", (152,)), ("dims", (1,))
    ]  # fmt: skip
    assert Quantized().bounds(largest, largest) == Quantized().encoded(largest)


codecs = st.builds(
    Quantized,
    bits=st.integers(1, 16),
    scale=st.just("max"),
    bucket=st.sampled_from([0, 1, 3, 8, 256]),
    rounding=st.sampled_from(["nearest", "stochastic"]),
) | st.builds(
    Quantized,
    bits=st.integers(2, 16),
    scale=st.just("l2"),
    bucket=st.sampled_from([0, 5, 256]),
    rounding=st.sampled_from(["nearest", "stochastic"]),
)
tensors = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=20),
    elements=st.floats(-(2.0**100), 2.0**100, width=32) | st.floats(-1, 1, width=32),
)


@given(codecs, st.lists(tensors, min_size=1, max_size=3), st.integers(0, 1000))
@settings(max_examples=200, deadline=None)
def test_error_bound_and_size(codec, values, seed):
    arrays = {f"w{i}": value for i, value in enumerate(values)}
    encoded, layout = there(codec, arrays, seed)
    assert codec.encoded(layout) == Layout.of(encoded)
    count = sum(value.size for value in values)
    buckets = math.ceil(count / codec.bucket) if codec.bucket else len(values)
    cost = math.ceil(count * codec.bits / 8) + 4 * buckets
    assert sum(array.nbytes for array in encoded.values()) == cost
    blob = wire.encode(Message("train", arrays=encoded), codec.encoded(layout))
    assert len(blob) == wire.header_bytes(blob) + cost == wire.message_bytes(codec.encoded(layout))
    decoded = codec.decode(encoded, layout)
    flat = np.concatenate([value.ravel() for value in values])
    back = np.concatenate([decoded[name].ravel() for name in arrays])
    widths = [codec.bucket] * buckets if codec.bucket else [value.size for value in values]
    start = 0
    for scale, width in zip(encoded["scales"].astype(np.float64), widths, strict=True):
        bucket = flat[start : start + width].astype(np.float64)
        error = np.abs(bucket - back[start : start + width])
        start += width
        steps = 1 if codec.rounding == "stochastic" else 0.5
        bound = scale / codec.levels * steps
        if codec.bits == 1 and codec.rounding == "nearest":
            bound = np.abs(bucket).max(initial=0)
        assert (error <= bound + 2**-21 * scale + 2**-100).all()


@pytest.mark.parametrize("scale", ["max", "l2"])
@pytest.mark.parametrize("bits", [1, 2, 4, 9, 16])
def test_stochastic_rounding_is_unbiased(bits, scale):
    codec = Quantized(bits, scale, rounding="stochastic")
    x = g(7).standard_normal(300).astype(np.float32)
    layout = Layout.of({"x": x})
    state, generator = codec.init(layout), g(8)
    scale_sent = codec.encode({"x": x}, state, g())[0]["scales"].repeat(256)[:300].astype(np.float64)
    draws = np.stack([codec.decode(codec.encode({"x": x}, state, generator)[0], layout)["x"] for _ in range(400)])
    # Each draw goes up with probability p; Bernstein's bound, exceeded by none of 300 means with probability > 0.99.
    p = (x / scale_sent * codec.levels + codec.levels) % 1
    steps_off = (draws.mean(0, dtype=np.float64) - x) / (scale_sent / codec.levels)
    assert (np.abs(steps_off) <= (4.8 * np.sqrt(400 * p * (1 - p)) + 8) / 400 + 2**-8).all()
    assert len({digest({"x": draw}) for draw in draws}) == 400


def test_zeros_stay_zeros():
    x = np.zeros(600, np.float32)
    x[3] = 1
    for codec in (Quantized(), Quantized(rounding="stochastic"), Quantized(3, "l2", 0), Quantized(16)):
        np.testing.assert_array_equal(there_and_back(codec, {"x": x})["x"], x)
    assert (there_and_back(Quantized(1), {"x": x * 0})["x"] == 0).all()


def test_extremes():
    x = np.array([2.0**126, -(2.0**126)], np.float32)
    assert np.isfinite(there_and_back(Quantized(), {"x": x})["x"]).all()
    tiny = np.array([1e-38, -1e-45], np.float32)
    assert there_and_back(Quantized(), {"x": tiny})["x"].tolist() == [0, 0]
    with pytest.raises(ClientError, match="norm above"):
        there(Quantized(scale="l2"), {"x": x})


@pytest.mark.parametrize("codec", [Quantized(), Quantized(1), Quantized(scale="l2"), Quantized(bucket=0)])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_not_finite_is_refused(codec, bad):
    x = np.ones(1000, np.float32)
    x[700] = bad
    with pytest.raises(ClientError, match="NaN, infinity or magnitudes above"):
        there(codec, {"x": x})


def test_impossible_arrays():
    codec = Quantized()
    encoded, layout = there(codec, {"w": np.ones(300, np.float32)})
    for scales in ([np.nan, 1], [np.inf, 1], [-1, 1], [3e38, 1]):
        with pytest.raises(WireError, match="A scale is"):
            codec.decode({**encoded, "scales": np.array(scales, np.float32)}, layout)
    with pytest.raises(WireError, match="beyond its scale"):
        codec.decode({**encoded, "packed": np.full(150, 0xFF, np.uint8)}, layout)
    with pytest.raises(WireError, match=r"'packed' is uint8 \(149,\)"):
        codec.decode({**encoded, "packed": encoded["packed"][1:]}, layout)


def test_dimensions_that_vary_travel():
    layout = Layout(
        (Spec("b", "float32", (VARIABLE, 3)), Spec("a", "float32", (2, VARIABLE)), Spec("n", "int64", (VARIABLE,)))
    )
    arrays = {
        "b": np.ones((5, 3), np.float32), "a": np.full((2, 4), 2, np.float32), "n": np.arange(6)
    }  # fmt: skip
    for codec in (Quantized(), Quantized(bucket=0), Quantized(11, bucket=7)):
        encoded, _ = codec.encode(arrays, codec.init(layout), g())
        assert encoded["dims"].tolist() == [4, 5]
        assert digest(codec.decode(encoded, layout)) == digest(codec.decode(encoded, Layout(layout.specs[::-1])))
        assert codec.decode(encoded, layout)["b"].shape == (5, 3)
        for dims in ([4, 6], [0, 0], [2**32 - 1, 2**32 - 1]):
            with pytest.raises(WireError, match="not those of shapes"):
                codec.decode({**encoded, "dims": np.array(dims, np.uint32)}, layout)
    open_ended = Layout((Spec("a", "float32", (VARIABLE, VARIABLE, VARIABLE)),))
    dims = np.array([2**32 - 1, 2**32 - 1, 0], np.uint32)
    nothing = {"scales": np.zeros(0, np.float32), "packed": np.zeros(0, np.uint8), "dims": dims}
    with pytest.raises(WireError, match="No array has the shape"):
        Quantized().decode(nothing, open_ended)


def test_names_never_collide():
    once, layout = there(Quantized(), {"w": np.ones(5, np.float32), "packed": np.arange(3), "dims": np.arange(2)})
    assert list(once) == ["packed", "dims", "scales+", "packed+"]
    twice, _ = there(Quantized(8), once)
    assert Layout.of(twice) == Quantized(8).encoded(Quantized().encoded(layout))
    again = Quantized().decode(Quantized(8).decode(twice, Layout.of(once)), layout)
    np.testing.assert_allclose(again["w"], 1)


def test_order_of_the_dict_does_not_matter():
    arrays = {"b": np.ones(3, np.float32), "a": np.zeros(2, np.float32)}
    encoded, _ = there(Quantized(), dict(reversed(arrays.items())))
    assert Quantized().decode(encoded, Layout.of(arrays))["b"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 0}, r"Quantized\.bits must be an integer in 1\.\.16, or 32 for none; got 0\."),
        ({"bits": 17}, "got 17"),
        ({"bits": 4.0}, "got 4.0"),
        ({"scale": "l1"}, "Quantized.scale must be one of 'max', 'l2', 'agreed'; got 'l1'"),
        ({"bucket": -1}, r"Quantized.bucket must be in \[0, 65536\]; got -1"),
        ({"rounding": "nearst"}, "Did you mean 'nearest'"),
        ({"bits": 1, "scale": "l2"}, "must be 'max' for one bit to nearest; got 'l2'"),
    ],
)
def test_options(options, message):
    with pytest.raises(InputError, match=message):
        Quantized(**options)
