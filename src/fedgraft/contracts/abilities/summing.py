"""The coding of codecs whose codes can be added up."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fedgraft.wire.layouts import Array, Arrays


class Words(Protocol):
    """Uniform numbers that nobody else can guess."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return uint64 [count], each independent of all before."""


class SumCoding(ABC):
    """Arrays of a layout as whole numbers, by scales that all clients have in common: sums of these can be decoded.

    Sums are made modulo 2**bits; where codes are `signed`, its upper half stands for negative numbers.
    """

    signed: ClassVar[bool] = False

    @property
    @abstractmethod
    def codes(self) -> int:
        """Int, how many there are."""

    @property
    def scales(self) -> int:
        """Int, how many there are; 0 where steps are fixed."""
        return 0

    def first(self, size: float) -> Array:
        """Return the scales of the first sum, float32 [scales], for values of about this size."""
        return np.zeros(0, np.float32)

    @abstractmethod
    def sum_bits(self, total: int) -> int:
        """Return how many bits a sum takes whose weights are `total` in all, >= 1."""

    @abstractmethod
    def coded(
        self, arrays: Arrays, scales: Array, g: np.random.Generator, weight: int = 1, secret: Words | None = None
    ) -> NDArray[np.integer[Any]]:
        """Return what a client of some weight adds, integers [codes].

        `secret` is what noise is drawn from, None where there is none. Raises `ClientError` for a value that is not
        finite.
        """

    @abstractmethod
    def mean(self, total: Array, weight: int, scales: Array) -> Arrays:
        """Return the weighted mean of clients' arrays, from the sum of what they added, int64 [codes].

        `weight` is the sum of weights, >= 1. Raises `WireError` for what no sum of codes is.
        """

    def noise(self, clients: int) -> float:
        """Return the deviation of the noise on each number of a sum over so many clients, >= 0."""
        return 0.0

    def following(self, total: Array, weight: int, scales: Array) -> Array:
        """Return the scales of the next sum, float32 [scales], from this one; arguments as of `mean`."""
        return scales
