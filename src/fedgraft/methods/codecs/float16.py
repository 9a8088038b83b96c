"""Float16: half the bytes, eleven bits of precision."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from fedgraft import wire
from fedgraft.contracts import RowCodec
from fedgraft.errors import ClientError, WireError
from fedgraft.wire.buffers import bytes_of_rows, rows_of_bytes
from fedgraft.wire.layouts import Array, Arrays, Layout

_LARGEST: Final = 65504.0  # of IEEE 754 binary16


@dataclass(frozen=True)
class Float16(RowCodec[None]):
    """Send float32 as IEEE half precision, rounded to nearest.

    Source: IEEE 754-2008 binary16.
    Differs: magnitudes above 65504 become 65504 instead of infinity, so that one large value does not cost the message.

    State: none.
    Needs: nothing.
    Cost: 2 bytes per float32. Error: |x - decoded| <= max(2**-11 |x|, 2**-25) for |x| <= 65504, |x| - 65504 beyond.
    NaN and infinity raise `ClientError`.
    """

    def init(self, layout: Layout) -> None:
        """Return no state."""

    def encoded(self, layout: Layout) -> Layout:
        """Return the layout with float16 in place of float32."""
        return Layout(tuple(replace(s, dtype="float16") if s.dtype == "float32" else s for s in layout))

    def encode(self, arrays: Arrays, state: None, g: np.random.Generator) -> tuple[Arrays, None]:
        """Halves of float32 arrays, other arrays as they are."""
        return {name: _half(name, a) if a.dtype == np.float32 else a for name, a in arrays.items()}, None

    def decode(self, arrays: Arrays, layout: Layout) -> Arrays:
        """Float32 again where the layout says so."""
        wire.check(arrays, self.encoded(layout))
        return {s.name: _single(s.name, arrays[s.name]) if s.dtype == "float32" else arrays[s.name] for s in layout}

    def row_bytes(self, width: int) -> int:
        """Return 2 for each value."""
        return 2 * width

    def encode_rows(self, rows: Array, g: np.random.Generator) -> Array:
        """The bytes of halves."""
        return bytes_of_rows(_half("rows", rows))

    def decode_rows(self, coded: Array, width: int) -> Array:
        """The values. Raises `WireError` for rows of another length, and for halves that are not finite."""
        return _single("rows", rows_of_bytes(coded, "float16", width))


def _half(name: str, array: Array) -> Array:
    largest = _largest(array)
    if not np.isfinite(largest):
        raise ClientError(f"Array {name!r} holds NaN or infinity.")
    return _cast(array if largest <= _LARGEST else array.clip(-_LARGEST, _LARGEST), torch.float16)


def _single(name: str, array: Array) -> Array:
    single = _cast(array, torch.float32)
    if not np.isfinite(_largest(single)):
        raise WireError(f"Array {name!r} holds NaN or infinity.")
    return single


def _cast(array: Array, dtype: torch.dtype) -> Array:
    """Return the same as `array.astype`, which has no vector instructions for halves and takes ten times as long."""
    source = np.ascontiguousarray(array)
    if not source.flags.writeable:  # torch warns of those
        source = source.copy()
    return torch.from_numpy(source).to(dtype).numpy().reshape(array.shape)


def _largest(array: Array) -> float:
    """The largest magnitude; NaN if there is any."""
    return float(max(array.max(initial=0), -array.min(initial=0)))
