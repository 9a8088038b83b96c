"""Values that cross floors: arrays, their layout, and trees that the wire can carry."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[str, Array]
"""Named arrays, in a fixed order: what models, updates and messages are made of."""

Tree: TypeAlias = "bool | int | float | str | bytes | Array | list[Tree] | dict[str, Tree] | None"
"""Whatever the wire can carry: states, memories and checkpoints are trees."""

VARIABLE = -1
"""A dimension that only the sender knows; it travels beside the buffer as four bytes."""


@dataclass(frozen=True)
class Spec:
    """One array of a layout: its key, NumPy's name of its type, such as "float32", and its dimensions.

    A dimension is `VARIABLE` where only the sender knows it. Where a client sends the array, `tells` says what it tells
    of the client's data, by a word of `contracts.capabilities`; it is not part of what both ends must know.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    tells: str = field(default="", compare=False)

    @cached_property
    def variable(self) -> tuple[int, ...]:
        """Which of its dimensions only the sender knows."""
        return tuple(axis for axis, dim in enumerate(self.shape) if dim == VARIABLE)


@dataclass(frozen=True)
class Layout:
    """Names, types and shapes of the arrays of a message: what both ends know, so that it need not travel."""

    specs: tuple[Spec, ...]

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> "Layout":
        """The layout of concrete arrays."""
        return cls(tuple(Spec(name, array.dtype.name, array.shape) for name, array in arrays.items()))

    def varying(self, chosen: Callable[[str], bool]) -> "Layout":
        """Return the layout with `VARIABLE` first dimensions of some arrays, chosen by name."""
        return Layout(
            tuple(
                replace(spec, shape=(VARIABLE, *spec.shape[1:])) if spec.shape and chosen(spec.name) else spec
                for spec in self.specs
            )
        )

    @cached_property
    def digest(self) -> bytes:
        """Eight bytes that stand for the whole layout in a message's header."""
        text = ";".join(f"{s.name}:{s.dtype}:{','.join(map(str, s.shape))}" for s in self.specs)
        return hashlib.blake2b(text.encode(), digest_size=8).digest()

    @cached_property
    def names(self) -> frozenset[str]:
        """Frozenset of str, the names of its arrays."""
        return frozenset(spec.name for spec in self.specs)

    def __iter__(self) -> Iterator[Spec]:
        return iter(self.specs)


def joined(one: Layout, other: Layout) -> Layout:
    """Return the arrays of both, in order."""
    return Layout((*one.specs, *other.specs))


def merged(one: Mapping[str, Layout], other: Mapping[str, Layout]) -> dict[str, Layout]:
    """Return {kind: the arrays of both}."""
    none = Layout(())
    return {kind: joined(one.get(kind, none), other.get(kind, none)) for kind in {**one, **other}}


def part_of(arrays: Mapping[str, Array], layout: Layout) -> Arrays:
    """Return the arrays of a message that belong to one layout."""
    return {spec.name: arrays[spec.name] for spec in layout}


def finite(array: Array) -> bool:
    """Return whether all numbers of an array are finite."""
    if array.dtype.kind != "f":
        return True
    # The sum of squares is finite only if all are, and takes one pass and no memory; where it is not, it may be large.
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())


def digest(arrays: Mapping[str, Array]) -> str:
    """A hexadecimal fingerprint of names, types, shapes and every bit of the values."""
    state = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        state.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        state.update(array.data)
    return state.hexdigest()
