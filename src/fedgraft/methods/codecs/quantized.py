"""Quantized: few bits a value, really packed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
import torch
from annotated_types import Interval

from fedgraft.contracts import RowCodec
from fedgraft.contracts.abilities.summing import SumCoding
from fedgraft.contracts.ranges import OneOf
from fedgraft.errors import ClientError, WireError, require
from fedgraft.methods import float_codec
from fedgraft.methods.agreed_scales import AgreedScales
from fedgraft.methods.float_codec import FloatCodec, Floats, VaryingState
from fedgraft.wire import packing
from fedgraft.wire.buffers import bytes_of_rows, rows_of_bytes
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec
from fedgraft.wire.packing import Codes

AGREED: Final = "agreed"
_NONE: Final = 32  # bits of a float32: values as they are
_LARGEST: Final = 2.0**126  # beyond it a decoded value could round to infinity
_SMALLEST: Final = 2.0**-100  # below it levels / scale could be infinite
_LONGEST: Final = 2**16  # values of a bucket
_CHUNK: Final = 2**16  # values at a time, so that temporaries stay in a core's own cache


@dataclass(frozen=True)
class Quantized(FloatCodec, RowCodec[VaryingState]):
    """Send each float32 as one of 2**bits - 1 levels, equally spaced between minus and plus its bucket's scale.

    All float32 arrays are laid end to end, in order of their names, and cut into buckets; a value x of a bucket of
    scale c is sent as round(x / c * levels) with levels = 2**(bits - 1) - 1.

    Source: CEFGL (Communication-Efficient Personalized Federal Graph Learning via Low-Rank Decomposition) section 4.3,
        Eq. (10) and (11), after QSGD (Alistarh et al., NeurIPS 2017): `scale="l2", bucket=0` is their form.
    Differs: `bits` counts the sign (the paper's r does not), and its 2**r steps are 2**(bits - 1) - 1 here, so that
        minus, zero and plus fit into the bits. The paper calls its rounding random and prints "to the nearest integer":
        `rounding` has both. Buckets scaled by their largest magnitude are the default: scaled by the norm of a whole
        tensor, nearly every entry of a large tensor rounds to zero at 4 bits. One bit (not in the paper) sends signs:
        times the mean magnitude if rounded to nearest, and randomly as +c or -c with mean x if rounded stochastically.

    Args:
        bits: per value, sign included, in 1..16; 4 is the paper's (section 4.3). 32 (the paper's Figure 4 compares with
            it) sends the values as they are, whatever the other options: quantising is switched off.
        scale: "max", the bucket's largest magnitude, or "l2", its Euclidean norm (the paper's); no choice at one bit
            rounded to nearest. "agreed": where updates are added up before anybody decodes them (`secure_sum`), a scale
            that all clients have in common (`methods.agreed_scales`); in all other messages "max".
        bucket: values per bucket, in [1, 65536]; 0 makes each array one bucket (the paper's). The default costs 1/8
            bit per value.
        rounding: "nearest" (the paper's) or "stochastic" (QSGD's), up or down with the value as its mean.

    State:
        variable: int64 [k, 2], (array, axis) of each float32 dimension that is `VARIABLE`; empty for fixed layouts and
            at 32 bits.
    Needs: nothing.
    Cost: ceil(n bits / 8) + 4 ceil(n / bucket) bytes for n values ("packed" uint8, "scales" float32), with one scale
        per array if `bucket` is 0; at 32 bits, 4 n bytes. 4 bytes for each variable dimension ("dims" uint32), and for
        each size that then varies too.
        Rows coded each by itself have ceil(width / bucket) buckets of one length, a multiple of 8, with zeros at the
        end: 4 + length bits / 8 bytes a bucket. At one bit these zeros count in the mean magnitude.
        Error: |x - decoded| <= c / (2 levels) rounded to nearest and c / levels rounded stochastically; at one bit the
        bucket's largest magnitude, and 2 c. Plus rounding of float32: 2**-21 c + 2**-100. At 32 bits none.
        NaN, infinity and magnitudes above 2**126 raise `ClientError`; at 32 bits every value passes.
    """

    names: ClassVar[tuple[str, str, str]] = ("scales", "packed", "dims")

    bits: int = 4
    scale: Annotated[str, OneOf(("max", "l2", AGREED))] = "max"
    bucket: Annotated[int, Interval(ge=0, le=_LONGEST)] = 256
    rounding: Literal["nearest", "stochastic"] = "nearest"

    def __post_init__(self) -> None:
        super().__post_init__()
        bits_fit = isinstance(self.bits, int) and (1 <= self.bits <= 16 or self.bits == _NONE)
        require(bits_fit, "Quantized.bits", "an integer in 1..16, or 32 for none", self.bits)
        adds = self.scale != AGREED or (self.bits < _NONE and self.bucket > 0)
        require(adds, "Quantized.scale", "'max' at 32 bits, and with bucket = 0", self.scale)
        signs_only = self.bits == 1 and self.rounding == "nearest"
        require(self.scale != "l2" or not signs_only, "Quantized.scale", "'max' for one bit to nearest", self.scale)

    @property
    def levels(self) -> float:
        """Steps between zero and the scale; at one bit, minus and plus the scale are one step apart."""
        return 2.0 ** (self.bits - 1) - 1 if self.bits > 1 else 0.5

    @property
    def min_dims(self) -> float:
        """Beyond all dimensions where values are sent as they are."""
        return math.inf if self.bits == _NONE else 0

    def encoded(self, layout: Layout) -> Layout:
        """Other arrays, then the scales, the packed values, and dimensions that vary."""
        specs = self.coded(layout)
        sizes = [math.prod(spec.shape) for spec in specs]
        scales, packed = self._buckets(sizes), packing.packed_bytes(sum(sizes), self.bits)
        if len(float_codec.variable_axes(specs)):
            scales, packed = VARIABLE if self.bucket else len(sizes), VARIABLE
        return self.laid_out(layout, layout, ("float32", scales), ("uint8", packed))

    def bounds(self, layout: Layout, largest: Layout) -> Layout:
        """Return the same as many scales and packed bytes as the largest arrays take."""
        sizes = [math.prod(spec.shape) for spec in self.coded(largest)]
        packed = packing.packed_bytes(sum(sizes), self.bits)
        return self.laid_out(layout, largest, ("float32", self._buckets(sizes)), ("uint8", packed))

    def code(self, arrays: Sequence[Array], variable: Array, g: np.random.Generator) -> tuple[Array, Array]:
        """One scale per bucket and `bits` bits per value, in place of the float32 arrays."""
        sizes = [array.size for array in arrays]
        flat = float_codec.flatten(arrays, self._padded(sizes))
        scales = np.empty(self._buckets(sizes), np.float32)
        codes: Codes = np.zeros(-(-flat.size // 8) * 8, packing.code_type(self.bits))
        for values, buckets in self._chunks(sizes):
            rows = flat[values].reshape(buckets.stop - buckets.start, -1)
            used = min(values.stop, sum(sizes)) - values.start
            places = np.abs(rows)
            scales[buckets] = self._scales(rows, places, used)
            codes[values] = self._codes(rows, scales[buckets], g, places).ravel()
        codes[sum(sizes) :] = 0
        return scales, packing.pack(codes[: -(-sum(sizes) // 8) * 8], sum(sizes), self.bits)

    def restored(self, specs: Sequence[Spec], shapes: Sequence[tuple[int, ...]], one: Array, two: Array) -> Arrays:
        """Values of the levels that were sent, from scales and packed codes."""
        scales, packed = one, two
        sizes = [math.prod(shape) for shape in shapes]
        if (scales.size, packed.size) != (self._buckets(sizes), packing.packed_bytes(sum(sizes), self.bits)):
            raise WireError(f"{packed.size} bytes and {scales.size} scales are not those of shapes {shapes}.")
        if not ((scales >= 0) & (scales <= _LARGEST)).all():
            raise WireError("A scale is negative, too large or not a number.")
        codes = packing.unpack(packed, sum(sizes), self.bits)
        if codes.max(initial=0) > 2 * self.levels:
            raise WireError("A packed value is beyond its scale.")
        flat = np.empty(self._padded(sizes), np.float32)
        flat[codes.size :] = 0
        steps: Floats = np.divide(scales, np.float32(self.levels))
        for values, buckets in self._chunks(sizes):
            flat[values.start : min(values.stop, codes.size)] = codes[values]
            rows = flat[values].reshape(buckets.stop - buckets.start, -1)
            rows -= np.float32(self.levels)
            _times(rows, steps[buckets], rows)
        return float_codec.split(flat, specs, shapes)

    def sum_coding(self, layout: Layout) -> SumCoding | None:
        """Return that of agreed scales, where these are asked for."""
        stochastic = self.rounding == "stochastic"
        return AgreedScales(layout, self.bits, self.bucket, stochastic) if self.scale == AGREED else None

    def row_bytes(self, width: int) -> int:
        """Return 4 for each bucket's scale, and the bytes of the codes."""
        buckets, length = self._row_buckets(width)
        return 4 * width if self.bits == _NONE else buckets * (4 + length * self.bits // 8)

    def encode_rows(self, rows: Array, g: np.random.Generator) -> Array:
        """The scales of a row's buckets, then its codes; above eight bits the low bytes of all of these come first."""
        count, width = rows.shape
        if self.bits == _NONE:
            return bytes_of_rows(rows)
        if not rows.size:
            return np.zeros((count, self.row_bytes(width)), np.uint8)
        buckets, length = self._row_buckets(width)
        padded = np.zeros((count, buckets * length), np.float32)
        padded[:, :width] = rows
        scales, packed = replace(self, bucket=length).code([padded], float_codec.variable_axes(()), g)
        low, high = np.split(packed, [self._low_bytes(padded.size)])
        parts = (bytes_of_rows(scales.reshape(count, buckets)), low.reshape(count, -1), high.reshape(count, -1))
        return np.concatenate(parts, axis=1)

    def decode_rows(self, coded: Array, width: int) -> Array:
        """Values of the levels. Raises `WireError` for rows of another length, for scales and codes that are none."""
        if self.bits == _NONE:
            return rows_of_bytes(coded, "float32", width)
        coded, count = rows_of_bytes(coded, "uint8", self.row_bytes(width)), len(coded)
        if not coded.size:
            return np.zeros((count, width), np.float32)
        buckets, length = self._row_buckets(width)
        scales, codes = np.split(coded, [4 * buckets], axis=1)
        low, high = np.split(codes, [self._low_bytes(buckets * length)], axis=1)
        packed = np.concatenate([low.reshape(-1), high.reshape(-1)])
        spec, shape = Spec("rows", "float32", (count, buckets * length)), (count, buckets * length)
        whole = rows_of_bytes(scales, "float32", buckets).reshape(-1), packed
        restored = replace(self, bucket=length).restored([spec], [shape], *whole)["rows"]
        return np.ascontiguousarray(restored[:, :width])

    def _row_buckets(self, width: int) -> tuple[int, int]:
        """How many buckets a row of so many values has, and how many values each: whole bytes of codes."""
        buckets = -(-width // (self.bucket or _LONGEST))
        return buckets, -(-width // max(1, buckets * 8)) * 8

    def _low_bytes(self, values: int) -> int:
        """How many bytes come before those of the bits beyond eight, of so many codes."""
        return packing.packed_bytes(values, min(self.bits, 8))

    def _buckets(self, sizes: list[int]) -> int:
        return -(-sum(sizes) // self.bucket) if self.bucket else len(sizes)

    def _padded(self, sizes: list[int]) -> int:
        return self._buckets(sizes) * self.bucket if self.bucket else sum(sizes)

    def _chunks(self, sizes: list[int]) -> Iterator[tuple[slice, slice]]:
        """Ranges of values and of the buckets that they fill: many buckets at a time, or one array at a time."""
        if self.bucket:
            buckets, together = self._buckets(sizes), max(1, _CHUNK // self.bucket)
            for first in range(0, buckets, together):
                last = min(first + together, buckets)
                yield slice(first * self.bucket, last * self.bucket), slice(first, last)
        else:
            ends = np.cumsum(sizes).tolist()
            for place, (size, end) in enumerate(zip(sizes, ends, strict=True)):
                yield slice(end - size, end), slice(place, place + 1)

    def _scales(self, rows: Floats, magnitudes: Floats, used: int) -> Floats:
        """The scale of each row, of which only the first `used` values together are not padding."""
        largest = magnitudes.max(1, initial=0)
        if not (largest <= _LARGEST).all():
            raise ClientError("Values to quantise hold NaN, infinity or magnitudes above 2**126.")
        if self.scale == "l2":
            scales = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        elif self.bits == 1 and self.rounding == "nearest":
            counts = np.full(len(rows), max(rows.shape[1], 1))
            counts[-1] -= rows.size - used
            scales = magnitudes.sum(1, dtype=np.float64) / counts
        else:
            scales = largest
        if not (scales <= _LARGEST).all():
            raise ClientError("Values to quantise have a norm above 2**126.")
        return np.where(scales >= _SMALLEST, scales, 0).astype(np.float32)

    def _codes(self, rows: Floats, scales: Floats, g: np.random.Generator, out: Floats) -> Array:
        """Level of each value, counted from minus the scale; `out` is written to."""
        if self.bits == 1 and self.rounding == "nearest":
            return rows >= 0
        factors = np.divide(np.float32(self.levels), scales, out=np.zeros_like(scales), where=scales > 0)
        places = _times(rows, factors, out)
        if self.rounding == "stochastic":
            places += np.float32(self.levels)
            low = np.floor(places)
            places -= low
            low += g.random(low.shape, np.float32) < places
            return low.clip(0, 2 * self.levels)
        np.rint(places, out=places)
        places += np.float32(self.levels)
        return places


def _times(rows: Floats, factors: Floats, out: Floats) -> Floats:
    """Each row by its factor; torch takes a third of NumPy's time where a factor is used along a row."""
    if out is not rows:
        np.copyto(out, rows)
    torch.from_numpy(out).mul_(torch.from_numpy(factors)[:, None])
    return out
