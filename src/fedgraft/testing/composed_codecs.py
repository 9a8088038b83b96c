"""Laws of codecs that hold for compositions too: alone, with others behind them, with error feedback around them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedgraft import wire
from fedgraft.contracts import Codec
from fedgraft.errors import WireError
from fedgraft.methods.codecs.chain import Chain
from fedgraft.methods.codecs.feedback import Feedback
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.testing.coded_arrays import broken, errors, fits, generator, layouts, model, norm
from fedgraft.testing.laws import Law, Laws, expect, for_all
from fedgraft.wire import Message
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout, Spec


@dataclass(frozen=True)
class Composed:
    """A codec and what it is made of; `varying` if it takes arrays with dimensions that only the sender knows."""

    name: str
    codec: Codec[Any]
    varying: bool


LAWS: Laws[Composed] = Laws()
VARYING_LAWS: Laws[Composed] = Laws()
"""Further ones for codecs that take arrays with dimensions that only the sender knows."""


def compositions(name: str, codec: Codec[Any], varying: bool) -> list[Composed]:
    """Return a codec alone, with a quantiser behind it, and both with error feedback around them."""
    both = Chain((codec, Quantized(bits=5)))
    return [
        Composed(name, codec, varying),
        Composed(f"{name}, quantized", both, varying),
        Composed(f"feedback({name}, quantized)", Feedback(both), False),
    ]


def laws(composed: Composed) -> list[Law[Composed]]:
    """Return the laws of one composition, to be called one by one."""
    known = [LAWS, VARYING_LAWS] if composed.varying else [LAWS]
    return [law for each in known for law in each.held(type(composed.codec), lambda: composed, composed.name)]


def laws_of_all(codec: Codec[Any], varying: bool) -> list[Law[Composed]]:
    """Return the laws of a codec's compositions."""
    return [law for each in compositions(type(codec).__name__, codec, varying) for law in laws(each)]


@LAWS.every
def bounds_are_never_exceeded(composed: Composed) -> None:
    """Say how long a message can be before it is made."""
    for_all(lambda drawn: _check_bounds(composed.codec, *drawn), {"drawn": layouts(varying=False)}, examples=30)


@VARYING_LAWS.every
def bounds_are_never_exceeded_where_dimensions_vary(composed: Composed) -> None:
    """Say how long a message can be, given how many rows there can be."""
    for_all(lambda drawn: _check_bounds(composed.codec, *drawn), {"drawn": layouts(varying=True)}, examples=30)


@LAWS.every
def messages_in_a_row_lose_no_more_than_silence_would(composed: Composed) -> None:
    """Be nearer to what is sent than sending nothing, in a second message by at most as much again."""
    codec, arrays = composed.codec, model()
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


@LAWS.every
def broken_messages_give_arrays_of_the_layout_or_a_wire_error(composed: Composed) -> None:
    """Make nothing else of a message that was cut, or whose bits were flipped."""
    for varies in (False, True) if composed.varying else (False,):
        _check_broken(composed.codec, varies)


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
