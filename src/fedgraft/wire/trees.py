"""Trees as bytes: states, client memories and checkpoints. Import these names from `wire`.

    magic 2s | version u8 | form u8 = 0 | header length u32 | header | buffers

The header is a flat run of msgpack values in preorder. Lists, dicts and arrays are extension values that hold a count,
or a type and a shape, so msgpack never builds anything nested, and nothing larger than its own bytes, from a blob.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

import msgpack
import numpy as np
from msgpack import ExtType

from fedgraft.errors import WireError
from fedgraft.wire import buffers
from fedgraft.wire.layouts import Array, Tree

MAX_DEPTH: Final = 64
"""Most lists and dicts inside one another."""

_HEAD: Final = struct.Struct("<2sBBI")
_COUNT: Final = struct.Struct("<I")
_LIST: Final = 1
_DICT: Final = 2
_ARRAY: Final = 3
_MAX_DIMS: Final = 32
_ITEM_BYTES: Final = 256  # more than CPython takes for any item of a tree and its place in a list or dict
_CHARACTER_BYTES: Final = 4  # what one wide character makes of every character of its text
_FREE_ITEMS: Final = 4096  # so that a limit close to the length of a small blob does not refuse it
_SCALARS: Final = frozenset({type(None), bool, int, float, str, bytes})
_PLAIN: Final = frozenset({type(None), bool, float, bytes})
"""Scalars of which every value can be written."""
_ARRAYS: Final = frozenset({np.ndarray, np.memmap})


def pack(tree: Tree) -> bytes:
    """The bytes of a tree; equal trees (order of dicts included) give equal bytes.

    NumPy's boolean, integer and float scalars are taken for Python's and come back as such.

    Raises:
        TypeError: for a value that no tree holds; the message says where it is.
        ValueError: for an integer beyond 64 bits, text that is not Unicode, or nesting beyond `MAX_DEPTH`.
    """
    return b"".join(pieces(tree))


def pieces(tree: Tree) -> list[bytes | memoryview]:
    """Return the pieces that `pack` joins: all that is not arrays, then the arrays, which are not copied."""
    writer = _Writer()
    writer.write(tree, 0)
    header = writer.packer.bytes()
    return [_HEAD.pack(buffers.MAGIC, buffers.VERSION, buffers.TREE_FORM, len(header)) + header, *writer.buffers]


def unpack(blob: bytes | memoryview, limit: int = buffers.DEFAULT_LIMIT, views: bool = False) -> Tree:
    """The tree that `pack` was given; its arrays are writable copies of their own.

    A number, a text or a count in a longer form than `pack` writes is the same value, as in all of msgpack: two blobs
    may hold one tree, so what is compared or signed is a blob, or a tree packed anew. (To compare every form would take
    7 to 36 % of the time of this function.)

    Args:
        blob: any bytes.
        limit: most bytes of `blob`, and most bytes of memory for the value, reckoned at 256 bytes per item beyond the
            first 4096, 4 per character, and the size of arrays. Decoding needs one copy of the header beside it.
        views: whether arrays are read-only views of `blob` instead, where they are aligned.

    Raises:
        WireError: for everything that is no tree, and for what is beyond the limit.
    """
    view = buffers.view_within(blob, limit)
    if view.nbytes < _HEAD.size:
        raise WireError(f"A tree needs at least {_HEAD.size} bytes; got {view.nbytes}.")
    magic, version, form, length = _HEAD.unpack_from(view)
    buffers.check_start(magic, version, form, buffers.TREE_FORM)
    if length > view.nbytes - _HEAD.size:
        raise WireError(f"A header of {length} bytes is declared, but {view.nbytes - _HEAD.size} follow.")
    reader = _Reader(view, length, limit, views)
    tree = reader.read(0)
    reader.finish()
    return tree


class _Writer:
    """Collects the header's values and the arrays' buffers, in preorder."""

    def __init__(self) -> None:
        self.packer = msgpack.Packer(autoreset=False)
        self.buffers: list[memoryview] = []
        self.path: list[str | int] = []

    def write(self, tree: object, depth: int) -> None:
        if type(tree) in _ARRAYS:  # first: most of what is written
            self._write_array(tree)  # type: ignore[arg-type]
            return
        if isinstance(tree, np.generic):
            tree = tree.item()
        if type(tree) in _PLAIN or isinstance(tree, (float, bytes)):
            self.packer.pack(tree)
        elif isinstance(tree, int):
            if not -(2**63) <= tree < 2**64:
                raise ValueError(f"{self._place()}: an integer must fit into 64 bits; got {tree}.")
            self.packer.pack(tree)
        elif isinstance(tree, str):
            self._write_text(tree)
        elif not isinstance(tree, list | dict):
            raise TypeError(
                f"{self._place()}: a tree holds None, bool, int, float, str, bytes, arrays, lists and dicts; "
                f"got {type(tree).__name__}."
            )
        elif depth == MAX_DEPTH:
            raise ValueError(f"{self._place()}: more than {MAX_DEPTH} lists and dicts inside one another.")
        elif isinstance(tree, list):
            self.packer.pack_ext_type(_LIST, _COUNT.pack(len(tree)))
            for place, value in enumerate(tree):
                self._write_item(place, value, depth + 1)
        else:
            self.packer.pack_ext_type(_DICT, _COUNT.pack(len(tree)))
            for key, value in tree.items():
                if not isinstance(key, str):
                    raise TypeError(f"{self._place()}: keys must be str; got {key!r}.")
                self._write_text(key, key)
                self._write_item(key, value, depth + 1)

    def _write_item(self, step: str | int, value: object, depth: int) -> None:
        if type(value) in _PLAIN:  # thousands in the scores that a client keeps: no place is ever told of them
            self.packer.pack(value)
            return
        self.path.append(step)
        self.write(value, depth)
        self.path.pop()

    def _write_text(self, text: str, *step: str) -> None:
        try:
            self.packer.pack(text)
        except UnicodeEncodeError as error:
            self.path.extend(step)
            raise ValueError(f"{self._place()}: text must be valid Unicode; got {text!r}.") from error

    def _write_array(self, array: Array) -> None:
        number = buffers.number_of(array.dtype)
        if number is None:
            names = ", ".join(buffers.DTYPES)
            raise TypeError(f"{self._place()}: an array must be one of {names}; got {array.dtype.name}.")
        if max(array.shape, default=0) >= 2**32:
            raise ValueError(f"{self._place()}: a dimension must be below 2**32; got shape {array.shape}.")
        self.packer.pack_ext_type(_ARRAY, struct.pack(f"<B{array.ndim}I", number, *array.shape))
        self.buffers.append(buffers.buffer(array))

    def _place(self) -> str:
        return "tree" + "".join(f"[{step!r}]" for step in self.path)


class _Reader:
    """Builds a tree from the header's values, never taking more memory than it was allowed."""

    def __init__(self, view: memoryview, length: int, limit: int, views: bool) -> None:
        self.view, self.views = view, views
        self.offset = _HEAD.size + length
        self.left = limit + _FREE_ITEMS * _ITEM_BYTES
        self.tokens = _tokens(view[_HEAD.size : self.offset], self.left)

    def read(self, depth: int) -> Tree:
        token = self._next()
        return token if type(token) in _SCALARS else self._read_nested(token, depth)

    def _read_nested(self, token: Any, depth: int) -> Tree:
        if type(token) is not ExtType or token.code not in (_LIST, _DICT, _ARRAY):
            raise WireError(f"A tree holds no {type(token).__name__}.")
        if token.code == _ARRAY:
            return self._read_array(token.data)
        if depth == MAX_DEPTH:
            raise WireError(f"More than {MAX_DEPTH} lists and dicts inside one another.")
        if len(token.data) != _COUNT.size:
            raise WireError("A list or dict without a proper count.")
        count: int = _COUNT.unpack(token.data)[0]
        if token.code == _LIST:
            return [self.read(depth + 1) for _ in range(count)]
        tree: dict[str, Tree] = {}
        for _ in range(count):
            key = self._next()
            if type(key) is not str or key in tree:
                raise WireError(f"Keys must be distinct texts; got {key!r:.80}.")
            token = self._next()
            tree[key] = token if type(token) in _SCALARS else self._read_nested(token, depth + 1)
        return tree

    def finish(self) -> None:
        if next(self.tokens, self) is not self:
            raise WireError("The header goes on after the tree's end.")
        if self.offset != self.view.nbytes:
            raise WireError(f"{self.view.nbytes - self.offset} bytes too many at the end.")

    def _next(self) -> Any:
        token = next(self.tokens, self)
        if token is self:
            raise WireError("The header ends within the tree.")
        size = _CHARACTER_BYTES * len(token) if type(token) is str else len(token) if type(token) is bytes else 0
        self._charge(_ITEM_BYTES + size)
        return token

    def _charge(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise WireError("The tree would take more memory than its limit.")

    def _read_array(self, header: bytes) -> Array:
        dims, rest = divmod(len(header), _COUNT.size)
        if rest != 1 or dims > _MAX_DIMS or header[0] >= len(buffers.DTYPES):
            raise WireError("An array without a proper type and shape.")
        shape = struct.unpack(f"<{dims}I", header[1:])
        array = buffers.array_at(self.view, self.offset, buffers.DTYPES[header[0]], shape)
        self._charge(array.nbytes)
        self.offset += array.nbytes
        if not self.views or not array.flags.aligned:
            return array.copy()
        array.flags.writeable = False
        return array


def _tokens(header: memoryview, allowed: int) -> Iterator[Any]:
    size = max(header.nbytes, 1)
    unpacker = msgpack.Unpacker(
        max_buffer_size=size,
        read_size=size,
        max_str_len=allowed // _CHARACTER_BYTES,
        max_array_len=0,
        max_map_len=0,
        max_ext_len=1 + _MAX_DIMS * _COUNT.size,
    )
    try:
        unpacker.feed(header)
        yield from unpacker
    except (ValueError, msgpack.UnpackException) as error:
        raise WireError(f"The header is not msgpack: {error}") from error
    if unpacker.tell() != header.nbytes:
        raise WireError("The header ends within a value.")
