"""Matrices and tables that do not learn, as what learns is multiplied by them: `Sparse` and `Stacked`."""

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.errors import require
from fedgraft.nn import flops
from fedgraft.wire.layouts import Array

SMALL = 1 << 15
"""Entries, zeros and all, up to which a matrix is multiplied faster with its zeros (measured, width 64)."""
MOST = 2**31 - 1
"""Entries that can be counted in four bytes, as pointers into them are."""


class Sparse:
    """A sparse matrix that stays as it is, for products with what learns.

    Its transpose is stored beside it once a gradient needs it; or, if it is small, it is stored with all its zeros,
    which is quicker.

    Args:
        rows: [entries], ascending; columns: [entries]; values: [entries].
        shape: (rows, columns).
        small: entries, zeros and all, up to which it is stored with its zeros.
    """

    def __init__(self, rows: Array, columns: Array, values: Array, shape: tuple[int, int], small: int = SMALL) -> None:
        if shape[0] * shape[1] <= small:
            dense = np.zeros(shape, np.float32)
            dense[rows, columns] = values
            self._begin(shape, torch.from_numpy(dense), None)
        else:
            self._begin(shape, None, _Listed.of(rows, columns, values, shape[0]))

    def _begin(
        self, shape: tuple[int, int], dense: Tensor | None, listed: "_Listed | None", device: str | torch.device = "cpu"
    ) -> None:
        self.shape, self._dense, self._listed, self._device = shape, dense, listed, device
        self._heads: dict[int, Sparse] = {}
        self._halves: dict[int, tuple[Sparse, Sparse]] = {}

    def to(self, device: str | torch.device) -> "Sparse":
        """Return the matrix on another device."""
        return self._made(self.shape, None if self._dense is None else self._dense.to(device), self._listed, device)

    def head(self, rows: int) -> "Sparse":
        """Its first so many rows; made once, since its transpose is costly."""
        if rows == self.shape[0]:
            return self
        if rows not in self._heads:
            dense, listed = self._dense, self._listed
            self._heads[rows] = self._made(
                (rows, self.shape[1]),
                None if dense is None else dense[:rows],
                None if listed is None else listed.first(rows),
                self._device,
            )
        return self._heads[rows]

    def scaled(self, rows: Tensor, columns: Tensor | None = None) -> "Sparse":
        """Return its rows multiplied by `rows` [rows], and its columns by `columns` [columns] if given."""
        if self._dense is not None:
            dense = self._dense * rows[:, None]
            return self._made(self.shape, dense if columns is None else dense * columns, None, self._device)
        listed = self._there
        values = listed.values * rows.numpy(force=True)[listed.rows]
        values = values if columns is None else values * columns.numpy(force=True)[listed.columns]
        return self._made(self.shape, None, replace(listed, values=values), self._device)

    def with_ones(self, place: Tensor) -> "Sparse":
        """One more at a place, int64 [rows], of every row."""
        if self._dense is not None:
            dense = self._dense.clone()
            dense[torch.arange(len(place), device=place.device), place] += 1.0
            return self._made(self.shape, dense, None, self._device)
        return self._made(self.shape, None, self._there.with_first(place.numpy(force=True)), self._device)

    def filled(self) -> "tuple[Tensor, Sparse] | None":
        """Int64 [filled], its rows that hold anything, and it without the others; None unless these are most."""
        if self._dense is not None:
            return None
        listed = self._there
        there = np.flatnonzero(listed.pointers[1:] > listed.pointers[:-1])
        if 2 * len(there) > self.shape[0]:
            return None
        left = replace(
            listed, pointers=np.concatenate([listed.pointers[:1], listed.pointers[1:][there]]), entry_rows=None
        )
        return torch.from_numpy(there).to(self._device), self._made(
            (len(there), self.shape[1]), None, left, self._device
        )

    def __matmul__(self, dense: "Float[Tensor, 'columns width'] | Stacked") -> Float[Tensor, "rows width"]:
        """Return the product with a dense matrix, float32 [rows, width]."""
        if isinstance(dense, Stacked):
            upper, lower = self._cut(len(dense.upper))
            if upper.entries < lower.entries:
                return upper.added(dense.upper, lower @ dense.lower)
            return lower.added(dense.lower, upper @ dense.upper)
        learns = torch.is_grad_enabled() and dense.requires_grad
        flops.count((1 + learns) * self.entries * dense.shape[1])
        if self._dense is not None:
            return self._dense @ dense
        if not learns:
            return self.matrix @ dense
        product: Tensor = _Product.apply(dense, self)  # type: ignore[no-untyped-call]
        return product

    def added(self, dense: Float[Tensor, "columns width"], total: Float[Tensor, "rows width"]) -> Tensor:
        """Add the product to `total`, [rows, width], which is changed and returned. Of nothing that learns."""
        few = self.filled()
        if few is None:
            return total.add_(self @ dense)
        rows, left = few
        return total.index_add_(0, rows, left @ dense) if len(rows) else total

    def back(self, gradient: Float[Tensor, "rows width"]) -> Float[Tensor, "columns width"]:
        """Return the gradient of what it was multiplied by, [columns, width], given that of the product."""
        flops.count(self.entries * gradient.shape[1])
        return self._dense.t() @ gradient if self._dense is not None else self.transposed @ gradient

    def back_into(self, there: Float[Tensor, "columns width"], gradient: Float[Tensor, "rows width"]) -> None:
        """Write what `back` returns into `there`, [columns, width]: weights of sparse features are most of a model."""
        flops.count(self.entries * gradient.shape[1])
        back = self._dense.t() if self._dense is not None else self.transposed.tensor
        torch.addmm(there, back, gradient.contiguous(), beta=0, out=there)  # which reads nothing of what is there

    def _cut(self, columns: int) -> "tuple[Sparse, Sparse]":
        """Its first so many columns and the others; made once."""
        if columns not in self._halves:
            shapes = (self.shape[0], columns), (self.shape[0], self.shape[1] - columns)
            upper, lower = (
                self._made(shape, None, listed, self._device)
                for shape, listed in zip(shapes, self._there.cut(columns), strict=True)
            )
            self._halves[columns] = upper, lower
        return self._halves[columns]

    @cached_property
    def dense(self) -> Tensor:
        """The matrix with all its zeros, float32 [rows, columns]; it is kept."""
        if self._dense is not None:
            return self._dense
        rows, columns, values = self.listed
        return torch.zeros(self.shape, device=values.device).index_put_((rows, columns), values)

    @property
    def listed(self) -> tuple[Tensor, Tensor, Tensor]:
        """Its entries but zeros, row by row: int64 [entries], their rows, and columns; float32 [entries], values."""
        if self._dense is not None:
            rows, columns = self._dense.nonzero(as_tuple=True)
            return rows, columns, self._dense[rows, columns]
        there = self._there
        listed = there.rows.astype(np.int64), there.columns.astype(np.int64), there.values
        rows, columns, values = (torch.from_numpy(each).to(self._device) for each in listed)
        return rows, columns, values

    @property
    def entries(self) -> int:
        """int, the number of stored entries; zeros count where the matrix is small."""
        return self._dense.numel() if self._dense is not None else len(self._there.values)

    @cached_property
    def matrix(self) -> "Csr":
        """Its entries where they are multiplied, unless it is small."""
        return self._there.csr(self.shape[1], self._device)

    @cached_property
    def transposed(self) -> "Csr":
        """Its transpose, unless it is small."""
        listed, (height, width) = self._there, self.shape
        # Sorting numbers of 16 bits takes linear time.
        order = np.argsort(listed.columns.astype(np.uint16) if width <= 1 << 16 else listed.columns, kind="stable")
        back = _Listed.of(listed.columns[order], listed.rows[order], listed.values[order], width)
        return back.csr(height, self._device)

    @property
    def _there(self) -> "_Listed":
        assert self._listed is not None, "it is small, and stored with its zeros"
        return self._listed

    @classmethod
    def _made(
        cls, shape: tuple[int, int], dense: Tensor | None, listed: "_Listed | None", device: str | torch.device
    ) -> "Sparse":
        made = object.__new__(cls)
        made._begin(shape, dense, listed, device)
        return made


@dataclass(frozen=True, eq=False)
class _Listed:
    """The entries of a matrix, row by row: NumPy takes a fraction of torch's time for a few hundred numbers.

    `pointers`, int32 [rows + 1], say where each row begins; `columns` are int32 [entries], `values` float32 [entries],
    and `entry_rows` [entries], each entry's row, if that is known.
    """

    pointers: Array
    columns: Array
    values: Array
    entry_rows: Array | None = None

    @classmethod
    def of(cls, rows: Array, columns: Array, values: Array, height: int) -> "_Listed":
        """Make a matrix of entries whose rows ascend; raises for more than the pointers can count."""
        require(len(columns) <= MOST, "Entries of a sparse matrix", f"at most {MOST}", len(columns))
        pointers = np.zeros(height + 1, np.int32)
        np.cumsum(np.bincount(rows, minlength=height), out=pointers[1:])
        return cls(pointers, columns.astype(np.int32, copy=False), values.astype(np.float32, copy=False), rows)

    @property
    def rows(self) -> Array:
        """[entries], ascending: each one's row."""
        if self.entry_rows is not None:
            return self.entry_rows
        return np.repeat(np.arange(len(self.pointers) - 1), np.diff(self.pointers))

    def first(self, rows: int) -> "_Listed":
        """The first so many rows."""
        pointers = self.pointers[: rows + 1]
        return _Listed(pointers, self.columns[: pointers[-1]], self.values[: pointers[-1]])

    def with_first(self, place: Array) -> "_Listed":
        """Each row with a one before what it holds, in column `place` [rows]."""
        pointers = self.pointers + np.arange(len(self.pointers), dtype=np.int32)
        columns, values = np.empty(pointers[-1], np.int32), np.ones(pointers[-1], np.float32)
        behind = np.arange(len(self.columns)) + self.rows + 1
        columns[pointers[:-1]], columns[behind], values[behind] = place, self.columns, self.values
        return _Listed(pointers, columns, values)

    def cut(self, columns: int) -> "tuple[_Listed, _Listed]":
        """Return the first so many columns and the others, whose numbers begin anew, as two matrices."""
        before = np.zeros(len(self.columns) + 1, np.int32)
        upper = self.columns < columns
        np.cumsum(upper, out=before[1:])
        pointers, lower = before[self.pointers], ~upper
        return (
            _Listed(pointers, self.columns[upper], self.values[upper]),
            _Listed(self.pointers - pointers, self.columns[lower] - np.int32(columns), self.values[lower]),
        )

    def csr(self, width: int, device: str | torch.device) -> "Csr":
        """Return the matrix on a device, of so many columns."""
        pointers, columns, values = map(torch.from_numpy, (self.pointers, self.columns, self.values))
        return Csr(pointers.to(device), columns.to(device), values.to(device), width)


@dataclass(frozen=True, eq=False)
class Stacked:
    """Two tables of one width, float32 [rows, width], read as one behind the other, never copied; they do not learn."""

    upper: Tensor
    lower: Tensor
    _moved: "dict[str, Stacked]" = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of both, and their width."""
        return len(self.upper) + len(self.lower), self.upper.shape[1]

    def take(self, rows: Tensor) -> Tensor:
        """Some rows, int64 [taken], in their order."""
        within = rows < len(self.upper)
        if within.all():
            return self.upper.index_select(0, rows)
        taken = self.upper.new_empty(len(rows), self.shape[1])
        taken[within] = self.upper.index_select(0, rows[within])
        taken[~within] = self.lower.index_select(0, rows[~within] - len(self.upper))
        return taken

    def __matmul__(self, weight: Tensor) -> Tensor:
        """Return all rows, mapped, float32 [rows, width]."""
        return torch.cat([self.upper @ weight, self.lower @ weight])

    @property
    def dense(self) -> Tensor:
        """Both in one table, float32 [rows, width]."""
        return torch.cat([self.upper, self.lower]) if len(self.lower) else self.upper

    def to(self, device: str | torch.device) -> "Stacked":
        """Return the tables on another device; moved there once."""
        if torch.device(device) == self.upper.device:
            return self
        if str(device) not in self._moved:
            self._moved[str(device)] = Stacked(self.upper.to(device), self.lower.to(device))
        return self._moved[str(device)]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, sparse: Sparse) -> Tensor:
        ctx.sparse = sparse
        ctx.leaf = dense if dense.is_leaf else None
        return sparse.matrix @ dense

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None]:
        transposed, gradient, leaf = ctx.sparse.transposed, gradient.contiguous(), ctx.leaf
        if leaf is None or leaf.grad is None:
            return transposed @ gradient, None
        # Weights of sparse features are most of a model: added where they belong, not made anew, zeroed and copied.
        torch.addmm(leaf.grad, transposed.tensor, gradient, out=leaf.grad)
        return None, None


@dataclass(frozen=True, eq=False)
class Csr:
    """A sparse matrix as its entries, row by row, for products; unchecked.

    Args:
        pointers: int32 [rows + 1], where each row begins; columns: int32 [entries]; values: float [entries].
        width: how many columns.
    """

    pointers: Tensor
    columns: Tensor
    values: Tensor
    width: int

    def __matmul__(self, dense: Tensor) -> Tensor:
        """The product with [columns, any]; gradients do not pass."""
        if not dense.is_cpu:
            return self.tensor @ dense
        # Sums of rows, as bags of embeddings are summed: the bits of torch's own product (but for widths of 8 and 16)
        # in a quarter to four fifths of its time (measured), since that fills its result with zeros first.
        dense = dense.detach().contiguous()  # with a gradient to come, which is ours, torch would note every bag
        return torch.embedding_bag(dense, self.columns, self.pointers, False, 0, False, self.values, True)[0]

    @cached_property
    def tensor(self) -> Tensor:
        """The matrix as a tensor of torch in CSR, [rows, columns]."""
        size = len(self.pointers) - 1, self.width
        return torch.sparse_csr_tensor(self.pointers, self.columns, self.values, size=size, check_invariants=False)


def int32(array: Array) -> Tensor:
    """Return indices [entries] as int32, as products want them; raises for more entries than these can count."""
    if array.dtype != np.int32:
        largest = int(array.max(initial=0))
        require(largest <= MOST, "Entries and columns of a sparse matrix", f"at most {MOST}", largest)
    return torch.from_numpy(array.astype(np.int32, copy=False))


with warnings.catch_warnings():
    # torch says once per process that CSR is in beta; said here, it does not land among a user's messages.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0], [], [], size=(0, 0), check_invariants=False)


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers starts[k] .. starts[k] + lengths[k] - 1, for one k after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum(), dtype=np.int64)
