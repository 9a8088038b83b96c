"""Begin a blob, and write arrays as raw little-endian buffers, for trees and messages alike.

Every blob starts with magic 2s | version u8 | form u8, and no size it declares is believed before it has been compared
with the bytes that are there.
"""

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np

from fedgraft.errors import WireError
from fedgraft.wire.layouts import Array

MAGIC: Final = b"fg"
VERSION: Final = 1
TREE_FORM: Final = 0
MESSAGE_FORM: Final = 1
DEFAULT_LIMIT: Final = 2**31
"""Most bytes of a blob, and of the value built from it, unless the caller says otherwise: Flower's longest message."""
DTYPES: Final = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64"),
)
"""Types of arrays that travel; in a tree each is the number of its place here."""

_MAX_EXTENT: Final = 2**62  # beyond this NumPy refuses a shape even if the array is empty


def view_within(blob: bytes | memoryview, limit: int) -> memoryview:
    """The bytes of a blob, if they are within the limit."""
    view = memoryview(blob).cast("B")
    if view.nbytes > limit:
        raise WireError(f"{view.nbytes} bytes are more than the limit of {limit}.")
    return view


def check_start(magic: bytes, version: int, form: int, expected: int) -> None:
    """Raise `WireError` unless a blob starts as one of ours, of this version and of the expected form."""
    if magic != MAGIC:
        raise WireError(f"Not bytes of fedgraft: they start with {magic!r}.")
    if version != VERSION:
        raise WireError(f"Version {version} of the format; this fedgraft reads version {VERSION}.")
    if form != expected:
        forms = {TREE_FORM: "a tree", MESSAGE_FORM: "a message"}
        raise WireError(f"Found {forms.get(form, 'an unknown form')} where {forms[expected]} is expected.")


def buffer(array: Array) -> memoryview:
    """The array's bytes in C order; a copy only of what is not contiguous or not little-endian."""
    return np.ascontiguousarray(array, _to_little_endian(array.dtype)).data


def array_at(view: memoryview, offset: int, dtype_name: str, shape: tuple[int, ...]) -> Array:
    """Return the bytes at `offset` as an array [shape], a view, which may not be aligned."""
    dtype = _little_endian(dtype_name)
    size, left = math.prod(shape) * dtype.itemsize, view.nbytes - offset
    if size > left:
        raise WireError(f"An array of shape {shape} needs {size} bytes, but {left} are left.")
    if not size and math.prod(dim or 1 for dim in shape) * dtype.itemsize > _MAX_EXTENT:
        raise WireError(f"No array has the shape {shape}.")
    array: Array = np.ndarray(shape, dtype, buffer=view, offset=offset)
    # NumPy takes any non-zero byte for True, but not in every operation.
    if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise WireError("An array of bools holds something else.")
    return array


def bytes_of_rows(array: Array) -> Array:
    """Return the little-endian bytes of each row of an array [rows, ...]: uint8 [rows, bytes]."""
    whole = np.ascontiguousarray(array, _to_little_endian(array.dtype))
    return whole.reshape(-1).view(np.uint8).reshape(len(array), math.prod(array.shape[1:]) * array.dtype.itemsize)


def rows_of_bytes(content: Array, dtype_name: str, *shape: int) -> Array:
    """Return [rows, *shape] of uint8 [rows, bytes]: the inverse of `bytes_of_rows`, a copy.

    Raises `WireError` for rows of another length.
    """
    dtype = _little_endian(dtype_name)
    if content.shape[1] != math.prod(shape) * dtype.itemsize:
        raise WireError(f"rows of {content.shape[1]} bytes where {math.prod(shape) * dtype.itemsize} are meant")
    return np.array(content, order="C").reshape(-1).view(dtype).reshape(len(content), *shape)


@lru_cache
def number_of(dtype: np.dtype[Any]) -> int | None:
    """Return the place of a type among those that travel; None for one that does not."""
    return DTYPES.index(dtype.name) if dtype.name in DTYPES else None


@lru_cache
def _little_endian(dtype_name: str) -> np.dtype[Any]:
    return np.dtype(dtype_name).newbyteorder("<")


@lru_cache
def _to_little_endian(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<")
