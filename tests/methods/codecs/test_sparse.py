import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.errors import ClientError, InputError, WireError
from fedgraft.methods.codecs.chain import Chain
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.methods.codecs.sparse import Sparse
from fedgraft.wire import Message
from fedgraft.wire.layouts import VARIABLE, Layout, Spec

G = np.random.default_rng(0)


def there(codec, arrays, layout=None):
    layout = layout or Layout.of(arrays)
    return codec.encode(arrays, codec.init(layout), G)[0], layout


def there_and_back(codec, arrays):
    encoded, layout = there(codec, arrays)
    return codec.decode(encoded, layout)


def vector(*values):
    return {"w": np.array(values, np.float32)}


SIX = vector(0.5, -3, 0, 2, -2, 1)


def test_two_of_six_by_hand():
    # -3 and, of 2 and -2, the one in front; a bit for each of six entries: the second and the fourth.
    encoded, layout = there(Sparse(share=1 / 3), SIX)
    assert encoded["values"].tolist() == [-3, 2]
    assert encoded["places"].tolist() == [0b001010]
    assert Sparse(share=1 / 3).decode(encoded, layout)["w"].tolist() == [0, -3, 0, 2, 0, 0]


def test_above_a_threshold_by_hand():
    encoded, layout = there(Sparse(share=0, threshold=1), SIX)
    assert encoded["values"].tolist() == [-3, 2, -2]
    assert encoded["places"].tolist() == [0b011010]
    assert Sparse(share=0, threshold=1).decode(encoded, layout)["w"].tolist() == [0, -3, 0, 2, -2, 0]


def test_two_of_forty_by_hand():
    # floor(log2(40 / 2)) = 4 low bits: of 3 = 0b00_0011 and 37 = 0b10_0101 they are 3 and 5, the first of the two in
    # the low half. High parts 0 and 2: the bits 0 + 0 and 1 + 2 are set.
    x = np.zeros(40, np.float32)
    x[[3, 37]] = [1, -2]
    encoded, _ = there(Sparse(share=0.05), {"w": x})
    assert encoded["values"].tolist() == [1, -2]
    assert encoded["places"].tolist() == [0x53, 0b1001]


def test_all_arrays_compete_in_order_of_their_names():
    arrays = {"b": np.array([[5, 1]], np.float32), "a": np.array([2, 7, 3], np.float32), "ids": np.arange(3)}
    encoded, layout = there(Sparse(share=0.4), arrays)
    assert encoded["values"].tolist() == [7, 5]
    decoded = Sparse(share=0.4).decode(encoded, layout)
    assert (decoded["a"].tolist(), decoded["b"].tolist()) == ([0, 7, 0], [[5, 0]])


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.24, 0.26, 0.5, 0.999, 1])
@pytest.mark.parametrize("entries", [1, 2, 100, 9999, 50_000])
def test_the_largest_are_kept_and_no_other_choice_loses_less(entries, share):
    x = np.random.default_rng(entries).standard_normal(entries).astype(np.float32).round(2)  # with ties
    kept = max(1, round(share * entries))
    encoded, layout = there(Sparse(share), {"w": x})
    order = np.sort(np.argsort(-np.abs(x), kind="stable")[:kept])  # stable: of equal ones, those in front
    np.testing.assert_array_equal(encoded["values"], x[order])
    decoded = Sparse(share).decode(encoded, layout)["w"]
    np.testing.assert_array_equal(np.flatnonzero(decoded), order[x[order] != 0])
    np.testing.assert_allclose(
        np.square(x - decoded).sum(), np.square(np.sort(np.abs(x))[: entries - kept]).sum(), 1e-5
    )


@given(st.integers(0, 3000), st.floats(0.0001, 1), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_cost(entries, share, seed):
    x = np.random.default_rng(seed).standard_normal(entries).astype(np.float32)
    encoded, layout = there(Sparse(share), {"w": x})
    kept = max(round(share * entries), 1) if entries else 0
    places = 0
    if 0 < kept < entries:
        low = math.floor(math.log2(entries / kept))
        coded = math.ceil(kept * low / 8) + math.ceil((kept + (entries - 1) // 2**low) / 8)
        assert coded <= kept * (2 + math.log2(entries / kept)) / 8 + 2
        places = min(math.ceil(entries / 8), coded)
    blob = wire.encode(Message("train", arrays=encoded), Sparse(share).encoded(layout))
    assert len(blob) == wire.header_bytes(blob) + 4 * kept + places == wire.message_bytes(Sparse(share).encoded(layout))
    np.testing.assert_array_equal(np.flatnonzero(Sparse(share).decode(encoded, layout)["w"]).size, kept)


@given(st.lists(st.floats(-2, 2, width=32), max_size=60), st.sampled_from([1e-45, 0.5, 1.0, 2.0]))
@settings(deadline=None)
def test_threshold_keeps_exactly_what_is_larger(values, threshold):
    x = np.array(values, np.float32)
    decoded = there_and_back(Sparse(0, threshold), {"w": x})["w"]
    np.testing.assert_array_equal(decoded, np.where(np.abs(x) > np.float32(threshold), x, 0))


@pytest.mark.parametrize("codec", [Sparse(0.01), Sparse(1), Sparse(0, 1e-30), Sparse(0, 1e30)])
def test_zeros_all_or_none(codec):
    zeros = {"w": np.zeros((20, 20), np.float32)}
    assert not there_and_back(codec, zeros)["w"].any()
    ones = {"w": np.ones((20, 20), np.float32)}
    expected = {Sparse(0.01): 4, Sparse(0, 1e30): 0}.get(codec, 400)
    assert there_and_back(codec, ones)["w"].sum() == expected
    if expected in (0, 400):
        assert there(codec, ones)[0]["places"].size == 0


@pytest.mark.parametrize("codec", [Sparse(), Sparse(0, 0.5)])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_at_both_ends(codec, bad):
    with pytest.raises(ClientError, match="NaN or infinity"):
        there(codec, vector(1, bad, 2))
    encoded, layout = there(codec, vector(1, 0, 0))
    with pytest.raises(WireError, match="NaN or infinity"):
        codec.decode({**encoded, "values": np.array([bad], np.float32)}, layout)


def test_impossible_places():
    x = np.zeros(40, np.float32)
    x[[3, 37]] = [1, -2]
    codec = Sparse(share=0.05)
    encoded, layout = there(codec, {"w": x})
    for places, why in [
        ([0x53, 0b0001], "1 places for 2 values"),
        ([0x53, 0b10001], "behind the last"),
        ([0x33, 0b0011], "ascending"),  # 3 twice
        ([0x35, 0b0011], "ascending"),  # 5, then 3
        ([0x93, 0b1001], "below 40"),  # 2 * 16 + 9 = 41
    ]:
        with pytest.raises(WireError, match=why):
            codec.decode({**encoded, "places": np.array(places, np.uint8)}, layout)
    encoded, layout = there(Sparse(1 / 3), SIX)
    for places, why in [(0b011010, "ascending"), (0b1000010, "behind the last")]:
        with pytest.raises(WireError, match=why):
            Sparse(1 / 3).decode({**encoded, "places": np.array([places], np.uint8)}, layout)
    seven = {"values": np.ones(7, np.float32), "places": np.zeros(0, np.uint8)}
    with pytest.raises(WireError, match="7 values and 0 bytes of places are not those"):
        Sparse(0, 1).decode(seven, layout)


@pytest.mark.parametrize("codec", [Sparse(0.1), Sparse(0.0001), Sparse(0, 3.0)])
def test_dimensions_that_vary_travel_and_are_paid_for(codec):
    layout = Layout((Spec("b", "float32", (VARIABLE, 100)), Spec("a", "float32", (3,))))
    arrays = {"b": np.random.default_rng(0).standard_normal((200, 100)).astype(np.float32), "a": np.ones(3, np.float32)}
    encoded, _ = there(codec, arrays, layout)
    assert encoded["dims"].tolist() == [200]
    assert encoded["values"].size >= 20_003 / 1024
    flat = np.abs(np.concatenate([arrays["a"], arrays["b"].ravel()]))
    kept = np.sort(np.abs(encoded["values"]))
    np.testing.assert_array_equal(kept, np.sort(flat)[-kept.size :])
    assert codec.decode(encoded, layout)["b"].shape == (200, 100)
    for dims in (0, 2**32 - 1):
        with pytest.raises(WireError):
            codec.decode({**encoded, "dims": np.array([dims], np.uint32)}, layout)


def test_nothing_never_stands_for_a_huge_array():
    layout = Layout((Spec("a", "float32", (VARIABLE,) * 33),))
    dims = np.full(33, 2**32 - 1, np.uint32)
    for codec in (Sparse(), Sparse(0, 1)):
        for values in (0, 1):
            empty = {"values": np.ones(values, np.float32), "places": np.zeros(0, np.uint8), "dims": dims}
            with pytest.raises(WireError, match="are not those of shapes"):
                codec.decode(empty, layout)


def test_bounds_by_hand():
    layout = Layout((Spec("a", "float32", (VARIABLE,)), Spec("n", "int64", (VARIABLE,))))
    largest = Layout((Spec("a", "float32", (1000,)), Spec("n", "int64", (9,))))
    # 10 of 1000: at most 10 (2 + log2(100)) = 86.4 bits, 11 bytes, and two for rounding up.
    assert [s.shape for s in Sparse().bounds(layout, largest)] == [(9,), (10,), (13,), (1,)]
    assert [s.shape for s in Sparse(0, 1).bounds(layout, largest)] == [(9,), (1000,), (125,), (1,)]
    assert Sparse().bounds(largest, largest) == Sparse().encoded(largest)


def test_a_quantiser_behind_it_codes_the_values():
    chain = Chain((Sparse(share=0.1), Quantized(4)))
    x = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    encoded, layout = there(chain, {"w": x})
    assert {name: array.nbytes for name, array in encoded.items()} == {
        "places": 188 + 141, "scales": 8, "packed": 250
    }  # fmt: skip
    decoded = chain.decode(encoded, layout)["w"]
    alone = there_and_back(Sparse(share=0.1), {"w": x})["w"]
    assert np.abs(decoded - alone).max() <= encoded["scales"].max() / 14 * 1.001


def test_names_never_collide():
    arrays = {**SIX, "values": np.arange(2), "dims": np.arange(2)}
    encoded, layout = there(Sparse(), arrays)
    assert list(encoded) == ["values", "dims", "values+", "places+"]
    twice, _ = there(Sparse(), encoded)
    np.testing.assert_array_equal(
        Sparse().decode(Sparse().decode(twice, Layout.of(encoded)), layout)["w"], [0, -3, 0, 0, 0, 0]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": -0.1}, r"Sparse\.share must be in \[0, 1\]; got -0\.1"),
        ({"share": 1.5}, "got 1.5"),
        ({"share": 0}, r"Sparse\.share must be > 0, or Sparse\.threshold; got 0\."),
        ({"share": 0, "threshold": -1}, r"Sparse\.threshold must be in \[0, 1e\+38\]; got -1"),
        ({"share": 0, "threshold": math.inf}, "got inf"),
        ({"threshold": 1e-3}, r"Sparse\.share must be 0 beside threshold = 0\.001; got 0\.01\."),
    ],
)
def test_options(options, message):
    with pytest.raises(InputError, match=message):
        Sparse(**options)
