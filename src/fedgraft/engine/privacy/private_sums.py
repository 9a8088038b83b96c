"""Sums of statistics and updates, plain or with noise: codes of numbers in equal steps."""

import math
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.abilities.summing import SumCoding, Words
from fedgraft.engine.privacy.mechanism import Mechanism, mechanism_of
from fedgraft.engine.privacy.options import Privacy
from fedgraft.errors import ClientError, InputError
from fedgraft.secrets.discrete_gaussian import discrete_gaussian
from fedgraft.secrets.rounding import at_random, rounded
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout

MOST_STEPS: Final = 2.0**50
"""Of a client's number, such that doubles tell steps apart."""


class PrivateSums(SumCoding):
    """Code arrays for a sum with noise; what is coded is a sum over a client's units already.

    Args:
        mechanism: how much noise.
        layout: of the arrays, all float32 of fixed shapes.

    Raises `InputError` for a layout of which not all can be.
    """

    signed: ClassVar[bool] = True

    def __init__(self, mechanism: Mechanism, layout: Layout) -> None:
        others = [spec.name for spec in layout if spec.dtype != "float32" or VARIABLE in spec.shape]
        if others:
            raise InputError(f"noise cannot be added to {others[0]!r}: it is no float32 array of a fixed shape")
        self._mechanism, self._layout = mechanism, layout

    @property
    def codes(self) -> int:
        """One for each number."""
        return self._mechanism.dimension

    def sum_bits(self, total: int) -> int:
        """Enough that no sum wraps around."""
        return self._mechanism.bits(total)

    def coded(
        self, arrays: Arrays, scales: Array, g: np.random.Generator, weight: int = 1, secret: Words | None = None
    ) -> NDArray[np.int64]:
        """Round up or down at random with the number as mean, and add noise; both are drawn from `secret` alone.

        Of a client as a unit, what is coded is no longer than `privacy.clip`, and rounded until it stays so.
        """
        assert secret is not None, "whoever adds noise has a secret"
        mechanism, privacy = self._mechanism, self._mechanism.privacy
        numbers = flat(arrays, self._layout)
        if not (np.abs(numbers) < MOST_STEPS * mechanism.step).all():  # an error would say that they are, for nothing
            most = math.nextafter(MOST_STEPS * mechanism.step, 0)
            numbers = np.nan_to_num(numbers, nan=0.0).clip(-most, most)
        if privacy.of_examples:
            whole = at_random(numbers / mechanism.step, secret)
        else:
            whole = rounded(numbers, privacy.clip, mechanism.step, mechanism.failure, secret)
        return whole + discrete_gaussian(mechanism.variance, len(whole), secret)

    def mean(self, total: Array, weight: int, scales: Array) -> Arrays:
        """The sum over the number of units."""
        return parts(total * (self._mechanism.step / weight), self._layout)

    def noise(self, clients: int) -> float:
        """Return that of so many shares."""
        return float(np.sqrt(float(self._mechanism.variance) * clients)) * self._mechanism.step


def private_sums(privacy: Privacy, rounds: int, layout: Layout, reach: int = 0) -> PrivateSums:
    """Return how arrays of a layout are coded in each of so many rounds. Raises `InputError` where they cannot be.

    `reach` is as in `Mechanism`.
    """
    if not privacy.shares:
        raise InputError("privacy.shares must say of how many clients noise is enough where data are at sites; got 0.")
    return PrivateSums(mechanism_of(privacy, rounds, numbers_of(layout), reach), layout)


def flat(arrays: Arrays, layout: Layout) -> NDArray[np.float64]:
    """Return all numbers of arrays in the order of a layout, float64 [numbers]."""
    return np.concatenate([arrays[spec.name].ravel() for spec in layout]).astype(np.float64)


def parts(numbers: NDArray[np.float64], layout: Layout) -> Arrays:
    """Return the arrays that `flat` numbers are of, float32."""
    ends = np.cumsum([math.prod(spec.shape) for spec in layout])
    split = np.split(numbers.astype(np.float32), ends[:-1])
    return {spec.name: part.reshape(spec.shape) for spec, part in zip(layout, split, strict=True)}


def numbers_of(layout: Layout) -> int:
    """Return how many numbers a layout's arrays have, at least 1."""
    return max(1, sum(math.prod(spec.shape) for spec in layout if VARIABLE not in spec.shape))


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

    def sum_bits(self, total: int) -> int:
        """Enough for so many units, each of which may be rounded up."""
        return int(2 * total * (1 / STEP + 1)).bit_length()

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
