"""Quantized: few bits a value, really packed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft import wire
from fedgraft.contracts import Codec
from fedgraft.errors import ClientError, WireError, require, require_one_of
from fedgraft.types import VARIABLE, Array, Arrays, Layout, Spec

_LARGEST: Final = 2.0**126  # beyond it a decoded value could round to infinity
_SMALLEST: Final = 2.0**-100  # below it levels / scale could be infinite
_CHUNK: Final = 2**15  # values at a time, so that temporaries stay in a core's own cache
_WORDS: Final = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}  # types as wide as eight codes of so many bits

Floats = NDArray[np.float32]
Codes = NDArray[np.unsignedinteger[Any]]


class QuantizedState(TypedDict):
    """`variable`: int64 [k, 2], (array, axis) of every dimension that the receiver cannot know."""

    variable: Array


@dataclass(frozen=True)
class Quantized(Codec[QuantizedState]):
    """Send each float32 as one of 2**bits - 1 levels, equally spaced between minus and plus its bucket's scale.

    All float32 arrays are laid end to end, in order of their names, and cut into buckets; a value x of a bucket of
    scale c is sent as round(x / c * levels) with levels = 2**(bits - 1) - 1.

    Source: CEFGL (Communication-Efficient Personalized Federal Graph Learning via Low-Rank Decomposition) section 4.3,
        Eq. (10) and (11), after QSGD (Alistarh et al., NeurIPS 2017): `scale="l2", bucket=0` is their form.
    Differs: `bits` counts the sign (the paper's r does not). Buckets scaled by their largest magnitude are the default:
        scaled by the norm of a whole tensor, nearly every entry of a large tensor rounds to zero at 4 bits. One bit
        (not in the paper) sends signs: times the mean magnitude if rounded to nearest, and randomly as +c or -c with
        mean x if rounded stochastically.

    Args:
        bits: per value, sign included, in [1, 16]; 4 is the paper's (section 4.3).
        scale: "max", the bucket's largest magnitude, or "l2", its Euclidean norm (the paper's); no choice at one bit
            rounded to nearest.
        bucket: values per bucket, in [1, 65536]; 0 makes each array one bucket (the paper's). The default costs 1/8
            bit per value.
        rounding: "nearest" (the paper's) or "stochastic" (QSGD's), up or down with the value as its mean.

    State:
        variable: int64 [k, 2], (array, axis) of each float32 dimension that is `VARIABLE`; empty for fixed layouts.
    Needs: nothing.
    Cost: ceil(n bits / 8) + 4 ceil(n / bucket) bytes for n values ("packed" uint8, "scales" float32), with one scale
        per array if `bucket` is 0; 4 bytes for each variable dimension ("dims" uint32).
        Error: |x - decoded| <= c / (2 levels) rounded to nearest and c / levels rounded stochastically; at one bit the
        bucket's largest magnitude, and 2 c. Plus rounding of float32: 2**-21 c + 2**-100.
        NaN, infinity and magnitudes above 2**126 raise `ClientError`.
    """

    bits: int = 4
    scale: str = "max"
    bucket: int = 256
    rounding: str = "nearest"

    def __post_init__(self) -> None:
        bits_fit = isinstance(self.bits, int) and 1 <= self.bits <= 16
        require(bits_fit, "Quantized.bits", "an integer in [1, 16]", self.bits)
        require_one_of("Quantized.scale", self.scale, ("max", "l2"))
        bucket_fits = isinstance(self.bucket, int) and 0 <= self.bucket <= 65536
        require(bucket_fits, "Quantized.bucket", "an integer in [0, 65536]", self.bucket)
        require_one_of("Quantized.rounding", self.rounding, ("nearest", "stochastic"))
        signs_only = self.bits == 1 and self.rounding == "nearest"
        require(self.scale == "max" or not signs_only, "Quantized.scale", "'max' for one bit to nearest", self.scale)

    @property
    def levels(self) -> float:
        """Steps between zero and the scale; at one bit, minus and plus the scale are one step apart."""
        return 2.0 ** (self.bits - 1) - 1 if self.bits > 1 else 0.5

    def init(self, layout: Layout) -> QuantizedState:
        """Where the layout varies."""
        return {"variable": np.array(_variable(layout), np.int64).reshape(-1, 2)}

    def encoded(self, layout: Layout) -> Layout:
        """Other arrays, then the scales, the packed values, and dimensions that vary."""
        quantized = _float32(layout)
        others = tuple(spec for spec in layout if spec.dtype != "float32")
        if not quantized:
            return layout
        variable = _variable(layout)
        scales_name, packed_name, dims_name = _names({spec.name for spec in others})
        sizes = [math.prod(spec.shape) for spec in quantized]
        scales = packed = VARIABLE
        if not variable:
            scales, packed = self._buckets(sizes), _bytes(sum(sizes), self.bits)
        elif not self.bucket:
            scales = len(sizes)
        specs = (*others, Spec(scales_name, "float32", (scales,)), Spec(packed_name, "uint8", (packed,)))
        return Layout((*specs, Spec(dims_name, "uint32", (len(variable),))) if variable else specs)

    def encode(self, arrays: Arrays, state: QuantizedState, g: np.random.Generator) -> tuple[Arrays, QuantizedState]:
        """One scale per bucket and `bits` bits per value, in place of the float32 arrays."""
        quantized = [arrays[name] for name in sorted(arrays) if arrays[name].dtype == np.float32]
        encoded = {name: array for name, array in arrays.items() if array.dtype != np.float32}
        if not quantized:
            return encoded, state
        scales_name, packed_name, dims_name = _names(set(encoded))
        sizes = [array.size for array in quantized]
        flat = np.zeros(self._padded(sizes), np.float32)
        np.concatenate([array.ravel() for array in quantized], out=flat[: sum(sizes)])
        scales = np.empty(self._buckets(sizes), np.float32)
        codes: Codes = np.zeros(-(-flat.size // 8) * 8, np.uint8 if self.bits <= 8 else np.uint16)
        for values, buckets in self._chunks(sizes):
            rows = flat[values].reshape(buckets.stop - buckets.start, -1)
            used = min(values.stop, sum(sizes)) - values.start
            scales[buckets] = self._scales(rows, used)
            codes[values] = self._codes(rows, scales[buckets], g).ravel()
        codes[sum(sizes) :] = 0
        encoded[scales_name] = scales
        encoded[packed_name] = _pack(codes[: -(-sum(sizes) // 8) * 8], sum(sizes), self.bits)
        if len(state["variable"]):
            dims = [quantized[array].shape[axis] for array, axis in state["variable"]]
            encoded[dims_name] = np.array(dims, np.uint32)
        return encoded, state

    def decode(self, arrays: Arrays, layout: Layout) -> Arrays:
        """Values of the levels that were sent."""
        wire.check(arrays, self.encoded(layout))
        quantized = _float32(layout)
        decoded = {spec.name: arrays[spec.name] for spec in layout if spec.dtype != "float32"}
        if not quantized:
            return decoded
        scales_name, packed_name, dims_name = _names(set(decoded))
        scales, packed = arrays[scales_name], arrays[packed_name]
        shapes = [list(spec.shape) for spec in quantized]
        for place, (array, axis) in enumerate(_variable(layout)):
            shapes[array][axis] = int(arrays[dims_name][place])
        sizes = [math.prod(shape) for shape in shapes]
        if (scales.size, packed.size) != (self._buckets(sizes), _bytes(sum(sizes), self.bits)):
            raise WireError(f"{packed.size} bytes and {scales.size} scales are not those of shapes {shapes}.")
        if not ((scales >= 0) & (scales <= _LARGEST)).all():
            raise WireError("A scale is negative, too large or not a number.")
        codes = _unpack(packed, sum(sizes), self.bits)
        if codes.max(initial=0) > 2 * self.levels:
            raise WireError("A packed value is beyond its scale.")
        flat = np.empty(self._padded(sizes), np.float32)
        flat[codes.size :] = 0
        steps = scales / np.float32(self.levels)
        for values, buckets in self._chunks(sizes):
            flat[values.start : min(values.stop, codes.size)] = codes[values]
            rows = flat[values].reshape(buckets.stop - buckets.start, -1)
            rows -= np.float32(self.levels)
            rows *= steps[buckets, None]
        start = 0
        for spec, shape, size in zip(quantized, shapes, sizes, strict=True):
            decoded[spec.name] = _reshaped(flat[start : start + size], shape)
            start += size
        return {spec.name: decoded[spec.name] for spec in layout}

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

    def _scales(self, rows: Floats, used: int) -> Floats:
        """The scale of each row, of which only the first `used` values together are not padding."""
        largest = np.maximum(rows.max(1, initial=0), -rows.min(1, initial=0))
        if not (largest <= _LARGEST).all():
            raise ClientError("Values to quantise hold NaN, infinity or magnitudes above 2**126.")
        if self.scale == "l2":
            scales = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        elif self.bits == 1 and self.rounding == "nearest":
            counts = np.full(len(rows), max(rows.shape[1], 1))
            counts[-1] -= rows.size - used
            scales = np.abs(rows).sum(1, dtype=np.float64) / counts
        else:
            scales = largest
        if not (scales <= _LARGEST).all():
            raise ClientError("Values to quantise have a norm above 2**126.")
        return np.where(scales >= _SMALLEST, scales, 0).astype(np.float32)

    def _codes(self, rows: Floats, scales: Floats, g: np.random.Generator) -> Array:
        """Level of each value, counted from minus the scale."""
        factors = np.divide(np.float32(self.levels), scales, out=np.zeros_like(scales), where=scales > 0)
        if self.rounding == "stochastic":
            places = rows * factors[:, None]
            places += np.float32(self.levels)
            low = np.floor(places)
            places -= low
            low += g.random(low.shape, np.float32) < places
            return low.clip(0, 2 * self.levels)
        if self.bits == 1:
            return rows >= 0
        places = rows * factors[:, None]
        np.rint(places, out=places)
        places += np.float32(self.levels)
        return places


def _float32(layout: Layout) -> list[Spec]:
    return sorted((spec for spec in layout if spec.dtype == "float32"), key=lambda spec: spec.name)


def _variable(layout: Layout) -> list[tuple[int, int]]:
    quantized = _float32(layout)
    return [(i, axis) for i, spec in enumerate(quantized) for axis, dim in enumerate(spec.shape) if dim == VARIABLE]


def _names(taken: set[str]) -> tuple[str, str, str]:
    """Names of the scales, the packed values and the dimensions that no other array has."""
    mark = ""
    while taken & {"scales" + mark, "packed" + mark, "dims" + mark}:
        mark += "+"
    return "scales" + mark, "packed" + mark, "dims" + mark


def _bytes(values: int, bits: int) -> int:
    return -(-values * bits // 8)


def _reshaped(flat: Floats, shape: list[int]) -> Floats:
    try:
        return flat.reshape(shape)
    except ValueError as error:
        raise WireError(f"No array has the shape {tuple(shape)}.") from error


def _pack(codes: Codes, values: int, bits: int) -> NDArray[np.uint8]:
    """The lowest `bits` bits of each code, end to end; beyond eight, all low bytes come before the rest.

    Works on words of eight codes, a byte each: halves of ever wider lanes are pushed together.
    """
    if bits > 8:
        high = _pack((codes >> 8).astype(np.uint8), values, bits - 8)
        return np.concatenate([codes[:values].astype(np.uint8), high])
    words = codes.view("<u8")
    for width in (8, 16, 32):
        lane = _lanes(width, width)
        words = (words & lane) | ((words >> np.uint64(width)) & lane) << np.uint64(width * bits // 8)
    if bits in _WORDS:
        return words.astype(_WORDS[bits]).view(np.uint8)[: _bytes(values, bits)]
    return words.view(np.uint8).reshape(-1, 8)[:, :bits].reshape(-1)[: _bytes(values, bits)]


def _unpack(packed: NDArray[np.uint8], values: int, bits: int) -> Codes:
    """The codes that `_pack` was given."""
    if bits > 8:
        high = _unpack(packed[values:], values, bits - 8)
        return packed[:values] | high.astype(np.uint16) << np.uint16(8)
    groups = -(-values // 8)
    padded = np.zeros(groups * bits, np.uint8)
    padded[: packed.size] = packed
    if bits in _WORDS:
        words = padded.view(_WORDS[bits]).astype("<u8")
    else:
        words = np.zeros((groups, 8), np.uint8)
        words[:, :bits] = padded.reshape(-1, bits)
        words = words.reshape(-1).view("<u8")
    for width in (32, 16, 8):
        used = width * bits // 8
        lane = _lanes(width, used)
        words = (words & lane) | ((words >> np.uint64(used)) & lane) << np.uint64(width)
    return words.view(np.uint8)[:values]


def _lanes(width: int, used: int) -> np.uint64:
    """A mask of the lowest `used` bits of every other lane of `width` bits."""
    return np.uint64(sum(((1 << used) - 1) << start for start in range(0, 64, 2 * width)))
