"""The contract of codecs: encode what is sent."""

from abc import ABC, abstractmethod
from typing import Generic

import numpy as np

from fedgraft.contracts.abilities.summing import SumCoding
from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.values import State
from fedgraft.wire.layouts import Array, Arrays, Layout


class Codec(Checked, ABC, Generic[State]):
    """Turn arrays into smaller arrays and back, so that codecs chain. Only float32 arrays are coded."""

    @abstractmethod
    def init(self, layout: Layout) -> State:
        """Make the state of one end before its first message, such as an error-feedback memory; None for none."""

    @abstractmethod
    def encoded(self, layout: Layout) -> Layout:
        """Return the layout of `encode`'s result; `VARIABLE` for dimensions that depend on the values."""

    def bounds(self, layout: Layout, largest: Layout) -> Layout:
        """Return `encoded(layout)` with the largest possible number in place of each `VARIABLE`, for byte budgets.

        `largest` is `layout` with the largest possible number in place of each of its own.
        """
        return self.encoded(largest)

    def sum_coding(self, layout: Layout) -> SumCoding | None:
        """Return how arrays of a layout, float32 of fixed shapes, are coded so that codes of clients can be added up.

        None (default) where they cannot. Raises `InputError` for a layout of which not all can be.
        """
        return None

    @abstractmethod
    def encode(self, arrays: Arrays, state: State, g: np.random.Generator) -> tuple[Arrays, State]:
        """Return the arrays to send and the sender's new state. Never mutates its inputs."""

    @abstractmethod
    def decode(self, arrays: Arrays, layout: Layout) -> Arrays:
        """Return arrays of `layout`, as the receiver sees them. Raises `WireError` for what `encode` cannot make."""


class RowCodec(Codec[State]):
    """Ability: code each row of a matrix by itself, in as many bytes, so that rows can be handed on one by one."""

    @abstractmethod
    def row_bytes(self, width: int) -> int:
        """Return how many bytes stand for a row of so many values."""

    @abstractmethod
    def encode_rows(self, rows: Array, g: np.random.Generator) -> Array:
        """Return what stands for each row of float32 [rows, width]: uint8 [rows, `row_bytes`]."""

    @abstractmethod
    def decode_rows(self, coded: Array, width: int) -> Array:
        """Return float32 [rows, width] of uint8 [rows, bytes]. Raises `WireError` for what no row is coded as."""
