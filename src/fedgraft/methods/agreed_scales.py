"""Codes by scales that all clients have in common, so that codes of several can be added up."""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.abilities.summing import SumCoding, Words
from fedgraft.errors import ClientError, InputError, WireError
from fedgraft.methods import float_codec
from fedgraft.methods.float_codec import Floats
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout
from fedgraft.wire.packing import Codes

SLACK: Final = 2.0
"""Scales are at least so many times the largest magnitude of the last mean."""
MOST_CLAMPED: Final = 0.02
"""Share of values beyond a scale from which on it doubles; below it halves, as far as `SLACK` lets it. Ours."""
_SMALLEST: Final = 2.0**-60
_LARGEST: Final = 2.0**60


class AgreedScales(SumCoding):
    """Code a value x of a bucket of scale c as round(x / c * levels) + levels, with levels = 2**(bits - 1) - 1.

    All arrays are laid end to end, in order of their names, and cut into buckets of equal length. Values beyond the
    scale are clamped, and behind all values there is one more code for each bucket: the share of its values that were,
    times 2 levels. So the server learns of all clients together how well a scale fits, and the next one follows.

    Source: fixed-point codes of a common scale as in Bonawitz et al., "Federated Learning with Autotuned
        Communication-Efficient Secure Aggregation" (Asilomar 2019).
    Differs: they rotate updates at random and tune one step width for a whole run; here there is a scale for each
        bucket, which doubles or halves from round to round.
    """

    def __init__(self, layout: Layout, bits: int, bucket: int, stochastic: bool) -> None:
        others = [spec.name for spec in layout if spec.dtype != "float32" or VARIABLE in spec.shape]
        if others:
            raise InputError(f"codes of {others[0]!r} cannot be added up: it is no float32 array of a fixed shape")
        self._bits, self._bucket, self._stochastic = bits, bucket, stochastic
        self._layout, self._specs = layout, float_codec.float32_specs(layout)
        self._shapes = [spec.shape for spec in self._specs]
        self._values = sum(math.prod(shape) for shape in self._shapes)
        self._buckets = -(-self._values // bucket)
        last = self._values - bucket * (self._buckets - 1)
        self._lengths = np.array([bucket] * (self._buckets - 1) + [last] * (self._buckets > 0), np.float64)

    @property
    def codes(self) -> int:
        """One for each value, and one for each bucket."""
        return self._values + self._buckets

    @property
    def scales(self) -> int:
        """One for each bucket."""
        return self._buckets

    @property
    def _levels(self) -> float:
        """Steps between zero and the scale; at one bit, minus and plus the scale are one step apart."""
        return 2.0 ** (self._bits - 1) - 1 if self._bits > 1 else 0.5

    def sum_bits(self, total: int) -> int:
        """Those of the largest code, `total` times."""
        return int((2**self._bits - 1) * total).bit_length()

    def first(self, size: float) -> Array:
        """The same scale for all."""
        return np.full(self._buckets, size, np.float32)

    def coded(
        self, arrays: Arrays, scales: Array, g: np.random.Generator, weight: int = 1, secret: Words | None = None
    ) -> Codes:
        """Round to the nearest code, or up or down at random with the value as mean; clamp what is beyond.

        A client of weight w adds codes of w times its values by w times the scales, which are rounded once. Multiples
        of a code would be multiples of w, by which a sum of few clients tells the codes of each.
        """
        flat = np.zeros(self._buckets * self._bucket, np.float32)
        flat[: self._values] = float_codec.flatten([arrays[spec.name] for spec in self._specs], self._values)
        if not np.isfinite(flat).all():
            raise ClientError("Values to add up hold NaN or infinity.")
        places = flat.reshape(self._buckets, self._bucket)
        places *= np.float32(self._levels) / np.maximum(scales, np.float32(_SMALLEST))[:, None]
        beyond = (np.abs(places) > self._levels).sum(1) / self._lengths
        places = (np.clip(places, -self._levels, self._levels) + np.float32(self._levels)) * np.float32(weight)
        most = 2 * self._levels * weight
        values = self._rounded(places.reshape(-1)[: self._values], most, g)
        shares = self._rounded((beyond * most).astype(np.float32), most, g, always=True)
        return np.concatenate([values, shares])

    def _rounded(self, places: Floats, most: float, g: np.random.Generator, always: bool = False) -> NDArray[np.uint32]:
        """Whole numbers in [0, most]; `always` at random, as small shares would be lost."""
        if self._stochastic or always:
            low = np.floor(places)
            low += g.random(low.shape, np.float32) < places - low
        else:
            low = np.rint(places)
        return low.clip(0, most).astype(np.uint32)

    def mean(self, total: Array, weight: int, scales: Array) -> Arrays:
        """Values of the mean code, which need not be a whole number."""
        self._check(total, weight)
        places = np.zeros(self._buckets * self._bucket)
        places[: self._values] = total[: self._values] / weight - self._levels
        steps = scales.astype(np.float64) / self._levels
        flat = (places.reshape(self._buckets, self._bucket) * steps[:, None]).astype(np.float32).reshape(-1)
        made = float_codec.split(flat[: self._values], self._specs, self._shapes)
        return {spec.name: made[spec.name] for spec in self._layout}

    def following(self, total: Array, weight: int, scales: Array) -> Array:
        """Twice a scale that too many values are beyond; else half of it, or `SLACK` times the largest of the mean."""
        self._check(total, weight)
        places = np.zeros(self._buckets * self._bucket)
        places[: self._values] = np.abs(total[: self._values] / weight - self._levels) / self._levels
        largest = places.reshape(self._buckets, self._bucket).max(1, initial=0.0)
        clamped = total[self._values :] / (weight * 2 * self._levels)
        factors = np.maximum(SLACK * largest, np.where(clamped > MOST_CLAMPED, 2.0, 0.5))
        after: Array = np.clip(scales * factors, _SMALLEST, _LARGEST).astype(np.float32)
        return after

    def _check(self, total: Array, weight: int) -> None:
        if total.shape != (self.codes,) or (total > int(2 * self._levels) * weight).any():
            raise WireError(f"no sum of {self.codes} codes of {self._bits} bits with weights of {weight} in all")
