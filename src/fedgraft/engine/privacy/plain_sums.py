"""Sums of statistics without noise, in steps of a fixed size."""

from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.abilities.summing import SumCoding, Words
from fedgraft.engine.privacy.private_sums import MOST_STEPS, flat, numbers_of, parts
from fedgraft.errors import ClientError
from fedgraft.wire.layouts import Array, Arrays, Layout

STEP: Final = 2.0**-8
"""What a whole number stands for; ours."""


class PlainSums(SumCoding):
    """Code float arrays of a layout for a sum in which one unit's part is no larger than 1."""

    signed: ClassVar[bool] = True

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    @property
    def codes(self) -> int:
        """One for each number."""
        return numbers_of(self._layout)

    @property
    def scales(self) -> int:
        """None: the step is fixed."""
        return 0

    def sum_bits(self, total: int) -> int:
        """Enough for so many units, each of which may be rounded up."""
        return int(2 * total * (1 / STEP + 1)).bit_length()

    def first(self, size: float) -> Array:
        """None."""
        return np.zeros(0, np.float32)

    def coded(
        self, arrays: Arrays, scales: Array, g: np.random.Generator, weight: int = 1, secret: Words | None = None
    ) -> NDArray[np.int64]:
        """Round to the nearest step."""
        steps = flat(arrays, self._layout) / STEP
        if not (np.abs(steps) < MOST_STEPS).all():
            raise ClientError("statistics hold NaN, infinity, or numbers that are too large")
        return np.rint(steps).astype(np.int64)

    def mean(self, total: Array, weight: int, scales: Array) -> Arrays:
        """The sum over a weight."""
        return parts(total * (STEP / weight), self._layout)

    def following(self, total: Array, weight: int, scales: Array) -> Array:
        """None."""
        return np.zeros(0, np.float32)
