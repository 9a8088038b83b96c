"""Arrays of codecs, alone and composed, with other numbers and other rows: decoded or refused."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attacks.mutations import arrays_changed, one_of
from attacks.outcomes import Outcome, outcome
from fedgraft.contracts import Codec
from fedgraft.errors import ClientError, InputError, WireError
from fedgraft.methods.codecs.chain import Chain
from fedgraft.methods.codecs.feedback import Feedback
from fedgraft.methods.codecs.float16 import Float16
from fedgraft.methods.codecs.identity import Identity
from fedgraft.methods.codecs.low_rank import LowRank
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.methods.codecs.sparse import Sparse
from fedgraft.methods.float_codec import EXPANSION
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout, Spec

MOST = 1 << 20
"""Bytes that decoding may take beside what the layout and the message allow."""


def codecs(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """`decode` of arrays that fit what the codec announced, and hold anything."""
    while True:
        codec = _codec(g)
        layout, arrays = _arrays(g, varying=not isinstance(codec, Feedback))
        try:
            encoded, _ = codec.encode(arrays, codec.init(layout), g)
        except (ClientError, InputError):  # a chain that does not suit the arrays
            continue
        announced, fixed = codec.encoded(layout), sum(array.nbytes for array in arrays.values())
        for number in range(24):
            changed = arrays_changed(encoded, announced, g)
            for _ in range(number % 3):
                changed = arrays_changed(changed, announced, g)
            size = sum(array.nbytes for array in changed.values())
            most = 12 * fixed + 6 * EXPANSION * size + MOST
            yield outcome(partial(_decoded, codec, changed, layout), (WireError,), most)


def _decoded(codec: Codec[Any], arrays: Arrays, layout: Layout) -> str:
    found = codec.decode(arrays, layout)
    for spec in layout:
        array = found[spec.name]
        if array.dtype.name != spec.dtype or len(array.shape) != len(spec.shape):
            return f"{type(codec).__name__} decodes to {array.dtype} {array.shape}"
    return ""


def _codec(g: np.random.Generator, depth: int = 2) -> Codec[Any]:
    """One of the codecs, with options, alone or around others."""
    alone: list[Any] = [
        lambda: Identity(),
        lambda: Float16(),
        lambda: Quantized(bits=int(g.integers(1, 17))),
        lambda: Quantized(bits=int(one_of((2, 8, 32), g)), rounding="stochastic", bucket=int(one_of((0, 1, 7), g))),
        lambda: LowRank(rank=int(g.integers(1, 6))),
        lambda: Sparse(share=float(one_of((0.05, 0.3, 1.0), g))),
        lambda: Sparse(share=0, threshold=0.5),
    ]
    around: list[Any] = [
        lambda: Chain((_codec(g, 0), _codec(g, 0))),
        lambda: Feedback(_codec(g, 1)),
    ]
    while True:
        try:
            made: Codec[Any] = one_of(alone + around * (depth > 1) + around[:1] * (depth > 0), g)()
        except (InputError, TypeError):  # not every pair makes a chain
            continue
        return made


def _arrays(g: np.random.Generator, varying: bool) -> tuple[Layout, Arrays]:
    """Arrays of a few shapes, and their layout, some of it with rows that only the sender knows."""
    shapes = [(), (0,), (7,), (3, 0, 2), (5, 4), (40, 24), (2, 3, 4)]
    arrays: Arrays = {"ids": np.arange(int(g.integers(4)))}
    for number in range(int(g.integers(1, 4))):
        arrays[f"a{number}"] = g.standard_normal(one_of(shapes, g)).astype(np.float32)
    if varying:
        arrays["rows"] = g.standard_normal((int(g.integers(30)), 4)).astype(np.float32)
    specs = [Spec(name, array.dtype.name, array.shape) for name, array in arrays.items() if name != "rows"]
    return Layout((*specs, Spec("rows", "float32", (VARIABLE, 4))) if varying else tuple(specs)), arrays
