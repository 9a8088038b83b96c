"""Sparse: the entries that matter most, and where they are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from fedgraft.contracts.ranges import Proportion
from fedgraft.errors import ClientError, WireError, require
from fedgraft.methods import float_codec
from fedgraft.methods.float_codec import EXPANSION, FloatCodec, Floats
from fedgraft.wire import packing
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec
from fedgraft.wire.packing import Bytes

_HIGHEST: Final = 1e38  # of thresholds, within what float32 holds

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Sparse(FloatCodec):
    """Send the largest entries by magnitude and their places; the receiver takes zero for the others.

    All float32 arrays are laid end to end, in order of their names, and compete with each other: k of n entries travel.

    Source: Aji, Heafield, "Sparse Communication for Distributed Gradient Descent", EMNLP 2017 (top share of the whole
        model by magnitude). Places are coded as in Elias, "Efficient Storage and Retrieval by Content and Address of
        Static Files", Journal of the ACM 1974, and Fano 1971: within half a bit each of what any code needs.
    Differs: what is not sent is forgotten; `feedback` around this codec keeps it for the next message, as they do.

    Args:
        share: of the entries, in [0, 1]; that many, rounded, but at least one. 0.01 (default) is the authors' 99 %
            dropped. 0 leaves it to `threshold`.
        threshold: keep the entries of a larger magnitude, >= 0; 0 (default) leaves it to `share`. Just one is not 0.

    State:
        variable: int64 [k, 2], (array, axis) of each float32 dimension that is `VARIABLE`; empty for fixed layouts.
    Needs: nothing.
    Cost: 4 k bytes ("values" float32) and, for their places ("places" uint8), the fewer of ceil(n / 8), a bit for each
        entry, and ceil(k l / 8) + ceil((k + floor((n - 1) / 2**l)) / 8) with l = floor(log2(n / k)), which is at most
        2 + log2(n / k) bits per entry kept; none if all or no entries are. With a threshold, 8 for the numbers of both.
        4 bytes for each variable dimension ("dims" uint32), and for each size that then varies too.
        Where a dimension varies, k is at least n / 1024: a few bytes never stand for a huge array.
        Error: none in what is kept, the entry itself elsewhere; no other k entries leave a smaller sum of squares.
        Of equal magnitudes, those in front are kept. NaN and infinity raise `ClientError`.
    """

    names: ClassVar[tuple[str, str, str]] = ("values", "places", "dims")

    share: Proportion = 0.01
    threshold: Annotated[float, Interval(ge=0, le=_HIGHEST)] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threshold:
            require(not self.share, "Sparse.share", f"0 beside threshold = {self.threshold}", self.share)
        else:
            require(self.share > 0, "Sparse.share", "> 0, or Sparse.threshold", self.share)

    def encoded(self, layout: Layout) -> Layout:
        """Other arrays, then the values kept, their places, and dimensions that vary."""
        specs = self.coded(layout)
        if self.threshold or len(float_codec.variable_axes(specs)):
            return self._laid_out(layout, layout, VARIABLE, VARIABLE)
        entries = sum(math.prod(spec.shape) for spec in specs)
        kept = self._kept(entries)
        return self._laid_out(layout, layout, kept, _place_bytes(entries, kept))

    def bounds(self, layout: Layout, largest: Layout) -> Layout:
        """Return the same as much as the largest arrays take: all entries where a threshold decides."""
        specs = self.coded(layout)
        entries = sum(math.prod(spec.shape) for spec in self.coded(largest))
        if self.threshold:
            return self._laid_out(layout, largest, entries, -(-entries // 8))
        if not len(float_codec.variable_axes(specs)):
            return self.encoded(largest)
        kept = self._kept(entries, varies=True)
        # Fewer entries may need more bytes, by rounding; this bound on the bits grows with the entries.
        bits = kept * (2 + math.log2(entries / kept)) if kept else 0.0
        return self._laid_out(layout, largest, kept, min(-(-entries // 8), math.ceil(bits / 8) + 2))

    def code(self, arrays: Sequence[Array], variable: Array, g: np.random.Generator) -> tuple[Array, Array]:
        """Values and places in place of the float32 arrays."""
        varies = len(variable) > 0
        flat = float_codec.flatten(arrays, sum(array.size for array in arrays))
        magnitudes = np.abs(flat)
        if not np.isfinite(magnitudes.max(initial=0)):
            raise ClientError("Values to make sparse hold NaN or infinity.")
        if self.threshold:
            places = np.flatnonzero(magnitudes > np.float32(self.threshold))
            if varies and places.size < _least(flat.size):
                places = _largest(magnitudes, _least(flat.size))
        else:
            places = _largest(magnitudes, self._kept(flat.size, varies))
        return flat[places], _packed(places, flat.size)

    def restored(self, specs: Sequence[Spec], shapes: Sequence[tuple[int, ...]], one: Array, two: Array) -> Arrays:
        """The values at their places, and zeros."""
        values, packed = one, two
        entries = sum(math.prod(shape) for shape in shapes)
        varies = len(float_codec.variable_axes(specs)) > 0
        fits = (_least(entries) if varies else 0) <= values.size <= entries
        if self.share:
            fits = fits and values.size == self._kept(entries, varies)
        if not fits or packed.size != _place_bytes(entries, values.size):
            raise WireError(f"{values.size} values and {packed.size} bytes of places are not those of shapes {shapes}.")
        if not np.isfinite(float_codec.largest_magnitude(values)):
            raise WireError("Sparse values hold NaN or infinity.")
        places = _unpacked(packed, entries, values.size)
        flat = np.zeros(entries, np.float32)
        flat[places] = values
        return float_codec.split(flat, specs, shapes)

    def _laid_out(self, layout: Layout, largest: Layout, kept: int, place_bytes: int) -> Layout:
        return self.laid_out(layout, largest, ("float32", kept), ("uint8", place_bytes))

    def _kept(self, entries: int, varies: bool = False) -> int:
        """Return how many entries the share stands for."""
        kept = max(round(self.share * entries), min(entries, 1))
        return max(kept, _least(entries)) if varies else kept


def _largest(magnitudes: Floats, kept: int) -> Places:
    """Places of the largest, ascending; of equal ones at the end, those in front."""
    if not kept or kept == magnitudes.size:
        return np.arange(kept)
    smallest = np.partition(magnitudes, magnitudes.size - kept)[magnitudes.size - kept]
    chosen = magnitudes > smallest
    chosen[np.flatnonzero(magnitudes == smallest)[: kept - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def _least(entries: int) -> int:
    """The fewest that are sent where a dimension varies."""
    return -(-entries // EXPANSION)


def _low_bits(entries: int, kept: int) -> int:
    """Bits of a place that are stored as they are: floor(log2(entries / kept))."""
    return (entries // kept).bit_length() - 1


def _place_bytes(entries: int, kept: int) -> int:
    """Bytes of all places together."""
    if not kept or kept == entries:
        return 0
    low = _low_bits(entries, kept)
    coded = packing.packed_bytes(kept, low) + packing.packed_bytes(kept + (entries - 1 >> low), 1)
    return min(coded, packing.packed_bytes(entries, 1))


def _packed(places: Places, entries: int) -> Bytes:
    """Ascending places as a bit for each entry, or as Elias-Fano codes: their low bits, and their high parts in unary.

    In unary: bit i + high part of the i-th place is set, so that the gaps count the high parts up.
    """
    size = _place_bytes(entries, places.size)
    if not size:
        return np.zeros(0, np.uint8)
    if size == packing.packed_bytes(entries, 1):
        return _bitmap(places, entries)
    bits = _low_bits(entries, places.size)
    low = np.zeros(-(-places.size // 8) * 8, packing.code_type(bits))
    low[: places.size] = places & (1 << bits) - 1
    high = (places >> bits) + np.arange(places.size)
    unary = _bitmap(high, places.size + (entries - 1 >> bits))
    return np.concatenate([packing.pack(low, places.size, bits), unary])


def _unpacked(packed: Bytes, entries: int, kept: int) -> Places:
    """The places that `_packed` was given, or `WireError`; `packed` is of the right length."""
    if not packed.size:
        return np.arange(kept)
    if packed.size == packing.packed_bytes(entries, 1):
        places = _set_bits(packed, entries)
    else:
        bits = _low_bits(entries, kept)
        split = packing.packed_bytes(kept, bits)
        low = packing.unpack(packed[:split], kept, bits)
        high = _set_bits(packed[split:], kept + (entries - 1 >> bits))
        if high.size != kept:
            raise WireError(f"{high.size} places for {kept} values.")
        places = (high - np.arange(kept) << bits) + low
    if places.size != kept or places[-1] >= entries or (np.diff(places) <= 0).any():
        raise WireError(f"The places are not {kept} ascending ones below {entries}.")
    return places


def _bitmap(places: Places, length: int) -> Bytes:
    bits = np.zeros(length, np.uint8)
    bits[places] = 1
    return np.packbits(bits, bitorder="little")


def _set_bits(packed: Bytes, length: int) -> Places:
    bits = np.unpackbits(packed, bitorder="little")
    places: Places = np.flatnonzero(bits)
    if places.size and places[-1] >= length:
        raise WireError("Bits are set behind the last place.")
    return places
