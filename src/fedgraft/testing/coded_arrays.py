"""Arrays for the laws of codecs, and what is asked of them behind a codec."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedgraft.testing.laws import strategies
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout, Spec

ODD: dict[str, Arrays] = {
    "nothing": {},
    "empty": {"empty": np.zeros(0, np.float32)},
    "scalar and empty": {"empty": np.zeros((3, 0, 2), np.float32), "scalar": np.array(-2.0, np.float32)},
    "scalar": {"scalar": np.array(1e-3, np.float32)},
    "zeros": {"zeros": np.zeros((5, 5), np.float32)},
    "no float32": {"ids": np.arange(3)},
    "awkward names": {
        "scales": np.ones(3, np.float32),
        "packed": np.arange(3),
        "packed+": np.zeros(2, np.uint8),
        "dims": np.ones(2),
    },
    "more of them": {
        "ranks": np.ones((4, 4), np.float32),
        "factors": np.ones(3, np.float32),
        "values": np.arange(2),
        "places": np.ones(2, np.float32),
        "residual": np.array(1, np.float32),
    },
}
"""{what is odd about them: arrays}."""


def model() -> Arrays:
    """Return 100,000 float32 with the structure of a trained model: a few directions matter, the rest is noise."""
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


def generator(seed: int = 3) -> np.random.Generator:
    """Return what codecs draw from in laws."""
    return np.random.Generator(np.random.Philox(seed))


def norm(arrays: Arrays) -> float:
    """Return the length of all float32 arrays as one vector."""
    floats = (array.astype(np.float64) for array in arrays.values() if array.dtype == np.float32)
    return float(np.sqrt(sum(float(np.square(array).sum()) for array in floats)))


def errors(decoded: Arrays, arrays: Arrays) -> Arrays:
    """Return what float32 arrays differ by."""
    return {name: decoded[name] - array for name, array in arrays.items() if array.dtype == np.float32}


def fits(layout: Layout, encoded: Layout) -> bool:
    """Return whether names, types and order are the same, and shapes but where the layout leaves them open."""
    return len(layout.specs) == len(encoded.specs) and all(
        (a.name, a.dtype, len(a.shape)) == (b.name, b.dtype, len(b.shape))
        and all(x in (VARIABLE, y) for x, y in zip(a.shape, b.shape, strict=True))
        for a, b in zip(layout, encoded, strict=True)
    )


def layouts(varying: bool) -> Any:
    """Return a strategy: a layout, arrays of it, and the layout with the largest possible number where it varies."""
    st = strategies()

    def of(draw: Any) -> tuple[Layout, Arrays, Layout]:
        specs, largest, arrays = [], [], {}
        g = generator(draw(st.integers(0, 2**32)))
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

    return st.composite(of)()


def broken(blob: bytes, g: np.random.Generator) -> Iterator[bytes]:
    """Yield a message cut anywhere, and with one to three bits flipped anywhere."""
    for end in g.integers(0, len(blob), 20):
        yield blob[:end]
    anywhere = (g.integers(0, 8 * len(blob), flips).tolist() for flips in g.integers(1, 4, 100))
    sizes = ([place] for place in range(160, min(8 * len(blob), 160 + 8 * 60)))  # all bits behind the head
    for places in itertools.chain(anywhere, sizes):
        flipped = bytearray(blob)
        for place in {*places}:
            flipped[place // 8] ^= 0x80 >> place % 8
        yield bytes(flipped)
