"""Laws of codecs."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np

import fedgraft.engine.protocol.table  # noqa: F401  it declares the kinds of messages
from fedgraft import wire
from fedgraft.contracts import Codec, randomness
from fedgraft.errors import InputError, WireError
from fedgraft.testing.coded_arrays import ODD, broken, errors, fits, generator, layouts, model, norm
from fedgraft.testing.laws import Law, Laws, check, expect, expect_error, for_all, require_class
from fedgraft.wire import Message
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout, Spec, digest


@dataclass(frozen=True)
class Case:
    """A codec, the same with options that change little, and what is said of it; see `check_codec`."""

    codec: Codec[Any]
    gentle: Codec[Any]
    lossless: bool = False
    fixed_shapes: bool = False


LAWS: Laws[Case] = Laws()
COMPOSABLE: Laws[Case] = Laws()
"""Those that hold for compositions too."""
VARYING: Laws[Case] = Laws()
"""Further ones of these, for codecs that take arrays with dimensions that only the sender knows."""


def check_codec(
    cls: Callable[..., Codec[Any]],
    /,
    *,
    gentle: Mapping[str, Any] | None = None,
    lossless: bool = False,
    fixed_shapes: bool = False,
    **options: Any,
) -> None:
    """Hold a codec to all laws.

    Args:
        cls: the class.
        gentle: further options with which it changes no entry by more than a hundredth; none if it never does.
        lossless: whether it sends arrays as they are; else it must send fewer bytes.
        fixed_shapes: whether it refuses arrays with dimensions that only the sender knows.
        options: of the class.

    Raises `AssertionError` with the class, the law and what was seen.
    """
    candidate: object = cls  # a function that makes a codec will do
    if isinstance(candidate, Codec):
        require_class(candidate)
    case = Case(cls(**options), cls(**{**options, **(gentle or {})}), lossless, fixed_shapes)
    check(laws(case))


def laws(case: Case) -> list[Law[Case]]:
    """Return the laws of a codec, to be called one by one."""
    return [*LAWS.held(type(case.codec), lambda: case), *composable(case)]


def composable(case: Case, who: str = "") -> list[Law[Case]]:
    """Return the laws that hold for compositions too; `who` names one in place of its class."""
    families = [COMPOSABLE] if case.fixed_shapes else [COMPOSABLE, VARYING]
    return [law for each in families for law in each.held(type(case.codec), lambda: case, who)]


def _sent(case: Case, arrays: Arrays) -> tuple[Layout, Arrays, Any]:
    """The arrays' layout, what is sent, the state after it."""
    layout = Layout.of(arrays)
    encoded, state = case.codec.encode(arrays, case.codec.init(layout), generator())
    return layout, encoded, state


@LAWS.every
def is_a_frozen_dataclass_of_the_contract(case: Case) -> None:
    """Be a frozen dataclass, equal to its copy."""
    codec: Any = case.codec
    expect(isinstance(codec, Codec), "a codec must be a fedgraft.contracts.Codec", type(codec))
    expect(is_dataclass(codec), "a codec must be a dataclass of its hyper-parameters", type(codec))
    expect(codec.__dataclass_params__.frozen, "the dataclass must be frozen", "@dataclass without frozen=True")
    again = copy.deepcopy(codec)
    expect((codec, hash(codec)) == (again, hash(again)), "a copy must be equal and have an equal hash", again)


@LAWS.every
def round_trip_keeps_the_layout_and_loses_no_more_than_silence_would(case: Case) -> None:
    """Be nearer to what is sent than sending nothing."""
    arrays = model()
    layout, encoded, _ = _sent(case, arrays)
    decoded = case.codec.decode(encoded, layout)
    expect(Layout.of(decoded) == layout, "what is decoded must have the layout of what was sent", Layout.of(decoded))
    lost, whole = norm(errors(decoded, arrays)), norm(arrays)
    expect(lost < whole, f"the error must be below {whole:.4g}, the length of what is sent", lost)


@LAWS.every
def encoded_tells_the_layout(case: Case) -> None:
    """Say what `encode` makes before it makes it."""
    layout, encoded, _ = _sent(case, model())
    announced, actual = case.codec.encoded(layout), Layout.of(encoded)
    expect(fits(announced, actual), "encoded must be the layout of what encode makes", announced, actual)


@LAWS.every
def goes_through_the_wire(case: Case) -> None:
    """Decode to the same bits behind a message."""
    layout, encoded, _ = _sent(case, model())
    travels = case.codec.encoded(layout)
    blob = wire.encode(Message("train", arrays=encoded), travels)
    received = wire.decode(blob, travels).arrays or {}
    same = digest(case.codec.decode(received, layout)) == digest(case.codec.decode(encoded, layout))
    expect(same, "what came in a message must decode to the same bits", "other bits")


@LAWS.every
def a_lossy_one_sends_less(case: Case) -> None:
    """Send fewer bytes than the arrays take, or say that it is lossless."""
    arrays = {name: array for name, array in model().items() if array.dtype == np.float32}
    layout, encoded, _ = _sent(case, arrays)
    size = len(wire.encode(Message("train", arrays=encoded), case.codec.encoded(layout)))
    plain = len(wire.encode(Message("train", arrays=arrays), layout))
    if case.lossless:
        expect(size == plain, f"a codec without loss must send {plain} bytes", size)
    else:
        expect(size < plain, f"a codec must send fewer than {plain} bytes", size)


@LAWS.every
def other_types_pass_untouched(case: Case) -> None:
    """Leave alone what is not float32."""
    arrays = model()
    layout, encoded, _ = _sent(case, arrays)
    decoded = case.codec.decode(encoded, layout)
    for name, array in arrays.items():
        if array.dtype != np.float32:
            np.testing.assert_array_equal(encoded[name], array, strict=True)
            np.testing.assert_array_equal(decoded[name], array, strict=True)


@LAWS.every
def nothing_is_mutated(case: Case) -> None:
    """Leave arrays and states as they are given."""
    codec, arrays = case.codec, model()
    for array in arrays.values():
        array.flags.writeable = False
    layout = Layout.of(arrays)
    state = codec.init(layout)
    before, packed = digest(arrays), wire.pack(state)
    encoded, after = codec.encode(arrays, state, generator())
    expect(digest(arrays) == before, "encode changed the arrays it was given", digest(arrays), before)
    expect(wire.pack(state) == packed, "encode changed the state it was given", wire.pack(state), packed)
    for array in encoded.values():
        array.flags.writeable = False
    sent, packed = digest(encoded), wire.pack(after)
    codec.decode(encoded, layout)
    codec.encode(arrays, after, generator())
    expect(digest(encoded) == sent, "decode or a second encode changed what was sent", digest(encoded), sent)
    expect(wire.pack(after) == packed, "encode changed the state it was given", wire.pack(after), packed)


@LAWS.every
def same_state_and_same_seed_give_the_same_bytes(case: Case) -> None:
    """Depend on arrays, state and generator alone."""
    arrays = model()
    state = case.codec.init(Layout.of(arrays))
    (one, one_state), (two, two_state) = (case.codec.encode(arrays, state, generator()) for _ in range(2))
    expect(digest(one) == digest(two), "equal states and generators must give equal arrays", digest(two), digest(one))
    expect(
        wire.pack(one_state) == wire.pack(two_state), "equal states and generators must give equal states", two_state
    )


@LAWS.every
def a_generator_made_lazily_gives_the_same_bytes(case: Case) -> None:
    """Draw from the generator that is handed over, which is made when it is first used."""
    arrays = model()
    state = case.codec.init(Layout.of(arrays))
    generators = randomness.generator(0, "law"), randomness.lazy(0, "law")
    made, lazy = (digest(case.codec.encode(arrays, state, g)[0]) for g in generators)
    expect(made == lazy, "a generator made lazily must give the same arrays", lazy, made)


@LAWS.every
def state_survives_the_wire(case: Case) -> None:
    """Go on from a state that was stored and read again as if it had not been."""
    arrays = model()
    _, state = case.codec.encode(arrays, case.codec.init(Layout.of(arrays)), generator(1))
    restored: Any = wire.unpack(wire.pack(state))
    one, two = (digest(case.codec.encode(arrays, each, generator(2))[0]) for each in (state, restored))
    expect(one == two, "a state that is resumed must give the same arrays", two, one)


@LAWS.every
def odd_arrays_come_back(case: Case) -> None:
    """Take empty arrays, scalars, no float32 at all, and names that the codec may use itself."""
    codec = case.gentle
    for what, arrays in ODD.items():
        layout = Layout.of(arrays)
        encoded, _ = codec.encode(arrays, codec.init(layout), generator())
        announced, actual = codec.encoded(layout), Layout.of(encoded)
        expect(fits(announced, actual), f"encoded must be the layout of what encode makes of {what}", announced, actual)
        decoded = codec.decode(encoded, layout)
        expect(Layout.of(decoded) == layout, f"what is decoded of {what} must have its layout", Layout.of(decoded))
        for name, array in arrays.items():
            np.testing.assert_allclose(decoded[name], array, rtol=0.01, err_msg=f"{name} of {what}")


@LAWS.every
def dimensions_that_only_the_sender_knows_come_back_or_are_refused(case: Case) -> None:
    """Take any number of rows; or, if it needs arrays of fixed shape, say so at once."""
    codec, layout = case.gentle, Layout((Spec("rows", "float32", (VARIABLE, 4)), Spec("ids", "int32", (VARIABLE,))))
    if case.fixed_shapes:
        with expect_error(InputError, "dimensions that vary must be refused", "needs arrays of fixed shape"):
            codec.init(layout)
        return
    for rows in (0, 1, 7, 100):
        arrays = {"rows": np.ones((rows, 4), np.float32), "ids": np.arange(rows, dtype=np.int32)}
        encoded, _ = codec.encode(arrays, codec.init(layout), generator())
        travels = codec.encoded(layout)
        expect(fits(travels, Layout.of(encoded)), "encoded must be the layout of what encode makes", Layout.of(encoded))
        blob = wire.encode(Message("train", arrays=encoded), travels)
        decoded = codec.decode(wire.decode(blob, travels).arrays or {}, layout)
        expect(Layout.of(decoded) == Layout.of(arrays), f"{rows} rows must come back", Layout.of(decoded))
        np.testing.assert_allclose(decoded["rows"], arrays["rows"], rtol=0.01)


@LAWS.every
def arrays_that_encode_cannot_have_made_are_refused(case: Case) -> None:
    """Raise `WireError` for arrays that are missing, too many, or of another shape or type."""
    layout, encoded, _ = _sent(case, model())
    for name, array in encoded.items():
        other = array.astype(np.int8 if array.dtype != np.int8 else np.int16)
        bad = {
            f"without {name!r}": {key: value for key, value in encoded.items() if key != name},
            f"with one dimension more of {name!r}": {**encoded, name: array[None]},
            f"with another type of {name!r}": {**encoded, name: other},
        }
        for what, arrays in bad.items():
            with expect_error(WireError, f"arrays {what} must be refused"):
                case.codec.decode(arrays, layout)
    with expect_error(WireError, "an array too many must be refused"):
        case.codec.decode({**encoded, "surplus": np.zeros(1)}, layout)


@LAWS.every
def any_bytes_in_place_of_the_arrays_decode_or_raise_wire_error(case: Case) -> None:
    """Make arrays of the layout of noise, or raise `WireError`, and nothing else."""
    layout, encoded, _ = _sent(case, model())
    g = generator(5)
    for _ in range(30):
        noise = {
            name: np.frombuffer(g.bytes(a.nbytes), a.dtype).reshape(a.shape) if a.dtype != bool else a
            for name, a in encoded.items()
        }
        try:
            decoded = Layout.of(case.codec.decode(noise, layout))
        except WireError:
            continue
        expect(decoded == layout, "noise must decode to the layout or raise WireError", decoded)


@COMPOSABLE.every
def bounds_are_never_exceeded(case: Case) -> None:
    """Say how long a message can be before it is made."""
    for_all(lambda drawn: _check_bounds(case.codec, *drawn), {"drawn": layouts(varying=False)}, examples=30)


@VARYING.every
def bounds_are_never_exceeded_where_dimensions_vary(case: Case) -> None:
    """Say how long a message can be, given how many rows there can be."""
    for_all(lambda drawn: _check_bounds(case.codec, *drawn), {"drawn": layouts(varying=True)}, examples=30)


@COMPOSABLE.every
def messages_in_a_row_lose_no_more_than_silence_would(case: Case) -> None:
    """Be nearer to what is sent than sending nothing, in a second message by at most as much again."""
    codec, arrays = case.codec, model()
    layout, whole = Layout.of(arrays), norm(arrays)
    state = codec.init(layout)
    for round in range(2):
        encoded, state = codec.encode(arrays, state, generator(round))
        decoded = codec.decode(encoded, layout)
        expect(
            Layout.of(decoded) == layout, "what is decoded must have the layout of what was sent", Layout.of(decoded)
        )
        lost = norm(errors(decoded, arrays))
        expect(lost <= whole * (1 + round), f"the error must be at most {whole * (1 + round):.4g}", lost)


@COMPOSABLE.every
def broken_messages_give_arrays_of_the_layout_or_a_wire_error(case: Case) -> None:
    """Make nothing else of a message that was cut, or whose bits were flipped."""
    for varies in (False, True) if not case.fixed_shapes else (False,):
        _check_broken(case.codec, varies)


def _check_bounds(codec: Codec[Any], layout: Layout, arrays: Arrays, largest: Layout) -> None:
    encoded, _ = codec.encode(arrays, codec.init(layout), generator())
    travels, bounds = codec.encoded(layout), codec.bounds(layout, largest)
    one, two = ([(s.name, s.dtype, len(s.shape)) for s in each] for each in (travels, bounds))
    expect(one == two, "bounds must have the names, types and dimensions of encoded", two, one)
    for spec in bounds:
        expect(VARIABLE not in spec.shape, "bounds must leave no dimension open", spec)
        within = all(dim <= most for dim, most in zip(encoded[spec.name].shape, spec.shape, strict=True))
        expect(within, f"{spec.name!r} must be at most {spec.shape}", encoded[spec.name].shape)
    blob, most = wire.encode(Message("train", arrays=encoded), travels), wire.message_bytes(travels, bounds=bounds)
    expect(len(blob) <= most, f"the message must have at most {most} bytes", len(blob))
    sent = Layout(tuple(Spec(s.name, s.dtype, arrays[s.name].shape) for s in layout))
    decoded = Layout.of(codec.decode(encoded, layout))
    expect(decoded == sent, "what is decoded must have the layout of what was sent", decoded, sent)


def _check_broken(codec: Codec[Any], varies: bool) -> None:
    g = generator(7)
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
    for each in broken(blob, g):
        try:
            received = wire.decode(each, travels).arrays
            result = codec.decode(received, layout) if received is not None else None
        except WireError:
            continue
        if result is not None:
            rebuilt = Layout.of(result)
            expect(fits(layout, rebuilt), "a broken message must give arrays of the layout, or a WireError", rebuilt)
            decoded += 1
    expect(decoded, "a flipped bit of a value must be another value", "every broken message was refused")
