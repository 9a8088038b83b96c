"""Laws of every codec; new files in the codecs folder are found by themselves."""

import copy
import dataclasses
import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.contracts import Codec, randomness
from fedgraft.errors import InputError, WireError
from fedgraft.methods import codecs
from fedgraft.wire import Message
from fedgraft.wire.layouts import VARIABLE, Layout, Spec, digest

OPTIONS = {"low_rank": {"rank": 8}}
"""Where a codec's defaults would not make the model below smaller."""
GENTLE = {"sparse": {"share": 1.0}}
"""Where they would lose more than a hundredth of an entry."""


def _build(name, **options):
    module = importlib.import_module(f"fedgraft.methods.codecs.{name}")
    wanted = name.replace("_", "")
    (cls,) = [
        cls
        for key, cls in vars(module).items()
        if inspect.isclass(cls) and cls.__module__ == module.__name__ and key.lower() == wanted
    ]
    if name == "chain":
        return cls((_build("float16"), _build("quantized")))
    if name == "feedback":
        return cls(_build("quantized"))
    return cls(**{**OPTIONS.get(name, {}), **options})


NAMES = [module.name for module in pkgutil.iter_modules(codecs.__path__) if not module.name.startswith("_")]
LOSSLESS = {"identity"}


@pytest.fixture(params=NAMES)
def codec(request):
    return _build(request.param)


@pytest.fixture(params=NAMES)
def gentle(request):
    return _build(request.param, **GENTLE.get(request.param, {}))


def _composed():
    """Every codec alone, with a quantiser behind it, and both with error feedback around them."""
    chain, feedback = type(_build("chain")), type(_build("feedback"))
    composed = {}
    for name in NAMES:
        both = chain((_build(name), _build("quantized", bits=5)))
        composed |= {name: _build(name), f"{name}, quantized": both, f"feedback({name}, quantized)": feedback(both)}
    thresholds = _build("sparse", share=0, threshold=0.5)
    composed |= {"sparse above a threshold": thresholds, "feedback(sparse)": feedback(thresholds)}
    return composed | {"quantized, sparse": chain((_build("quantized", bits=32), thresholds))}


COMPOSED = _composed()
VARYING = {name: codec for name, codec in COMPOSED.items() if not name.startswith("feedback")}


def _model():
    """A hundred thousand float32 with the structure of a trained model: a few directions matter, the rest is noise."""
    g = np.random.default_rng(0)
    matrix = g.standard_normal((400, 4)) @ g.standard_normal((4, 240)) + 0.01 * g.standard_normal((400, 240))
    return {
        "encoder.weight": matrix.astype(np.float32),
        "encoder.bias": g.standard_normal(3990).astype(np.float32),
        "packed": np.arange(5, dtype=np.int64),
        "half": g.standard_normal(3).astype(np.float16),
        "gain": np.array(0.5, np.float32),
        "head": g.standard_normal((3, 3)).astype(np.float32).T,
        "none": np.zeros((0, 7), np.float32),
        "seen": np.array([True, False]),
        "clock": np.array(12.5),
    }


def _g(seed=3):
    return np.random.Generator(np.random.Philox(seed))


def _norm(arrays):
    return np.sqrt(sum(float(np.square(a.astype(np.float64)).sum()) for a in arrays.values() if a.dtype == np.float32))


def _fits(layout, encoded):
    """Same names, types and order; same shapes but where the layout leaves them open."""
    return len(layout.specs) == len(encoded.specs) and all(
        (a.name, a.dtype, len(a.shape)) == (b.name, b.dtype, len(b.shape))
        and all(x in (VARIABLE, y) for x, y in zip(a.shape, b.shape, strict=True))
        for a, b in zip(layout, encoded, strict=True)
    )


def test_there_are_codecs():
    assert {"identity", "float16", "quantized", "low_rank", "sparse", "feedback", "chain"} <= set(NAMES)


def test_every_codec_is_a_frozen_dataclass_of_the_contract(codec):
    assert isinstance(codec, Codec)
    assert dataclasses.is_dataclass(codec)
    assert codec.__dataclass_params__.frozen
    again = copy.deepcopy(codec)
    assert (codec, hash(codec)) == (again, hash(again))


def test_round_trip_keeps_the_layout_and_loses_no_more_than_silence_would(codec):
    arrays = _model()
    layout = Layout.of(arrays)
    encoded, _ = codec.encode(arrays, codec.init(layout), _g())
    decoded = codec.decode(encoded, layout)
    assert Layout.of(decoded) == layout
    error = {name: decoded[name] - arrays[name] for name in arrays if arrays[name].dtype == np.float32}
    assert _norm(error) < _norm(arrays)


def test_encoded_tells_the_layout(codec):
    arrays = _model()
    layout = Layout.of(arrays)
    encoded, _ = codec.encode(arrays, codec.init(layout), _g())
    assert _fits(codec.encoded(layout), Layout.of(encoded))


def test_through_the_wire(codec):
    arrays = _model()
    layout = Layout.of(arrays)
    encoded, _ = codec.encode(arrays, codec.init(layout), _g())
    travels = codec.encoded(layout)
    blob = wire.encode(Message("train", arrays=encoded), travels)
    received = wire.decode(blob, travels).arrays
    assert digest(codec.decode(received, layout)) == digest(codec.decode(encoded, layout))


def test_lossy_codecs_send_less(codec, request):
    arrays = {name: array for name, array in _model().items() if array.dtype == np.float32}
    layout = Layout.of(arrays)
    encoded, _ = codec.encode(arrays, codec.init(layout), _g())
    size = len(wire.encode(Message("train", arrays=encoded), codec.encoded(layout)))
    plain = len(wire.encode(Message("train", arrays=arrays), layout))
    name = type(codec).__name__.lower()
    assert size == plain if name in LOSSLESS else size < plain


def test_other_types_pass_untouched(codec):
    arrays = _model()
    layout = Layout.of(arrays)
    encoded, _ = codec.encode(arrays, codec.init(layout), _g())
    decoded = codec.decode(encoded, layout)
    for name, array in arrays.items():
        if array.dtype != np.float32:
            np.testing.assert_array_equal(encoded[name], array, strict=True)
            np.testing.assert_array_equal(decoded[name], array, strict=True)


def test_nothing_is_mutated(codec):
    arrays = _model()
    for array in arrays.values():
        array.flags.writeable = False
    layout = Layout.of(arrays)
    state = codec.init(layout)
    before, packed = digest(arrays), wire.pack(state)
    encoded, after = codec.encode(arrays, state, _g())
    assert (digest(arrays), wire.pack(state)) == (before, packed)
    for array in encoded.values():
        array.flags.writeable = False
    sent, packed = digest(encoded), wire.pack(after)
    codec.decode(encoded, layout)
    codec.encode(arrays, after, _g())
    assert (digest(encoded), wire.pack(after)) == (sent, packed)


def test_same_state_and_same_seed_give_the_same_bytes(codec):
    arrays = _model()
    state = codec.init(Layout.of(arrays))
    (one, one_state), (two, two_state) = codec.encode(arrays, state, _g()), codec.encode(arrays, state, _g())
    assert digest(one) == digest(two)
    assert wire.pack(one_state) == wire.pack(two_state)


def test_one_that_says_it_draws_nothing_draws_nothing(codec):
    if codec.chancy:
        pytest.skip("draws")
    arrays = _model()
    assert digest(codec.encode(arrays, codec.init(Layout.of(arrays)), randomness.UNUSED)[0])


def test_state_survives_the_wire(codec):
    arrays = _model()
    layout = Layout.of(arrays)
    _, state = codec.encode(arrays, codec.init(layout), _g(1))
    restored = wire.unpack(wire.pack(state))
    (one, _), (two, _) = codec.encode(arrays, state, _g(2)), codec.encode(arrays, restored, _g(2))
    assert digest(one) == digest(two)


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"empty": np.zeros(0, np.float32)},
        {"empty": np.zeros((3, 0, 2), np.float32), "scalar": np.array(-2.0, np.float32)},
        {"scalar": np.array(1e-3, np.float32)},
        {"zeros": np.zeros((5, 5), np.float32)},
        {"ids": np.arange(3)},
        {
            "scales": np.ones(3, np.float32),
            "packed": np.arange(3),
            "packed+": np.zeros(2, np.uint8),
            "dims": np.ones(2),
        },
        {
            "ranks": np.ones((4, 4), np.float32),
            "factors": np.ones(3, np.float32),
            "values": np.arange(2),
            "places": np.ones(2, np.float32),
            "residual": np.array(1, np.float32),
        },
    ],
    ids=["nothing", "empty", "scalar and empty", "scalar", "zeros", "no float32", "awkward names", "more of them"],
)
def test_odd_arrays(gentle, arrays):
    codec, layout = gentle, Layout.of(arrays)
    encoded, _ = codec.encode(arrays, codec.init(layout), _g())
    assert _fits(codec.encoded(layout), Layout.of(encoded))
    decoded = codec.decode(encoded, layout)
    assert Layout.of(decoded) == layout
    for name, array in arrays.items():
        np.testing.assert_allclose(decoded[name], array, rtol=0.01)


def test_dimensions_that_only_the_sender_knows(gentle):
    codec, layout = gentle, Layout((Spec("rows", "float32", (VARIABLE, 4)), Spec("ids", "int32", (VARIABLE,))))
    if codec == _build("feedback"):
        with pytest.raises(InputError, match="needs arrays of fixed shape"):
            codec.init(layout)
        return
    for rows in (0, 1, 7, 100):
        arrays = {"rows": np.ones((rows, 4), np.float32), "ids": np.arange(rows, dtype=np.int32)}
        encoded, _ = codec.encode(arrays, codec.init(layout), _g())
        assert _fits(codec.encoded(layout), Layout.of(encoded))
        blob = wire.encode(Message("train", arrays=encoded), codec.encoded(layout))
        decoded = codec.decode(wire.decode(blob, codec.encoded(layout)).arrays, layout)
        assert Layout.of(decoded) == Layout.of(arrays)
        np.testing.assert_allclose(decoded["rows"], arrays["rows"], rtol=0.01)


def test_arrays_that_encode_cannot_have_made(codec):
    arrays = _model()
    layout = Layout.of(arrays)
    encoded, _ = codec.encode(arrays, codec.init(layout), _g())
    for name, array in encoded.items():
        bad = [
            {key: value for key, value in encoded.items() if key != name},
            {**encoded, name: array[None]},
            {**encoded, name: array.astype(np.int8 if array.dtype != np.int8 else np.int16)},
        ]
        for broken in bad:
            with pytest.raises(WireError):
                codec.decode(broken, layout)
    with pytest.raises(WireError):
        codec.decode({**encoded, "surplus": np.zeros(1)}, layout)


def test_any_bytes_in_place_of_the_arrays_decode_or_raise_wire_error(codec):
    arrays = _model()
    layout = Layout.of(arrays)
    encoded, _ = codec.encode(arrays, codec.init(layout), _g())
    g = _g(5)
    for _ in range(30):
        noise = {
            name: np.frombuffer(g.bytes(a.nbytes), a.dtype).reshape(a.shape) if a.dtype != bool else a
            for name, a in encoded.items()
        }
        try:
            assert Layout.of(codec.decode(noise, layout)) == layout
        except WireError:
            continue


@st.composite
def _layouts(draw, varying):
    """A layout, arrays of it, and the layout with the largest possible number in place of what varies."""
    specs, largest, arrays = [], [], {}
    g = _g(draw(st.integers(0, 2**32)))
    for name in draw(st.permutations(["w", "dims", "values", "packed", "b"]))[: draw(st.integers(0, 4))]:
        dtype = draw(st.sampled_from(["float32", "float32", "float32", "int64", "float16"]))
        shape = tuple(draw(st.lists(st.integers(0, 12), max_size=3)))
        most = tuple(dim + draw(st.sampled_from([0, 1, 30])) for dim in shape)
        open_ended = [varying and draw(st.booleans()) for _ in shape]
        values = g.standard_normal(shape) * draw(st.sampled_from([0, 1e-3, 1, 100]))
        arrays[name] = np.asarray(values).astype(dtype)
        axes = list(zip(open_ended, shape, most, strict=True))
        specs.append(Spec(name, dtype, tuple(VARIABLE if varies else dim for varies, dim, _ in axes)))
        largest.append(Spec(name, dtype, tuple(bound if varies else dim for varies, dim, bound in axes)))
    return Layout(tuple(specs)), arrays, Layout(tuple(largest))


def _bounds_hold(codec, layout, arrays, largest):
    encoded, _ = codec.encode(arrays, codec.init(layout), _g())
    travels, bounds = codec.encoded(layout), codec.bounds(layout, largest)
    assert [(s.name, s.dtype, len(s.shape)) for s in travels] == [(s.name, s.dtype, len(s.shape)) for s in bounds]
    for spec in bounds:
        assert VARIABLE not in spec.shape
        assert all(dim <= most for dim, most in zip(encoded[spec.name].shape, spec.shape, strict=True))
    blob = wire.encode(Message("train", arrays=encoded), travels)
    assert len(blob) <= wire.message_bytes(travels, bounds=bounds)
    assert Layout.of(codec.decode(encoded, layout)) == Layout(
        tuple(Spec(s.name, s.dtype, arrays[s.name].shape) for s in layout)
    )


@pytest.mark.parametrize("name", COMPOSED)
@given(_layouts(varying=False))
@settings(max_examples=30, deadline=None)
def test_bounds_are_never_exceeded(name, given_layout):
    _bounds_hold(COMPOSED[name], *given_layout)


@pytest.mark.parametrize("name", VARYING)
@given(_layouts(varying=True))
@settings(max_examples=30, deadline=None)
def test_bounds_are_never_exceeded_where_dimensions_vary(name, given_layout):
    _bounds_hold(VARYING[name], *given_layout)


@pytest.mark.parametrize("name", COMPOSED)
def test_composed_codecs_lose_no_more_than_silence_would(name):
    codec, arrays = COMPOSED[name], _model()
    layout = Layout.of(arrays)
    state = codec.init(layout)
    for round in range(2):
        encoded, state = codec.encode(arrays, state, _g(round))
        decoded = codec.decode(encoded, layout)
        assert Layout.of(decoded) == layout
        error = {key: decoded[key] - arrays[key] for key in arrays if arrays[key].dtype == np.float32}
        assert _norm(error) <= _norm(arrays) * (1 + round)


def _broken(blob, g):
    """The message cut anywhere, and with one to three bits flipped anywhere."""
    for end in g.integers(0, len(blob), 20):
        yield blob[:end]
    for flips in g.integers(1, 4, 100):
        bits = np.unpackbits(np.frombuffer(blob, np.uint8))
        bits[g.integers(0, bits.size, flips)] ^= 1
        yield np.packbits(bits).tobytes()
    for place in range(160, min(8 * len(blob), 160 + 8 * 60)):  # every bit behind the head, where sizes are
        bits = np.unpackbits(np.frombuffer(blob, np.uint8))
        bits[place] ^= 1
        yield np.packbits(bits).tobytes()


@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("name", COMPOSED)
def test_broken_messages_give_arrays_of_the_layout_or_a_wire_error(name, varies):
    if varies and name not in VARYING:
        pytest.skip("needs arrays of fixed shape")
    codec, g = COMPOSED[name], _g(7)
    arrays = {
        "w": g.standard_normal((30, 20)).astype(np.float32),
        "b": np.ones(4, np.float32),
        "n": np.arange(3, dtype=np.int32),
    }
    specs = [Spec(s.name, s.dtype, (VARIABLE, *s.shape[1:])) if varies else s for s in Layout.of(arrays)]
    layout = Layout(tuple(specs))
    encoded, _ = codec.encode(arrays, codec.init(layout), g)
    travels = codec.encoded(layout)
    blob, decoded = wire.encode(Message("train", arrays=encoded), travels), 0
    for broken in _broken(blob, g):
        try:
            received = wire.decode(broken, travels).arrays
            result = codec.decode(received, layout) if received is not None else None
        except WireError:
            continue
        if result is not None:
            assert _fits(layout, Layout.of(result))
            decoded += 1
    assert decoded  # a flipped bit of a value is another value
