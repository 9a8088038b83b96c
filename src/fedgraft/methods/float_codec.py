"""What codecs of float32 arrays share: all of a message as one vector, and dimensions that only the sender knows.

Codecs act on the float32 arrays of a layout, in order of their names, so that both ends agree whatever order a dict or
a layout has. Dimensions that are `VARIABLE` in the layout a codec is given travel as one more array: `variable_axes`
says at both ends which they are, `dims_of` collects them and `shapes_of` puts them back.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft import wire
from fedgraft.contracts import Codec
from fedgraft.errors import WireError
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec
from fedgraft.wire.messages import check_decoded

EXPANSION: Final = 1024
"""Most values that a receiver makes of one value in a message where only the sender knows how many there are.

Ours: what a sparse or factored message stands for can be far larger than the message. A layout without `VARIABLE`
dimensions bounds it; where there are any, senders send more values than they would need to and receivers insist.
"""

Floats = NDArray[np.float32]


class VaryingState(TypedDict):
    """`variable`: int64 [k, 2], (coded array, axis) of every dimension that the receiver cannot know."""

    variable: Array


class FloatCodec(Codec[VaryingState]):
    """A codec of float32 arrays, which travel as two arrays and, where only the sender knows any, their dimensions.

    Arrays of other types, and of fewer than `min_dims` dimensions, travel as they are.
    """

    names: ClassVar[tuple[str, str, str]]
    """Of the two arrays and of the dimensions, uint32 [k]; all get a "+" where another array has one of them."""

    @property
    def min_dims(self) -> float:
        """Dimensions from which on arrays are coded."""
        return 0

    @abstractmethod
    def code(self, arrays: Sequence[Array], variable: Array, g: np.random.Generator) -> tuple[Array, Array]:
        """Return what stands for these float32 arrays of any shapes; `variable` is that of the state."""

    @abstractmethod
    def restored(self, specs: Sequence[Spec], shapes: Sequence[tuple[int, ...]], one: Array, two: Array) -> Arrays:
        """Return the arrays of these specs and shapes; raises `WireError` for what `code` cannot have made."""

    def init(self, layout: Layout) -> VaryingState:
        """Return where the layout varies."""
        return {"variable": variable_axes(self.coded(layout))}

    def coded(self, layout: Layout) -> list[Spec]:
        """Return the arrays that are coded, in order of their names."""
        return float32_specs(layout, self.min_dims)

    def laid_out(self, layout: Layout, largest: Layout, *forms: tuple[str, int]) -> Layout:
        """Return what `encode` makes: two arrays of these types and lengths; others as large as in `largest`."""
        coded = self.coded(layout)
        if not coded:
            return largest
        names, variable = {spec.name for spec in coded}, len(variable_axes(coded))
        others = [spec for spec in largest if spec.name not in names]
        forms = (*forms, ("uint32", variable)) if variable else forms
        free = free_names((spec.name for spec in others), *self.names)
        made = (Spec(name, dtype, (length,)) for name, (dtype, length) in zip(free, forms, strict=False))
        return Layout((*others, *made))

    def encode(self, arrays: Arrays, state: VaryingState, g: np.random.Generator) -> tuple[Arrays, VaryingState]:
        """The two arrays, and dimensions that vary, in place of those that are coded."""
        coded, variable = float32_arrays(arrays, self.min_dims), state["variable"]
        if not coded:
            return dict(arrays), state
        others = {name: array for name, array in arrays.items() if name not in coded}
        dense = list(coded.values())
        made = (*self.code(dense, variable, g), *([dims_of(dense, variable)] if len(variable) else []))
        return others | dict(zip(free_names(others, *self.names), made, strict=False)), state

    def decode(self, arrays: Arrays, layout: Layout) -> Arrays:
        """The arrays that stand for those that were coded."""
        wire.check(arrays, self.encoded(layout))
        specs = self.coded(layout)
        coded = {spec.name for spec in specs}
        decoded = {spec.name: arrays[spec.name] for spec in layout if spec.name not in coded}
        if specs:
            one, two, dims = free_names(decoded, *self.names)
            decoded |= self.restored(specs, shapes_of(specs, arrays.get(dims)), arrays[one], arrays[two])
        return {spec.name: decoded[spec.name] for spec in layout}


def float32_specs(layout: Iterable[Spec], min_dims: float = 0) -> list[Spec]:
    """The layout's float32 arrays of at least so many dimensions, in order of their names."""
    chosen = (spec for spec in layout if spec.dtype == "float32" and len(spec.shape) >= min_dims)
    return sorted(chosen, key=lambda spec: spec.name)


def float32_arrays(arrays: Arrays, min_dims: float = 0) -> Arrays:
    """The float32 arrays of at least so many dimensions, in order of their names."""
    return {name: a for name, a in sorted(arrays.items()) if a.dtype == np.float32 and a.ndim >= min_dims}


def free_names(taken: Iterable[str], *wanted: str) -> tuple[str, ...]:
    """The wanted names, all followed by as many "+" as it takes for none of them to be taken."""
    names = set(taken)
    mark = ""
    while names & {name + mark for name in wanted}:
        mark += "+"
    return tuple(name + mark for name in wanted)


def variable_axes(specs: Sequence[Spec]) -> Array:
    """Int64 [k, 2]: (array, axis) of every dimension that is `VARIABLE`, arrays counted as in `specs`."""
    places = [(i, axis) for i, spec in enumerate(specs) for axis, dim in enumerate(spec.shape) if dim == VARIABLE]
    return np.array(places, np.int64).reshape(-1, 2)


def dims_of(arrays: Sequence[Array], variable: Array) -> NDArray[np.uint32]:
    """Uint32 [k]: the dimensions at `variable_axes`."""
    return np.array([arrays[array].shape[axis] for array, axis in variable], np.uint32)


def shapes_of(specs: Sequence[Spec], dims: Array | None) -> list[tuple[int, ...]]:
    """Concrete shapes: `dims`, uint32 [k], as `dims_of` made them, in place of each `VARIABLE`; None if there is none.

    Raises `WireError` for arrays beyond what a message may stand for (`fedgraft.wire.messages`).
    """
    known = iter([] if dims is None else dims.tolist())
    shapes = [tuple(next(known) if dim == VARIABLE else dim for dim in spec.shape) for spec in specs]
    check_decoded(4 * sum(map(math.prod, shapes)))
    return shapes


def flatten(arrays: Sequence[Array], length: int) -> Floats:
    """All values in row-major order, then zeros: float32 [length]; of one array it may be a view."""
    if len(arrays) == 1 and arrays[0].size == length and arrays[0].flags.c_contiguous:
        return arrays[0].reshape(-1)
    flat = np.zeros(length, np.float32)
    start = 0
    for array in arrays:
        flat[start : start + array.size].reshape(array.shape)[...] = array
        start += array.size
    return flat


def split(flat: Floats, specs: Sequence[Spec], shapes: Sequence[tuple[int, ...]]) -> Arrays:
    """Views of `flat`, float32 [n], as the arrays that it was made from. Raises `WireError` for impossible shapes."""
    arrays: Arrays = {}
    start = 0
    for spec, shape in zip(specs, shapes, strict=True):
        size = math.prod(shape)
        arrays[spec.name] = reshaped(flat[start : start + size], shape)
        start += size
    return arrays


def reshaped(flat: Floats, shape: tuple[int, ...]) -> Floats:
    """The values [n] in this shape. Raises `WireError` for one that NumPy refuses, such as 2**60 rows of no columns."""
    try:
        return flat.reshape(shape)
    except ValueError as error:
        raise WireError(f"No array has the shape {shape}.") from error


def largest_magnitude(array: Array) -> float:
    """The largest magnitude in an array of any shape, 0 of nothing; NaN if there is any."""
    return float(max(array.max(initial=0), -array.min(initial=0)))
