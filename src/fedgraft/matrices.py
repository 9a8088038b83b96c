"""Matrices and tables that do not learn, as what learns is multiplied by them: `Sparse` and `Stacked`."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fedgraft import flops
from fedgraft.types import Array

SMALL = 1 << 15
"""Entries, zeros and all, up to which a matrix is multiplied faster with its zeros (measured, width 64)."""


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
        self.shape = shape
        self._dense: Tensor | None = None
        self._matrix: Tensor | None = None
        self._transposed: Tensor | None = None
        self._heads: dict[int, Sparse] = {}
        self._halves: dict[int, tuple[Sparse, Sparse]] = {}
        if shape[0] * shape[1] <= small:
            dense = np.zeros(shape, np.float32)
            dense[rows, columns] = values
            self._dense = torch.from_numpy(dense)
        else:
            self._matrix = _compressed(rows, columns, values, shape)

    def to(self, device: str | torch.device) -> "Sparse":
        """The same on another device."""
        return self._made(**{name: getattr(self, name) for name in _STORED}, shape=self.shape, device=device)

    def head(self, rows: int) -> "Sparse":
        """Its first so many rows; made once, since its transpose is costly."""
        if rows == self.shape[0]:
            return self
        if rows not in self._heads:
            shape = (rows, self.shape[1])
            if self._dense is not None:
                self._heads[rows] = self._made(_dense=self._dense[:rows], shape=shape)
            else:
                pointers = self.matrix.crow_indices()[: rows + 1]
                entries = int(pointers[-1])
                parts = self.matrix.col_indices()[:entries], self.matrix.values()[:entries]
                self._heads[rows] = self._made(_matrix=csr(pointers, *parts, shape), shape=shape)
        return self._heads[rows]

    def scaled(self, rows: Tensor, columns: Tensor | None = None) -> "Sparse":
        """Its rows, and columns if given, multiplied by numbers."""
        if self._dense is not None:
            dense = self._dense * rows[:, None]
            return self._made(_dense=dense if columns is None else dense * columns, shape=self.shape)
        pointers, places, values = self.matrix.crow_indices(), self.matrix.col_indices(), self.matrix.values()
        values = values * rows.repeat_interleave(pointers.diff())
        values = values if columns is None else values * columns[places]
        return self._made(_matrix=csr(pointers, places, values, self.shape), shape=self.shape)

    def with_ones(self, place: Tensor) -> "Sparse":
        """One more at a place, int64 [rows], of every row."""
        rows = torch.arange(len(place), device=place.device)
        if self._dense is not None:
            dense = self._dense.clone()
            dense[rows, place] += 1.0
            return self._made(_dense=dense, shape=self.shape)
        pointers, places, values = self.matrix.crow_indices(), self.matrix.col_indices(), self.matrix.values()
        behind = torch.arange(len(places), device=place.device) + rows.repeat_interleave(pointers.diff()) + 1
        before, count = pointers[:-1] + rows, len(places) + len(place)
        columns, entries = places.new_empty(count), values.new_ones(count)
        columns[before], columns[behind] = place.to(columns.dtype), places
        entries[behind] = values
        after = pointers + torch.arange(len(pointers), device=place.device)
        return self._made(_matrix=csr(after.to(pointers.dtype), columns, entries, self.shape), shape=self.shape)

    def filled(self) -> "tuple[Tensor, Sparse] | None":
        """Int64 [filled], its rows that hold anything, and it without the others; None unless these are most."""
        if self._dense is not None:
            return None
        pointers = self.matrix.crow_indices()
        there = pointers.diff().nonzero()[:, 0]
        if 2 * len(there) > self.shape[0]:
            return None
        shape = len(there), self.shape[1]
        parts = self.matrix.col_indices(), self.matrix.values()
        left = torch.cat([pointers[:1], pointers[1:][there]])
        return there, self._made(_matrix=csr(left, *parts, shape), shape=shape)

    def __matmul__(self, dense: "Float[Tensor, 'columns width'] | Stacked") -> Float[Tensor, "rows width"]:
        """The product."""
        if isinstance(dense, Stacked):
            upper, lower = self._cut(len(dense.upper))
            return upper @ dense.upper if not lower.entries else upper @ dense.upper + lower @ dense.lower
        learns = torch.is_grad_enabled() and dense.requires_grad
        flops.count((1 + learns) * self.entries * dense.shape[1])
        if self._dense is not None:
            return self._dense @ dense
        if not learns:
            return self.matrix @ dense
        product: Tensor = _Product.apply(dense, self)  # type: ignore[no-untyped-call]
        return product

    def back(self, gradient: Float[Tensor, "rows width"]) -> Float[Tensor, "columns width"]:
        """The gradient of what it was multiplied by, given that of the product."""
        flops.count(self.entries * gradient.shape[1])
        return self._back() @ gradient.contiguous()

    def add_back(self, gradient: Float[Tensor, "rows width"], total: Float[Tensor, "columns width"]) -> None:
        """The same, added where it belongs: weights of sparse features are most of a model."""
        flops.count(self.entries * gradient.shape[1])
        torch.addmm(total, self._back(), gradient.contiguous(), out=total)

    def _back(self) -> Tensor:
        return self.transposed if self._dense is None else self._dense.t()

    def _cut(self, columns: int) -> "tuple[Sparse, Sparse]":
        """Its first so many columns and the others; made once."""
        if columns not in self._halves:
            rows, places, values = self._listed()
            upper = places < columns
            here, shapes = (upper, ~upper), ((self.shape[0], columns), (self.shape[0], self.shape[1] - columns))
            first, second = (
                Sparse(rows[part], places[part] - start, values[part], shape, small=0).to(self.matrix.device)
                for part, start, shape in zip(here, (0, columns), shapes, strict=True)
            )
            self._halves[columns] = first, second
        return self._halves[columns]

    def _listed(self) -> tuple[Array, Array, Array]:
        """Rows, columns and values of what is stored, unless it is small."""
        columns, values = self.matrix.col_indices().cpu().numpy(), self.matrix.values().cpu().numpy()
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.matrix.crow_indices().cpu().numpy()))
        return rows, columns, values

    @cached_property
    def entries(self) -> int:
        """How many are stored, zeros and all where it is small."""
        return self._dense.numel() if self._dense is not None else self.matrix.values().numel()

    @property
    def matrix(self) -> Tensor:
        """As a sparse CSR tensor, unless it is small."""
        assert self._matrix is not None
        return self._matrix

    @property
    def transposed(self) -> Tensor:
        """Its transpose, unless it is small."""
        if self._transposed is None:
            height, width = self.shape
            rows, columns, values = self._listed()
            # Sorting numbers of 16 bits takes linear time.
            order = np.argsort(columns.astype(np.uint16) if width <= 1 << 16 else columns, kind="stable")
            made = _compressed(columns[order], rows[order], values[order], (width, height))
            self._transposed = made.to(self.matrix.device)
        return self._transposed

    @classmethod
    def _made(
        cls, shape: tuple[int, int], device: str | torch.device | None = None, **stored: Tensor | None
    ) -> "Sparse":
        made = object.__new__(cls)
        made.shape, made._heads, made._halves = shape, {}, {}
        for name in _STORED:
            value = stored.get(name)
            setattr(made, name, value if value is None or device is None else value.to(device))
        return made


_STORED = ("_dense", "_matrix", "_transposed")


@dataclass(frozen=True, eq=False)
class Stacked:
    """Two tables of one width, read as one behind the other and never copied into one; they do not learn.

    Args:
        upper: float32 [rows, width], the first rows.
        lower: float32 [rows, width], those after them.
    """

    upper: Tensor
    lower: Tensor

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
        """All rows, mapped."""
        return torch.cat([self.upper @ weight, self.lower @ weight])

    def to(self, device: str | torch.device) -> "Stacked":
        """The same on another device."""
        return Stacked(self.upper.to(device), self.lower.to(device))


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
        torch.addmm(leaf.grad, transposed, gradient, out=leaf.grad)
        return None, None


def csr(pointers: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse CSR tensor of torch, unchecked."""
    return torch.sparse_csr_tensor(pointers, columns, values, size=shape, check_invariants=False)


def _compressed(rows: Array, columns: Array, values: Array, shape: tuple[int, int]) -> Tensor:
    pointers = np.zeros(shape[0] + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=shape[0]), out=pointers[1:])
    return csr(
        torch.from_numpy(pointers), int32(columns), torch.from_numpy(values.astype(np.float32, copy=False)), shape
    )


def int32(array: Array) -> Tensor:
    """Indices as its products want them."""
    return torch.from_numpy(array.astype(np.int32, copy=False))


with warnings.catch_warnings():
    # torch says once per process that CSR is in beta; said here, it does not land among a user's messages.
    warnings.simplefilter("ignore")
    csr(torch.zeros(1, dtype=torch.int32), torch.zeros(0, dtype=torch.int32), torch.zeros(0), (0, 0))
