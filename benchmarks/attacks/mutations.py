"""Change bytes, arrays and messages, by what they are made of, so that little is refused for its first byte."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any, Final

import msgpack
import numpy as np

from fedgraft import wire
from fedgraft.wire import Message
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout

COUNTS: Final = (0, 1, 2, 127, 128, 255, 2**16 - 1, 2**20, 2**31 - 1, 2**31, 2**32 - 1)
FLOATS: Final = (0.0, -0.0, -1.0, 1e-45, 1e30, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan)
Layouts = Mapping[str, Layout | None]
Names = Mapping[str, tuple[str, ...]]


def one_of(choices: Sequence[Any], g: np.random.Generator) -> Any:
    """Draw one of them."""
    return choices[int(g.integers(len(choices)))]


def bytes_changed(seeds: Sequence[bytes], g: np.random.Generator) -> bytes:
    """One of the blobs with one to three mistakes: flips, extreme numbers, cuts, splices, insertions."""
    blob = bytearray(one_of(seeds, g))
    for _ in range(int(g.integers(1, 4))):
        what, place = int(g.integers(7)), int(g.integers(len(blob) + 1))
        if what == 0 and place < len(blob):
            blob[place] ^= 1 << int(g.integers(8))
        elif what == 1 and blob:
            blob[int(g.integers(min(len(blob), 40)))] = one_of((0, 1, 2, 127, 128, 255), g)
        elif what == 2:
            del blob[place:]
        elif what == 3:
            other = one_of(seeds, g)
            blob[place:] = other[int(g.integers(len(other) + 1)) :]
        elif what == 4:
            blob[place:place] = g.bytes(int(g.integers(1, 9)))
        elif what == 5:
            blob[place : place + 4] = struct.pack("<I", one_of(COUNTS, g))
        else:
            del blob[place : place + int(g.integers(8))]
    return bytes(blob)


# --- trees ------------------------------------------------------------------------------------------------------------


def tree(g: np.random.Generator, depth: int = 3) -> Any:
    """A random tree."""
    inner = int(g.integers(4)) if depth else 0
    makers: tuple[Callable[[], Any], ...] = (
        lambda: one_of((None, True, 0, -1, 2**64 - 1, -(2**63), 0.5, float("nan"), "", "Größe", b"\xff" * 9), g),
        lambda: g.integers(0, 2, size=g.integers(0, 4, size=int(g.integers(4)))).astype(one_of(("?", "u2", "f4"), g)),
    )
    children = [tree(g, depth - 1) for _ in range(inner)]
    if inner and g.random() < 0.5:
        return {f"{k}": child for k, child in enumerate(children)}
    return children if inner else one_of(makers, g)()


def items_changed(blob: bytes, g: np.random.Generator) -> bytes:
    """A packed tree, one item of whose header is another, twice there, gone or of another size."""
    size = struct.unpack_from("<I", blob, 4)[0]
    items = list(msgpack.Unpacker(BytesIO(blob[8 : 8 + size])))
    place, what = int(g.integers(len(items))), int(g.integers(5))
    item = items[place]
    if what == 0:
        del items[place]
    elif what == 1:
        items.insert(place, one_of(items, g))
    elif what == 2:
        items[place] = one_of((None, True, -1, 2**63, 1e308, "a" * 300, b"", [], {}, [[1]], msgpack.ExtType(9, b"")), g)
    elif isinstance(item, msgpack.ExtType):
        count = struct.pack("<I", one_of(COUNTS, g))
        at = int(g.integers(len(item.data) + 1))
        items[place] = msgpack.ExtType(item.code, (item.data[:at] + count + item.data[at + 4 :])[: 4 + 4 * what])
    else:
        items[place] = msgpack.ExtType(int(g.integers(1, 4)), struct.pack("<I", one_of(COUNTS, g)))
    header = b"".join(map(msgpack.packb, items))
    return blob[:4] + struct.pack("<I", len(header)) + header + blob[8 + size :]


# --- arrays and messages ----------------------------------------------------------------------------------------------


def arrays_changed(arrays: Arrays, layout: Layout, g: np.random.Generator) -> Arrays:
    """Arrays that still fit their layout, of which one holds other numbers, or other rows where these may vary."""
    specs = [spec for spec in layout if spec.name in arrays]
    if not specs:
        return arrays
    spec = one_of(specs, g)
    changed = _rows_changed(arrays[spec.name], g) if VARIABLE in spec.shape[:1] and g.random() < 0.5 else None
    changed = _numbers_changed(arrays[spec.name], g) if changed is None else changed
    return {**arrays, spec.name: changed}


def _numbers_changed(array: Array, g: np.random.Generator) -> Array:
    changed = np.array(array)
    flat, what = changed.reshape(-1), int(g.integers(5))
    if not flat.size:
        return changed
    places = g.integers(flat.size, size=int(g.integers(1, 4)))
    if changed.dtype.kind == "f":
        with np.errstate(over="ignore"):
            extreme = np.array(one_of(FLOATS, g)).astype(changed.dtype)
    else:
        limits = (0, 1) if changed.dtype.kind == "b" else (np.iinfo(changed.dtype).min, np.iinfo(changed.dtype).max)
        extreme = np.array(one_of((0, 1, *limits), g)).astype(changed.dtype)
    if what == 0:
        flat[places] = extreme
    elif what == 1:
        flat[:] = extreme
    elif what == 2:
        flat[:] = g.permutation(flat)
    elif what == 3:
        flat[:] = np.frombuffer(g.bytes(flat.nbytes), changed.dtype) if changed.dtype.kind != "b" else ~flat
    else:
        flat[places] = flat[::-1][places]
    return changed


def _rows_changed(array: Array, g: np.random.Generator) -> Array:
    what, place = int(g.integers(4)), int(g.integers(len(array) + 1))
    if what == 0:
        return array[:place]
    if what == 1:
        return np.concatenate([array, array[:place]])
    if what == 2:
        return array[::-1].copy()  # as it would come from the wire
    return np.concatenate([array] * int(g.integers(2, 6)))


def message_changed(
    blob: bytes, seeds: Sequence[bytes], layouts: Layouts, names: Names, g: np.random.Generator
) -> bytes:
    """An honest message of which bytes, its place in the run, its report or its arrays are others."""
    if g.random() < 0.3:
        return bytes_changed([blob], g) if g.random() < 0.8 else bytes_changed(seeds, g)
    message = wire.decode(blob, layouts, names)
    kind = message.kind
    layout, what = layouts.get(kind), int(g.integers(6))
    if what == 0:
        return one_of(seeds, g)
    if what == 1 and kind != "error":
        message = replace(message, round=one_of((0, message.round + 1, 2**32 - 1), g))
    elif what == 2 and message.report:
        values: tuple[float, ...] = (*FLOATS, 1e300, 0.5, 2.0**31, -1e9)
        message = replace(message, report={**message.report, one_of(list(message.report), g): one_of(values, g)})
    elif what == 3:
        message = Message("error", message.round, text=one_of(("", "x", "\x1b[2J\nfake", "ä" * 200), g))
        return wire.encode(message)
    elif message.arrays is not None and layout is not None:
        message = replace(message, arrays=arrays_changed(message.arrays, layout, g))
    try:
        return wire.encode(message, layout, names.get(kind, ()))
    except ValueError:  # what no honest side can encode
        return bytes_changed([blob], g)
