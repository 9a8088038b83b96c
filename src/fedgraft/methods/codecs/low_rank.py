"""LowRank: matrices as the product of two thin ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt
from fedgraft.errors import ClientError, WireError, require
from fedgraft.methods import float_codec
from fedgraft.methods.float_codec import EXPANSION, FloatCodec, Floats, VaryingState
from fedgraft.nn import flops
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec

_DENSE: Final = 2**16 - 1  # in place of a rank: the matrix itself
_FLOOR: Final = 2.0**-22  # of the largest singular value; below it a float32 matrix holds nothing but its own rounding
_LARGEST: Final = 2.0**100  # of a norm; products of factors, rounded by a codec behind this one, stay below infinity

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class LowRank(FloatCodec):
    """Send a matrix W = U diag(s) V^T as its leading factors U sqrt(s) and sqrt(s) V^T where they are smaller than W.

    Every float32 array of two or more dimensions is a matrix [m, n]: its first dimension and all others together.
    Arrays of fewer dimensions pass under their own names. Factors are balanced, so that a quantiser behind this codec
    finds values of one magnitude in both.

    Source: CEFGL (Communication-Efficient Personalized Federal Graph Learning via Low-Rank Decomposition), "LowRank" of
        its Eq. (9): truncated singular value decomposition.
    Differs: the paper does not say what travels. The decomposition is that of the smaller Gram matrix in double
        precision: faster than a full one, and singular values down to 2**-22 of the largest are told apart,
        which is what float32 holds.

    Args:
        threshold: keep singular values above this share of the matrix's largest, in [0, 1); 1e-4 is the paper's.
        relative: whether `threshold` is such a share, or a singular value itself, as the paper has it (section 4.2).
        rank: keep at most so many, >= 0; 0 (default) = no limit.

    State:
        variable: int64 [k, 2], (matrix, axis) of each matrix dimension that is `VARIABLE`; empty for fixed layouts.
    Needs: nothing.
    Cost: for each matrix 2 + 4 r (m + n) bytes at rank r if r (m + n) < m n, else 2 + 4 m n ("ranks" uint16, "factors"
        float32), and 4 for the number of factors; 4 bytes for each variable dimension ("dims" uint32); vectors and
        scalars their own size.
        Where a dimension varies, r is at least m n / (1024 (m + n)): a few bytes never stand for a huge matrix.
        Error: in the Frobenius norm, the root of the sum of squares of the singular values dropped (no matrix of this
        rank is closer: Eckart and Young), 0 if dense; plus rounding of float32, 2**-24 (r + 4) sqrt(r) |W|.
        NaN, infinity and matrices of a norm above 2**100 raise `ClientError`.
        A client's products are counted among its operations, eigenvectors are not.
    """

    names: ClassVar[tuple[str, str, str]] = ("ranks", "factors", "dims")
    min_dims: ClassVar[int] = 2

    threshold: NonNegativeFloat = 1e-4
    relative: bool = True
    rank: NonNegativeInt = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.threshold < 1 or not self.relative, "LowRank.threshold", "in [0, 1)", self.threshold)

    def encoded(self, layout: Layout) -> Layout:
        """Other arrays, then the ranks, all factors, and dimensions that vary."""
        return self._laid_out(layout, layout, VARIABLE)

    def bounds(self, layout: Layout, largest: Layout) -> Layout:
        """Return the factors of the largest matrices: of full rank, or of the fixed rank where it takes fewer."""
        factors = 0
        for spec, bound in zip(self.coded(layout), self.coded(largest), strict=True):
            rows, columns = _two(bound.shape)
            most = self.rank * (rows + columns) if self.rank and VARIABLE not in spec.shape else rows * columns
            factors += min(rows * columns, most)
        return self._laid_out(layout, largest, factors)

    def encode(self, arrays: Arrays, state: VaryingState, g: np.random.Generator) -> tuple[Arrays, VaryingState]:
        """Ranks and factors in place of the matrices."""
        for name, array in float_codec.float32_arrays(arrays).items():
            if not np.isfinite(float_codec.largest_magnitude(array)):
                raise ClientError(f"Array {name!r} holds NaN or infinity.")
        return super().encode(arrays, state, g)

    def code(self, arrays: Sequence[Array], variable: Array, g: np.random.Generator) -> tuple[Array, Array]:
        """Ranks and factors in place of the matrices."""
        varies = {int(array) for array in variable[:, 0]}
        ranks = np.empty(len(arrays), np.uint16)
        factors: list[Array] = []
        for place, array in enumerate(arrays):
            matrix = array.reshape(_two(array.shape))
            pair = self._factored(matrix, _least(*matrix.shape) if place in varies else 0)
            ranks[place] = _DENSE if pair is None else pair[0].shape[1]
            factors.extend([matrix] if pair is None else pair)
        return ranks, float_codec.flatten(factors, sum(factor.size for factor in factors))

    def decode(self, arrays: Arrays, layout: Layout) -> Arrays:
        """Return products of the factors."""
        decoded = super().decode(arrays, layout)
        for name, array in decoded.items():
            if array.dtype == np.float32 and not np.isfinite(float_codec.largest_magnitude(array)):
                raise WireError(f"Array {name!r} holds NaN or infinity.")
        return decoded

    def restored(self, specs: Sequence[Spec], shapes: Sequence[tuple[int, ...]], one: Array, two: Array) -> Arrays:
        """Every matrix, once all sizes are known to be those of the factors that are there."""
        ranks, factors, sizes = one.tolist(), two, []
        for spec, shape, rank in zip(specs, shapes, ranks, strict=True):
            rows, columns = _two(shape)
            least = _least(rows, columns) if VARIABLE in spec.shape else 0
            most = min(_most(rows, columns), max(self.rank, least) if self.rank else _DENSE)
            if rank != _DENSE and not least <= rank <= most:
                raise WireError(f"Matrix {spec.name!r} of shape {shape} is never sent at rank {rank}.")
            sizes.append(rows * columns if rank == _DENSE else rank * (rows + columns))
        if factors.size != sum(sizes):
            raise WireError(f"{factors.size} factors are not those of shapes {shapes} and ranks {ranks}.")
        values = np.require(factors, np.float32, ["C", "W"])  # torch warns of what cannot be written to
        parts = np.split(values, np.cumsum(sizes)[:-1])
        matrices: Arrays = {}
        for spec, shape, rank, part in zip(specs, shapes, ranks, parts, strict=True):
            if rank != _DENSE:
                rows, columns = _two(shape)
                left, right = part[: rank * rows].reshape(rows, rank), part[rank * rows :].reshape(rank, columns)
                flops.count(rank * rows * columns)
                part = (torch.from_numpy(left) @ torch.from_numpy(right)).numpy()
            matrices[spec.name] = float_codec.reshaped(part, shape)
        return matrices

    def _laid_out(self, layout: Layout, largest: Layout, factors: int) -> Layout:
        return self.laid_out(layout, largest, ("uint16", len(self.coded(layout))), ("float32", factors))

    def _factored(self, matrix: Floats, least: int) -> tuple[Array, Array] | None:
        """Factors [m, r] and [r, n], r at least `least`; None if they are no smaller than the matrix."""
        most = _most(*matrix.shape)
        if most < max(least, int(matrix.any())):
            return None
        if np.einsum("ij,ij->", matrix, matrix, dtype=np.float64) > _LARGEST**2:
            raise ClientError("A matrix to factor has a norm above 2**100.")
        wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
        left, values, right = _exact(wide)
        rank = max(self._kept(values), least)
        if rank > most:
            return None
        left, roots, right = left[:, :rank], np.sqrt(values[:rank]), right[:rank]
        # Of the two signs of a singular vector, the one that makes its largest entry positive.
        signs = np.copysign(1, np.take_along_axis(left, np.abs(left).argmax(0)[None], 0)[0])
        left = left * (signs * roots)
        right = right * np.divide(signs, roots, out=np.zeros(rank), where=roots > 0)[:, None]
        return (left, right) if wide is matrix else (right.T, left.T)

    def _kept(self, values: Doubles) -> int:
        """Return how many of the singular values, which descend."""
        least = self.threshold * values[0] if self.relative else self.threshold
        kept = int((values > max(least, _FLOOR * values[0])).sum())
        return min(kept, self.rank) if self.rank else kept


def _exact(matrix: Floats) -> tuple[Doubles, Doubles, Doubles]:
    """U [m, m], singular values [m] in descending order, and diag(s) V^T [m, n] of a matrix that is not tall."""
    tensor = torch.from_numpy(np.array(matrix, np.float64))
    flops.count(2 * len(matrix) * tensor.numel())
    squares, vectors = torch.linalg.eigh(tensor @ tensor.T)
    left = vectors.flip(1)
    return left.numpy(), squares.flip(0).clamp(min=0).sqrt().numpy(), (left.T @ tensor).numpy()


def _two(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns: the first dimension, and all others together."""
    return shape[0], math.prod(shape[1:])


def _most(rows: int, columns: int) -> int:
    """The largest rank at which factors are smaller than the matrix; -1 if it has no entries."""
    return min((rows * columns - 1) // (rows + columns), _DENSE - 1) if rows * columns else -1


def _least(rows: int, columns: int) -> int:
    """The smallest rank that is sent where a dimension varies: no value stands for more than `EXPANSION` others."""
    return -(-rows * columns // (EXPANSION * max(1, rows + columns)))
