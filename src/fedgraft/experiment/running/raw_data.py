"""A baseline of bytes: what it would take to send every client's data once, compressed, and to train in one place.

Counted is, client by client, the length of one message: its header, and behind it all that training in one place would
need of the client's shard: features, edges, labels, splits, addresses of neighbours elsewhere. Left out is what only
names things: texts, and the fields `name`, `ids`, `*_ids` and `*_names` of dataclasses.

Nothing is lost: from the message each array can be had again, number by number. An array is written

- in the smallest type that holds its numbers exactly: whole numbers in 1, 2, 4 or 8 bytes, 0 and 1 in a bit, others in
  16, 32 or 64 bits; of few distinct numbers a table and places in it;
- as differences of neighbouring numbers, where that is shorter;
- by its non-zero numbers row by row, where most are zero: how many, the gaps between their columns, what they are;
- as edges, where it is a CSR or [2, edges] in ascending order: as rows above, and what goes both ways once;
- as a fingerprint, where an earlier client has sent the very same array, such as a catalogue that all have.

All is compressed as one by LZMA or by zlib, whichever is shorter, or left as it is. Of more than `MOST_LZMA` bytes of
all clients together only zlib is asked, which takes seconds where LZMA takes minutes.
"""

import hashlib
import json
import lzma
import os
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import sparse

from fedgraft import wire
from fedgraft.contracts.data import Shards
from fedgraft.contracts.values import SPLITS
from fedgraft.experiment.storage.provenance import digest_of
from fedgraft.wire.layouts import Array
from fedgraft.wire.packing import encode_varints

MOST_LZMA: Final = 8_000_000
"""Bytes of all clients, before they are compressed, of which LZMA takes a few seconds."""
SEEN_BYTES: Final = 16
"""Of a fingerprint, which stands for an array that was sent before."""
LEAST_SEEN: Final = 1024
"""Bytes of an array in memory from which on it is looked whether it was sent before."""
_SIGNED, _UNSIGNED = ("i1", "i2", "i4", "i8"), ("u1", "u2", "u4", "u8")
_TYPES: Final = (*_UNSIGNED, *_SIGNED, "f2", "f4", "f8")
_PLAIN, _BITS, _STEPS, _TABLE, _ROWS, _EDGES, _GRAPH, _SEEN = range(8)
"""How an array is written: the upper half of its first byte; the lower half is its type."""
_FEW: Final = 8
"""Up to so many numbers are written plainly."""
_MOST_TABLE: Final = 1 << 16
_WIDE: Final = 8
"""Times its edges that a graph may have rows, to be written row by row."""

Whole: TypeAlias = NDArray[np.int64]
Leaf: TypeAlias = "Array | sparse.csr_matrix"
MOST_CLASSES = 100
"""Classes up to which they are counted."""


def raw_data_bytes(shards: Sequence[Any]) -> int | None:
    """Return the bytes of sending all clients' data once; None where these are made only when used."""
    if made_when_used(shards):
        return None
    seen: set[bytes] = set()
    contents = [_content(shard, seen) for shard in shards]
    best = sum(map(len, contents)) <= MOST_LZMA
    return sum(wire.message_bytes() + _compressed(content, best) for content in contents)


def made_when_used(shards: Sequence[Any]) -> bool:
    """Return whether these are made when used, and more than are kept: then not all are made to measure them."""
    return isinstance(shards, Shards) and len(shards) > Shards.KEPT


def _content(shard: Any, seen: set[bytes]) -> bytes:
    """What is to be compressed of a client's data; `seen` are fingerprints of arrays that clients have sent."""
    leaves, parts = list(_leaves(shard)), []
    while leaves:
        first = leaves.pop(0)
        if isinstance(first, np.ndarray) and leaves and _is_csr(first, leaves[0]):
            parts.append(_graph(first.astype(np.int64), leaves.pop(0).astype(np.int64)))
        else:
            parts.append(_known(first, seen) or _written(first))
    return b"".join(parts)


def _compressed(content: bytes, best: bool) -> int:
    """How many bytes are left of a client's data, and one that says how they are compressed."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    sizes = [len(content), len(deflate.compress(content) + deflate.flush())]
    if best:
        size = 1 << max(12, min(24, len(content).bit_length()))
        options = {"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": size, "lc": 0, "lp": 0, "pb": 0}
        sizes.append(len(lzma.compress(content, lzma.FORMAT_RAW, filters=[options])))
    return 1 + min(sizes)


# --- what a shard is made of ------------------------------------------------------------------------------------------


def _leaves(value: Any) -> Iterator[Leaf]:
    """The arrays that a value is made of, in their order; texts and None have none."""
    if value is None or isinstance(value, str):
        return
    if isinstance(value, bool | int | float | np.generic):
        value = np.asarray(value)
    elif isinstance(value, bytes):
        value = np.frombuffer(value, np.uint8)
    elif isinstance(value, torch.Tensor):
        value = value.numpy(force=True)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        yield value.view(value.real.dtype) if value.dtype.kind == "c" else value
    elif isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        yield value.view(np.int64)
    elif sparse.issparse(value):
        yield value.tocsr().sorted_indices()
    elif not (isinstance(value, np.ndarray) and value.dtype.kind in "US"):
        for part in _parts(value):
            yield from _leaves(part)


def _parts(value: Any) -> Sequence[Any]:
    """The parts of a value that has some; a list of numbers is one array."""
    if is_dataclass(value):
        return [getattr(value, each.name) for each in fields(value) if not _names(each.name)]
    if isinstance(value, pd.DataFrame):
        return [value[name].to_numpy() for name in value.columns]
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple | np.ndarray | Shards | set | frozenset):
        items = list(value.reshape(-1)) if isinstance(value, np.ndarray) else list(value)
        numbers = len(items) > 1 and all(isinstance(each, bool | int | float | np.number) for each in items)
        array = np.asarray(items) if numbers else None
        return items if array is None or array.dtype == object else [array]
    return list(vars(value).values()) if hasattr(value, "__dict__") else [pickle.dumps(value)]


def _names(field: str) -> bool:
    """Whether a dataclass's field only names things."""
    return field in ("name", "ids", "names") or field.endswith(("_ids", "_names"))


def _known(leaf: Leaf, seen: set[bytes]) -> bytes:
    """What stands for an array that a client has sent before; b"" for one that none has."""
    stored: tuple[Array, ...] = (leaf,) if isinstance(leaf, np.ndarray) else (leaf.data, leaf.indices, leaf.indptr)
    if sum(each.nbytes for each in stored) < LEAST_SEEN:
        return b""
    hasher = hashlib.blake2b(digest_size=SEEN_BYTES)
    for each in stored:
        hasher.update(f"{each.dtype.str}{each.shape}".encode())
        hasher.update(np.ascontiguousarray(each).view(np.uint8).data if each.size else b"")
    digest = hasher.digest()
    if digest in seen:
        return bytes([_SEEN << 4]) + digest
    seen.add(digest)
    return b""


# --- how an array is written ------------------------------------------------------------------------------------------


def _written(leaf: Leaf) -> bytes:
    """An array in the shortest of the ways that it can be written, as zlib sees it."""
    if not isinstance(leaf, np.ndarray):
        return _matrix(leaf)
    narrow = _narrow(leaf)
    ways = [_plain(narrow)]
    if narrow.size > _FEW:
        whole = narrow.dtype.kind in "iu"
        if whole and narrow.min() >= 0 and narrow.max() <= 1:
            ways.append(_head(_BITS, narrow) + np.packbits(narrow).tobytes())
        elif whole and narrow.ndim == 1 and narrow.itemsize < 8:
            ways.append(bytes([_STEPS << 4]) + _plain(_narrow(_zigzag(narrow.astype(np.int64)))))
        elif not whole:
            ways += _table(narrow)
        if narrow.ndim == 2:
            ways += _edges(narrow) if whole and len(narrow) == 2 else []
            ways += [_matrix(sparse.csr_matrix(narrow))] if np.count_nonzero(narrow) < narrow.size / 2 else []
    return min(ways, key=lambda way: len(zlib.compress(way, 1))) if len(ways) > 1 else ways[0]


def _narrow(array: Array) -> Array:
    """Return the same numbers in the smallest type that holds all of them."""
    if not array.size:
        return array.astype(np.uint8)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array != np.rint(array)).any() or np.abs(array).max() >= 2**53:
            return next(kept for name in ("f2", "f4", "f8") if _equal(kept := _cast(array, name), array))
        array = array.astype(np.int64)
    elif array.dtype.kind == "b":
        array = array.astype(np.uint8)
    low, high = int(array.min()), int(array.max())
    names = _UNSIGNED if low >= 0 else _SIGNED
    name = next(name for name in names if np.iinfo(name).min <= low and high <= np.iinfo(name).max)
    return array.astype(name)


def _cast(array: Array, name: str) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(name)


def _equal(kept: Array, array: Array) -> bool:
    return _type(kept) == "f8" or np.array_equal(kept.astype(array.dtype), array, equal_nan=True)


def _type(array: Array) -> str:
    """The name of an array's type, such as "u1"."""
    return array.dtype.str[1:]


def _head(way: int, array: Array) -> bytes:
    """How an array is written, its type, its dimensions."""
    dims = encode_varints(np.array([array.ndim, *array.shape], np.int64)).tobytes()
    return bytes([way << 4 | _TYPES.index(_type(array))]) + dims


def _plain(array: Array) -> bytes:
    """First the lowest byte of every number, then the next one: bytes that are alike are together."""
    planes = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, array.itemsize).T
    return _head(_PLAIN, array) + planes.tobytes()


def _zigzag(numbers: Whole) -> Whole:
    """Differences of neighbouring numbers, none below 0: 0, -1, 1, -2 ... are 0, 1, 2, 3 ..."""
    steps = np.diff(numbers, prepend=0)
    return np.where(steps < 0, -2 * steps - 1, 2 * steps)


def _table(array: Array) -> list[bytes]:
    """A table of the distinct numbers, and places in it; none where they are many or not numbers."""
    distinct, places = np.unique(array, return_inverse=True)
    if len(distinct) > min(_MOST_TABLE, array.size // 2) or np.isnan(distinct).any():
        return []
    return [bytes([_TABLE << 4]) + _plain(distinct) + _written(places.reshape(array.shape))]


def _matrix(matrix: sparse.csr_matrix) -> bytes:
    """A sparse matrix: its width, the counts and the gaps of its rows, its numbers."""
    pointers, columns = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    return bytes([_ROWS << 4]) + _rows(pointers, columns) + _written(np.array(matrix.shape[1])) + _written(matrix.data)


def _rows(pointers: Whole, columns: Whole, base: Whole | None = None) -> bytes:
    """How many columns each row has, and the gaps between them; `base`, 0 by default, is what the first begins at."""
    counts = np.diff(pointers)
    gaps = np.diff(columns, prepend=0)
    filled = np.flatnonzero(counts)
    first = pointers[filled]
    gaps[first] = columns[first] - (0 if base is None else base[filled])
    return _written(counts) + _written(gaps)


# --- graphs -----------------------------------------------------------------------------------------------------------


def _edges(ends: Array) -> list[bytes]:
    """Pairs in ascending order, [2, edges], row by row; none for pairs in another order."""
    rows, columns = ends.astype(np.int64)
    width = int(ends.max()) + 1
    keys = rows * width + columns if width < 2**31 else rows[:0]
    if width > _WIDE * len(rows) or len(keys) != len(rows) or (np.diff(keys) < 0).any():
        return []
    pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=width))])
    return [bytes([_EDGES << 4]) + _graph(pointers, columns)]


def _is_csr(pointers: Any, columns: Any) -> bool:
    """Whether two arrays that follow each other are a CSR: each row's columns ascend."""
    if not all(isinstance(each, np.ndarray) and each.dtype.kind in "iu" for each in (pointers, columns)):
        return False
    if not pointers.ndim == columns.ndim == 1:
        return False
    if len(pointers) < 2 or pointers[0] != 0 or pointers[-1] != len(columns) or (np.diff(pointers) < 0).any():
        return False
    falls = np.flatnonzero(np.diff(columns.astype(np.int64)) < 0) + 1
    return bool(len(columns) and columns.min() >= 0 and np.isin(falls, pointers).all())


def _graph(pointers: Whole, columns: Whole) -> bytes:
    """A CSR; where all that joins two of its own rows goes both ways, each such pair once."""
    count = len(pointers) - 1
    rows = np.repeat(np.arange(count), np.diff(pointers))
    own = columns < count
    there, back = rows[own] * count + columns[own], columns[own] * count + rows[own]
    if not np.array_equal(there, np.sort(back)) or len(np.unique(there)) != len(there):
        upper = bool((columns >= rows).all())
        return bytes([_GRAPH << 4 | 2 * upper]) + _rows(pointers, columns, np.arange(count) if upper else None)
    kept = columns >= rows
    pointers = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=count))])
    return bytes([_GRAPH << 4 | 1]) + _rows(pointers, columns[kept], np.arange(count))


def described(shards: Sequence[Any]) -> dict[str, Any] | None:
    """Return {"classes": names, "clients": [{"name", "train", "validation", "test", "classes": counts}]}.

    A shard's `split` says of every example, by its place in `SPLITS`, where it is, and -1 that it is in none; `label`
    and `classes`, where it has them, which class it has. Classes are those of all clients together, in the order in
    which they are first met; counted are examples of any split. Names are [] and counts too where there are no classes
    or more than `MOST_CLASSES`.

    Args:
        shards: all clients' data, here. None is returned where these are made only when used, or lack splits or names.
    """
    if made_when_used(shards) or not all(hasattr(shard, "split") and hasattr(shard, "name") for shard in shards):
        return None
    labelled = all(hasattr(shard, "label") and hasattr(shard, "classes") for shard in shards)
    names = list(dict.fromkeys(str(name) for shard in shards for name in shard.classes)) if labelled else []
    if len(names) > MOST_CLASSES:
        names = []
    return {"classes": names, "clients": [_row(shard, names) for shard in shards]}


def _row(shard: Any, names: Sequence[str]) -> dict[str, Any]:
    """A client's counts."""
    split = np.asarray(shard.split)
    sizes = {name: int((split == number).sum()) for number, name in enumerate(SPLITS)}
    counts = [0] * len(names)
    if names:
        own = np.asarray(shard.label)[split >= 0]
        for number, count in enumerate(np.bincount(own[own >= 0], minlength=len(shard.classes)).tolist()):
            counts[names.index(str(shard.classes[number]))] += count
    return {"name": str(shard.name), **sizes, "classes": counts}


def raw_data(shards: Sequence[Any]) -> int | None:
    """Return what sending all clients' data once would take, bytes; None where their data are made only when used."""
    if made_when_used(shards):
        return None
    key = hashlib.blake2b(f"1:raw_data:{digest_of(shards)}".encode(), digest_size=16).hexdigest()
    return int(remembered(entry(key), lambda: {"bytes": raw_data_bytes(shards)})["bytes"])


def entry(key: str) -> Path:
    """Return the file of the user's cache under a fingerprint of all that its content follows from.

    It lies in $XDG_CACHE_HOME/fedgraft/baselines (~/.cache by default). All of it may be deleted at any time. What
    cannot be read, or is damaged, is computed anew; where nothing can be kept, so is each.
    """
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "fedgraft" / "baselines" / f"{key}.json"


def remembered(path: Path, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what was computed once, here or by an earlier process, and is kept in a file.

    Args:
        path: the file; its name is the fingerprint.
        compute: what returns the entry, a JSON object.
    """
    with suppress(OSError, ValueError, RecursionError):
        if isinstance(entry := json.loads(path.read_text()), dict):
            return entry
    entry = compute()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.new")
        temporary.write_text(json.dumps(entry))
        temporary.replace(path)
    return entry
