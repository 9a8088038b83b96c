"""The ability of codecs whose codes can be added up, and the coding that they then do."""

from abc import ABC, abstractmethod

import numpy as np

from fedgraft.contracts.codec import Codec
from fedgraft.contracts.values import State
from fedgraft.wire.layouts import Array, Arrays, Layout
from fedgraft.wire.packing import Codes


class SumCoding(ABC):
    """Arrays of a layout as whole numbers, by scales that all clients have in common: sums of these can be decoded.

    A client of weight w, a whole number, sends w times its codes.
    """

    @property
    @abstractmethod
    def bits(self) -> int:
        """Int in [1, 16]: codes are below 2**bits."""

    @property
    @abstractmethod
    def codes(self) -> int:
        """Int, how many there are."""

    @property
    @abstractmethod
    def scales(self) -> int:
        """Int, how many there are."""

    @abstractmethod
    def first(self, size: float) -> Array:
        """Return the scales of the first sum, float32 [scales], for values of about this size."""

    @abstractmethod
    def coded(self, arrays: Arrays, scales: Array, g: np.random.Generator) -> Codes:
        """Return arrays as codes, uint32 [codes]. Raises `ClientError` for a value that is not finite."""

    @abstractmethod
    def mean(self, total: Array, weight: int, scales: Array) -> Arrays:
        """Return the weighted mean of clients' arrays, from the sum of their codes times weights, uint64 [codes].

        `weight` is the sum of weights, >= 1. Raises `WireError` for what no sum of codes is.
        """

    @abstractmethod
    def following(self, total: Array, weight: int, scales: Array) -> Array:
        """Return the scales of the next sum, float32 [scales], from this one; arguments as of `mean`."""


class SummableCodec(Codec[State]):
    """Ability: code arrays so that codes of several clients can be added up before anybody decodes them."""

    @abstractmethod
    def sum_coding(self, layout: Layout) -> SumCoding | None:
        """Return how arrays of a layout, all of them float32 and of fixed shapes, are coded; None with these options.

        Raises `InputError` for a layout of which not all can be.
        """
