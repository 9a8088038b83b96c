"""Messages as bytes, by `encode` and `decode`: versioned, compact, no pickle. Import these names from `wire`.

A message, every number little-endian:

    magic 2s | version u8 | form u8 = 1 | kind u8 | scalars u8 | detail u16 | round u32 | layout digest 8s
    | scalars float32 each | buffers

Its header has a fixed width, so that its length does not depend on its values. Both ends know names, types and shapes:
the digest of the layout stands for them, and zero means that no arrays follow. A `VARIABLE` dimension travels as a u32
in front of its array's buffer. The payload of kind "error" is a UTF-8 text instead.

Any byte string decodes or raises `WireError`: sizes are compared with the bytes that are there before anything is
allocated, and nothing is built that takes more memory than the declared limit.

A codec asks `check_decoded` before it makes room for what a sender announces: `at_most` sets the limit.
"""

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np

from fedgraft.errors import WireError
from fedgraft.wire import buffers
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec

_MOST: ContextVar[tuple[int, str] | None] = ContextVar("most bytes that a message stands for", default=None)


@contextmanager
def at_most(size: int, parameter: str) -> Iterator[None]:
    """Limit the bytes that arrays of a message decoded here take once decoded; errors call the limit `parameter`."""
    before = _MOST.set((size, parameter))
    try:
        yield
    finally:
        _MOST.reset(before)


def check_decoded(size: int) -> None:
    """Raise `WireError` for arrays of so many bytes where the limit is lower; outside of `at_most` there is none."""
    most = _MOST.get()
    if most is not None and size > most[0]:
        raise WireError(f"what it says takes {size} bytes once decoded, {most[1]} = {most[0]}")


TEXT_BYTES: Final = 256
"""Most bytes of an error's text; longer ones are cut."""
KINDS: Final[dict[str, int]] = {}
"""{kind of message: its number on the wire}, as `declare` was told: of the protocol's table."""
DETAILS: Final[dict[str, str]] = {}
"""{kind: what the sixteen bits beside a message's kind say}; they are 0 in messages of other kinds."""

_HEAD: Final = struct.Struct("<2sBBBBHI8s")
_DIM: Final = struct.Struct("<I")
_KIND_NAMES: Final[dict[int, str]] = {}
_NO_ARRAYS: Final = bytes(8)


@dataclass(frozen=True, eq=False)
class Message:
    """A request or a reply.

    Args:
        kind: one of `KINDS`.
        round: the round it belongs to, 0 before the first; below 2**32.
        report: few scalars; they travel as float32, and their names do not travel.
        arrays: the model, the update or whatever the layout describes; None for none.
        progress: of a "train", "alone" or "trial", and where local steps are scored of an "evaluate" or "measure": how
            much of the run is over, in steps of `plan.PROGRESS_STEPS`.
        segment: of "rows": how often the client's round was taken up before; of "keys", "shares", "confirm" and
            "unmask": which sum of the round, 0 = of updates, or before the first round of statistics, 1 = of scores,
            then those of smoothing; of "hop", where rows are added up: how many sums of these there were before.
        layer: of a "relay": the layer whose states are asked for.
        text: a code of what went wrong, in messages of kind "error" only; cut after `TEXT_BYTES`.
    """

    kind: str
    round: int = 0
    report: Mapping[str, float] = field(default_factory=dict)
    arrays: Arrays | None = None
    progress: int = 0
    segment: int = 0
    layer: int = 0
    text: str = ""


def declare(kind: str, number: int, detail: str = "") -> None:
    """Give a kind of message its number on the wire, and say what the bits beside it are for; numbers are never reused.

    Raises `ValueError` for a number of another kind, or a kind of another number.
    """
    if not 0 <= number < 256 or _KIND_NAMES.get(number, kind) != kind or KINDS.get(kind, number) != number:
        raise ValueError(f"Kind {kind!r} cannot have the number {number}: {_KIND_NAMES.get(number, 'it')} has another.")
    KINDS[kind], _KIND_NAMES[number] = number, kind
    if detail:
        DETAILS[kind] = detail


def encode(message: Message, layout: Layout | None = None, names: tuple[str, ...] = ()) -> bytes:
    """The bytes of a message.

    Args:
        message: what to send.
        layout: of the arrays, if the message has any.
        names: of the scalars in `message.report`, in the order in which they travel; an error has none.

    Raises:
        ValueError: for a message that does not fit its layout or names.
    """
    if message.kind not in KINDS:
        raise ValueError(f"A message's kind must be one of {', '.join(KINDS)}; got {message.kind!r}.")
    detail = _detail(message)
    if not 0 <= message.round < 2**32:
        raise ValueError(f"round must fit into 32 bits; got {message.round}.")
    if not 0 <= detail < 2**16:
        raise ValueError(f"{DETAILS[message.kind]} must fit into 16 bits; got {detail}.")
    parts: list[bytes | memoryview] = []
    digest = _NO_ARRAYS
    if message.kind == "error":
        if message.report or message.arrays is not None:
            raise ValueError("A message of kind 'error' holds a text and nothing else.")
        names = ()
        text = message.text.encode("utf-8", "replace")[:TEXT_BYTES]
        parts.append(text.decode("utf-8", "ignore").encode())  # drops half a character at the cut
    elif message.text:
        raise ValueError(f"Only messages of kind 'error' hold a text; got {message.kind!r}.")
    if message.report.keys() != set(names) or len(names) > 255:
        raise ValueError(f"report must hold {sorted(names)}; got {sorted(message.report)}.")
    if message.arrays is not None:
        if layout is None:
            raise ValueError("A message with arrays needs their layout.")
        if problem := _misfit(message.arrays, layout):
            raise ValueError(f"The message does not fit its layout: {problem}")
        digest = layout.digest
        for spec in layout:
            array = message.arrays[spec.name]
            if spec.variable:
                parts.append(b"".join(_DIM.pack(array.shape[axis]) for axis in spec.variable))
            parts.append(buffers.buffer(array))
    scalars = _scalars([message.report[name] for name in names])
    start = buffers.MAGIC, buffers.VERSION, buffers.MESSAGE_FORM
    head = _HEAD.pack(*start, KINDS[message.kind], len(names), detail, message.round, digest)
    return b"".join([head, scalars, *parts])


def decode(
    blob: bytes | memoryview,
    layout: Layout | Mapping[str, Layout | None] | None = None,
    names: tuple[str, ...] | Mapping[str, tuple[str, ...]] = (),
    limit: int = buffers.DEFAULT_LIMIT,
) -> Message:
    """The message of some bytes. Its arrays are read-only views of `blob` (copies where a buffer is not aligned).

    Args:
        blob: any bytes.
        layout: of the arrays if the message may hold any, or {kind: layout} where that depends on its kind.
        names: of the scalars in the report, or {kind: names}.
        limit: most bytes of `blob`; nothing but a few hundred bytes is allocated beside it.

    Raises:
        WireError: for everything that `encode` cannot have made with this layout and these names.
    """
    view = buffers.view_within(blob, limit)
    number, scalars, detail, round, digest = _read_head(view)
    kind = _KIND_NAMES[number]
    if detail and kind not in DETAILS:
        raise WireError(f"A message of kind {kind!r} has no use for the number {detail}.")
    if isinstance(layout, Mapping):
        layout = layout.get(kind)
    if isinstance(names, Mapping):
        names = names.get(kind, ())
    offset = _HEAD.size + 4 * scalars
    if kind == "error":
        return Message(kind, round, text=_read_text(view, scalars, digest))
    if scalars != len(names):
        raise WireError(f"The report must hold {len(names)} scalars; got {scalars}.")
    report = dict(zip(names, struct.unpack_from(f"<{scalars}f", view, _HEAD.size), strict=True))
    arrays: Arrays | None = None
    if digest != _NO_ARRAYS:
        if layout is None or digest != layout.digest:
            expected = "none are expected" if layout is None else f"those of {layout.digest.hex()} are expected"
            raise WireError(f"The message holds arrays of layout {digest.hex()}, but {expected}.")
        arrays = {}
        for spec in layout:
            arrays[spec.name], offset = _read_array(view, offset, spec)
    if offset != view.nbytes:
        raise WireError(f"{view.nbytes - offset} bytes too many at the end.")
    named = {DETAILS[kind]: detail} if kind in DETAILS else {}
    return Message(kind, round, report, arrays, **named)  # type: ignore[arg-type]


def kind_of(blob: bytes | memoryview) -> str:
    """The kind of a message. Raises `WireError` for what cannot be one."""
    return _KIND_NAMES[_read_head(memoryview(blob).cast("B"))[0]]


def place_of(blob: bytes | memoryview) -> tuple[str, int, int]:
    """Return a request's kind, its round, and which segment or layer it is about; 0 where it is about none.

    Raises `WireError` for what cannot be a message.
    """
    view = memoryview(blob).cast("B")
    number, _, detail, round, _ = _read_head(view)
    kind = _KIND_NAMES[number]
    return kind, round, 0 if DETAILS.get(kind) == "progress" else detail


def header_bytes(blob: bytes | memoryview) -> int:
    """Return how many of a message's bytes are header; the rest is payload: arrays, or an error's text."""
    return _HEAD.size + 4 * _read_head(memoryview(blob).cast("B"))[1]


def message_bytes(layout: Layout | None = None, names: tuple[str, ...] = (), bounds: Layout | None = None) -> int:
    """The exact length of a message's encoding, or its upper bound where the layout has `VARIABLE` dimensions.

    `layout` is of its arrays, None for a message without any; `names` are of the scalars in its report. `bounds` is the
    same layout with the largest possible number in place of each `VARIABLE`.
    """
    size = _HEAD.size + 4 * len(names)
    for spec, bound in zip(layout or (), bounds or layout or (), strict=True):
        if VARIABLE in bound.shape:
            raise ValueError(f"Array {spec.name!r} has dimensions that vary: {spec.shape}; bounds must give a largest.")
        size += math.prod(bound.shape) * np.dtype(spec.dtype).itemsize + _DIM.size * len(spec.variable)
    return size


def arrays_bytes(arrays: Mapping[str, Array], layout: Layout) -> int:
    """Return how many bytes of a message some of its arrays take; `layout` is that of the message or of those."""
    return sum(arrays[spec.name].nbytes + _DIM.size * len(spec.variable) for spec in layout if spec.name in arrays)


def check(arrays: Mapping[str, Array], layout: Layout) -> None:
    """Raise `WireError` unless the arrays are those of the layout, `VARIABLE` standing for any number."""
    if problem := _misfit(arrays, layout):
        raise WireError(problem)


def _detail(message: Message) -> int:
    """The number beside the kind. Raises `ValueError` for one that the kind has no use for."""
    known = {name: getattr(message, name) for name in ("progress", "segment", "layer")}
    detail: int = known.pop(DETAILS.get(message.kind, ""), 0)
    if any(known.values()):
        raise ValueError(f"A message of kind {message.kind!r} has no {', no '.join(k for k, v in known.items() if v)}.")
    return detail


def _scalars(values: Sequence[float]) -> bytes:
    try:
        return struct.pack(f"<{len(values)}f", *values)
    except OverflowError:  # a diverged client's 1e300 arrives as inf, and is refused for that
        with np.errstate(over="ignore"):
            return np.array(values, np.float64).astype("<f4").tobytes()


def _read_head(view: memoryview) -> tuple[int, int, int, int, bytes]:
    if view.nbytes < _HEAD.size:
        raise WireError(f"A message needs at least {_HEAD.size} bytes; got {view.nbytes}.")
    magic, version, form, number, scalars, detail, round, digest = _HEAD.unpack_from(view)
    buffers.check_start(magic, version, form, buffers.MESSAGE_FORM)
    if number not in _KIND_NAMES:
        raise WireError(f"No kind of message has the number {number}.")
    if view.nbytes < _HEAD.size + 4 * scalars:
        raise WireError(f"The message ends within its report of {scalars} scalars.")
    return number, scalars, detail, round, digest


def _read_text(view: memoryview, scalars: int, digest: bytes) -> str:
    if scalars or digest != _NO_ARRAYS or view.nbytes > _HEAD.size + TEXT_BYTES:
        raise WireError(f"A message of kind 'error' holds a text of at most {TEXT_BYTES} bytes and nothing else.")
    try:
        return str(view[_HEAD.size :], "utf-8")
    except UnicodeDecodeError as error:
        raise WireError("The text of an error is not UTF-8.") from error


def _read_array(view: memoryview, offset: int, spec: Spec) -> tuple[Array, int]:
    shape = spec.shape
    for axis in spec.variable:
        if view.nbytes - offset < _DIM.size:
            raise WireError(f"The message ends before array {spec.name!r}.")
        shape = (*shape[:axis], _DIM.unpack_from(view, offset)[0], *shape[axis + 1 :])
        offset += _DIM.size
    array = buffers.array_at(view, offset, spec.dtype, shape)
    if not array.flags.aligned:
        array = array.copy()
    array.flags.writeable = False
    return array, offset + array.nbytes


def _misfit(arrays: Mapping[str, Array], layout: Layout) -> str | None:
    """Return what is wrong with the arrays; None for nothing."""
    if arrays.keys() != layout.names:
        return f"arrays {sorted(arrays)} where {sorted(spec.name for spec in layout)} are expected."
    for spec in layout:
        array = arrays[spec.name]
        fits = array.shape == spec.shape or (
            len(array.shape) == len(spec.shape)
            and all(expected in (VARIABLE, dim) for dim, expected in zip(array.shape, spec.shape, strict=True))
        )
        if _dtype_name(array.dtype) != spec.dtype or not fits or spec.dtype not in buffers.DTYPES:
            return f"array {spec.name!r} is {array.dtype.name} {array.shape}; expected {spec.dtype} {spec.shape}."
    return None


@lru_cache
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return dtype.name  # NumPy spells it out anew each time, which is most of a check
