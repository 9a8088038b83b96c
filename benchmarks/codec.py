"""The codec that packs the most values: four bits each, a million of them."""

import numpy as np

from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.wire.layouts import Layout
from timing import in_turns

VALUES = 1_000_000


def encode_ms(values: int = VALUES, repeats: int = 20) -> float:
    """Milliseconds to encode; the fastest time, since whatever else a machine does only adds to it."""
    return _milliseconds(values, repeats)["encode"]


def decode_ms(values: int = VALUES, repeats: int = 20) -> float:
    """Milliseconds to decode; the fastest time."""
    return _milliseconds(values, repeats)["decode"]


def _milliseconds(values: int, repeats: int) -> dict[str, float]:
    g = np.random.default_rng(0)
    arrays = {"weight": g.standard_normal(values, np.float32)}
    codec, layout = Quantized(bits=4), Layout.of(arrays)
    state = codec.init(layout)
    encoded, _ = codec.encode(arrays, state, g)
    variants = {
        "encode": lambda _: codec.encode(arrays, state, g),
        "decode": lambda _: codec.decode(encoded, layout),
    }
    return {name: 1000 * min(seconds) for name, seconds in in_turns(variants, repeats, warm_up=3).items()}
