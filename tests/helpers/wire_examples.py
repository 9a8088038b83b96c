"""Trees and messages of every kind, and bytes that are almost some."""

import struct
import tracemalloc

import msgpack
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedgraft.errors import WireError
from fedgraft.wire import Message
from fedgraft.wire.buffers import DTYPES
from fedgraft.wire.layouts import VARIABLE, Layout, Spec


def same(a, b):
    """Equal in type, order and every bit."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a == b


arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8)
)
trees = st.recursive(
    scalars | arrays,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)

LAYOUT = Layout(
    (
        Spec("weight", "float32", (3, 2)),
        Spec("rows", "int64", (VARIABLE,)),
        Spec("mask", "bool", (4,)),
        Spec("values", "float16", (VARIABLE, 2)),
        Spec("step", "float64", ()),
    )
)
NAMES = ("loss", "loss_sq", "seconds")


def example(rows=5):
    g = np.random.default_rng(0)
    return Message(
        "train",
        round=7,
        report={"loss": 0.5, "loss_sq": 0.25, "seconds": 2.0},
        arrays={
            "weight": g.standard_normal((3, 2)).astype(np.float32),
            "rows": np.arange(rows),
            "mask": np.array([True, False, True, True]),
            "values": g.standard_normal((rows, 2)).astype(np.float16),
            "step": np.array(0.125),
        },
        progress=513,
    )


def tree_bytes(header, buffers=b""):
    return struct.pack("<2sBBI", b"fg", 1, 0, len(header)) + header + buffers


def extension(code, data):
    return msgpack.packb(msgpack.ExtType(code, data))


def peak_bytes(function, *arguments):
    """Most bytes that a call held beside what was there before; the error it raised, if any."""
    error = None
    tracemalloc.start()
    try:
        function(*arguments)
    except WireError as caught:
        error = caught
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, error
