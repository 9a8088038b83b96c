"""Propagation over a graph in CSR: the two sparse products that every encoder is made of, each with its own gradient.

    spmm(values, dense)    out[i] = sum over edges (i, j) of values[ij] * dense[j]        [nodes, width]
    sddmm(left, right)     out[ij] = <left[i], right[j]> for every edge (i, j)             [edges]

Each is the other's gradient; `end_sums` adds where `sddmm` multiplies. The transpose is stored beside the structure,
since `csr.t() @ dense` is many times slower, and edges are never gathered into an [edges, width] array. Many graphs
share one structure: an edge that is absent from one of them has the value zero there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor

from fedgraft.errors import InputError
from fedgraft.nn import flops
from fedgraft.nn.sparse import SMALL as SMALL
from fedgraft.nn.sparse import Csr, int32
from fedgraft.nn.sparse import Sparse as Sparse
from fedgraft.nn.sparse import Stacked as Stacked
from fedgraft.wire.layouts import Array


class Graph:
    """The structure of a directed graph on n nodes, for products with any values on its edges.

    Args:
        matrix: its adjacency [n, n]; entry (i, j) means that i receives from j. Values do not matter, stored zeros
            count.

    Attributes:
        nodes: n.
        edges: number of edges; values are in CSR order, rows ascending, columns ascending within a row.
        rows: int64 [edges], the receiving node; columns: int64 [edges], the sending node.
    """

    def __init__(self, matrix: scipy.sparse.csr_matrix) -> None:
        matrix = matrix.tocsr()
        matrix.sort_indices()
        self._begin(matrix.indptr, matrix.indices)

    @classmethod
    def listed(cls, rows: Tensor, columns: Tensor, nodes: int) -> "Graph":
        """Return the graph of edges in CSR order, int64 [edges] each, on the CPU."""
        pointers = np.concatenate([[0], np.cumsum(np.bincount(rows.numpy(force=True), minlength=nodes))])
        graph = object.__new__(cls)
        graph._begin(pointers, columns.numpy(force=True))
        return graph

    def _begin(self, pointers: Array, columns: Array) -> None:
        self.nodes, self.edges = len(pointers) - 1, len(columns)
        rows, order = np.repeat(np.arange(self.nodes), np.diff(pointers)), np.argsort(columns, kind="stable")
        back = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=self.nodes))])
        self._pointers, self._senders = int32(pointers), int32(columns)
        self._pointers_back, self._senders_back = int32(back), int32(rows[order])
        self._order_back = torch.from_numpy(order)
        self._offsets, self._offsets_back = self._pointers.long(), self._pointers_back.long()
        self.rows, self.columns = torch.from_numpy(rows), torch.from_numpy(columns.astype(np.int64))

    def to(self, device: str | torch.device) -> "Graph":
        """Return the graph on another device."""
        moved = object.__new__(Graph)
        moved.nodes, moved.edges = self.nodes, self.edges
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(moved, name, value.to(device))
        return moved

    def weighted(self, values: Tensor) -> Csr:
        """Return the adjacency with these values [edges]."""
        return Csr(self._pointers, self._senders, values, self.nodes)

    def weighted_back(self, values: Tensor) -> Csr:
        """Return the transposed adjacency with these values [edges]."""
        return Csr(self._pointers_back, self._senders_back, values.index_select(0, self._order_back), self.nodes)

    def matrix(self, values: Tensor) -> Tensor:
        """The adjacency with these values [edges], as a sparse CSR tensor."""
        return self.weighted(values).tensor

    def transposed(self, values: Tensor) -> Tensor:
        """Return the transposed adjacency matrix, sparse [senders, receivers], with values [edges]."""
        return self.weighted_back(values).tensor

    def row_sums(self, values: Tensor) -> Tensor:
        """Return the sum of the values of each node's edges, as receiver, [nodes]."""
        return _sums(values, self._offsets)

    def column_sums(self, values: Tensor) -> Tensor:
        """Return the sum of the values of each node's edges, as sender, [nodes]."""
        return _sums(values.index_select(0, self._order_back), self._offsets_back)


def spmm(
    values: Float[Tensor, " edges"], dense: Float[Tensor, "nodes width"], graph: Graph
) -> Float[Tensor, "nodes width"]:
    """Return the sum of the senders' rows, weighted by the edges' values, [nodes, width]."""
    product: Tensor = _Spmm.apply(values, dense, graph)  # type: ignore[no-untyped-call]
    return product


def sddmm(
    left: Float[Tensor, "nodes width"], right: Float[Tensor, "nodes width"], graph: Graph
) -> Float[Tensor, " edges"]:
    """Return the inner product of the receiver's row of `left` and the sender's row of `right`, [edges]."""
    product: Tensor = _Sddmm.apply(left, right, graph)  # type: ignore[no-untyped-call]
    return product


@dataclass(frozen=True, eq=False)
class GraphView:
    """One graph on a structure that several may share, with everything an encoder reads.

    Args:
        graph: the structure.
        nodes: float32 [nodes, node width], node features.
        edges: float32 [edges, edge width], edge features; zero rows where an edge is absent.
        norm: float32 [edges], 1 / sqrt(degree of receiver x degree of sender); 0 where an edge is absent.
    """

    graph: Graph
    nodes: Tensor
    edges: Tensor
    norm: Tensor

    def to(self, device: str | torch.device) -> "GraphView":
        """Return the view on another device."""
        return GraphView(self.graph.to(device), self.nodes.to(device), self.edges.to(device), self.norm.to(device))


def end_sums(
    left: Float[Tensor, "heads nodes"], right: Float[Tensor, "heads nodes"], graph: Graph
) -> Float[Tensor, "heads edges"]:
    """Return the receiver's entry of `left` plus the sender's entry of `right`, [heads, edges]."""
    sums: Tensor = _EndSums.apply(left, right, graph)  # type: ignore[no-untyped-call]
    return sums


States: TypeAlias = Tensor | Sparse | Stacked
"""Of the nodes that send: one row each."""


@dataclass(frozen=True, eq=False)
class EdgeValues:
    """What the edges of a layer carry, in the order in which its matrix lists them.

    Args:
        values: float32 [edges, width], features of edges.
        along: bool [edges], whether the edge goes from the sender to the receiver; else it goes the other way.
        weight: float32 [edges], how many edges each stands for, > 0; it is in the matrix, too. None for one each.
    """

    values: Tensor
    along: Tensor
    weight: Tensor | None = None

    def to(self, device: str | torch.device) -> "EdgeValues":
        """Return the same on another device."""
        weight = None if self.weight is None else self.weight.to(device)
        return EdgeValues(self.values.to(device), self.along.to(device), weight)


@dataclass(frozen=True, eq=False)
class Block:
    """The edges of one layer, from senders to receivers, which may be other nodes.

    Args:
        matrix: [receivers, senders], how many times a sender is a receiver's neighbour, times the edges' weights.
        place: int64 [receivers], which sender a receiver is itself.
        degree: float32 [receivers], how many neighbours each has, by weight; degree_from: float32 [senders].
        edges: what the edges carry, of which two nodes may then have many; None where they carry nothing.
    """

    matrix: Sparse
    place: Tensor
    degree: Tensor
    degree_from: Tensor
    edges: EdgeValues | None = None

    def to(self, device: str | torch.device) -> "Block":
        """Return the block on another device."""
        held = {name: getattr(self, name) for name in self.__dataclass_fields__}
        moved: dict[str, Any] = {name: None if each is None else each.to(device) for name, each in held.items()}
        return type(self)(**moved)

    def sums(
        self, dense: Float[Tensor, "senders width"] | Stacked, map: "Callable[[Any], Tensor] | None" = None
    ) -> Float[Tensor, "receivers width"]:
        """Return the sum of each receiver's neighbours' rows, [receivers, width]; `map`, if linear, made these."""
        return self.matrix @ dense

    def means(self, states: States, map: "Callable[[Any], Tensor] | None" = None) -> Tensor:
        """Return the mean of neighbours' states, zero of none, [receivers, width]; mapped first, if `map` is given."""
        return self._averaging @ _sent(states, map)

    def smoothed(self, states: States, map: "Callable[[Any], Tensor] | None" = None) -> Tensor:
        """Each receiver's own state plus its neighbours', each divided by the root of both ends' degrees plus one.

        The one is a self loop. Of what `map` makes of them, if given, which is linear.
        """
        return self._smoothing @ _sent(states, map)

    def means_back(self, gradient: Float[Tensor, "receivers width"]) -> Float[Tensor, "senders width"]:
        """Return the gradient of the rows that were averaged, [senders, width], given that of their means."""
        return self._averaging.back(gradient)

    def smoothed_back(self, gradient: Float[Tensor, "receivers width"]) -> Float[Tensor, "senders width"]:
        """Return the gradient of the rows that were smoothed, [senders, width], given that of what became of them."""
        return self._smoothing.back(gradient)

    def add_own_back(self, gradient: Float[Tensor, "receivers width"], total: Float[Tensor, "senders width"]) -> None:
        """Add the gradient of receivers' own rows, [receivers, width], to those of all rows, [senders, width]."""
        if self._ahead:
            total[: self.receivers].add_(gradient)
        else:
            total.index_add_(0, self.place, gradient)

    def own(self, dense: Float[Tensor, "senders width"] | Stacked) -> Float[Tensor, "receivers width"]:
        """Return each receiver's own row, [receivers, width]."""
        if isinstance(dense, Stacked):
            first = self._ahead and self.receivers <= len(dense.upper)
            return dense.upper[: self.receivers] if first else dense.take(self.place)
        return dense[: self.receivers] if self._ahead else dense.index_select(0, self.place)

    @property
    def edge_index(self) -> Tensor:
        """int64 [2, edges], each edge's sender and its receiver, as PyTorch Geometric has them; receivers ascend."""
        return self._edges[0]

    @property
    def edge_weight(self) -> Tensor:
        """float32 [edges], how many times each edge's sender is the receiver's neighbour, > 0; see `matrix`."""
        return self._edges[1]

    @property
    def edge_times(self) -> Tensor:
        """float32 [edges], how many drawn ones each edge stands for, whatever it weighs."""
        weight = None if self.edges is None else self.edges.weight
        return self.edge_weight if weight is None else self.edge_weight / weight

    @cached_property
    def few(self) -> "tuple[Tensor, Sparse] | None":
        """int64 [rows], the receivers with neighbours, where these are few, and the matrix that averages theirs."""
        return self._averaging.filled()

    @cached_property
    def _edges(self) -> tuple[Tensor, Tensor]:
        receiver, sender, times = self.matrix.listed
        return torch.stack([sender, receiver]), times

    @cached_property
    def _averaging(self) -> Sparse:
        return self.matrix.scaled(1.0 / divisor(self.degree))

    @cached_property
    def _smoothing(self) -> Sparse:
        roots = (self.degree + 1.0).rsqrt(), (self.degree_from + 1.0).rsqrt()
        return self.matrix.with_ones(self.place).scaled(*roots)

    @cached_property
    def _ahead(self) -> bool:
        """True where receivers are the first of the senders."""
        return torch.equal(self.place, torch.arange(self.receivers, device=self.place.device))

    @cached_property
    def receivers(self) -> int:
        """int, the number of receivers."""
        return int(self.place.shape[0])


def divisor(degree: Tensor) -> Tensor:
    """Return what sums over neighbours are divided by: the degree [nodes], or 1 where there is nobody."""
    return torch.where(degree > 0, degree, 1.0)


def _sent(states: States, map: Callable[[Any], Tensor] | None) -> Tensor | Stacked:
    """Return the rows that go along edges."""
    sent = states if map is None else map(states)
    assert not isinstance(sent, Sparse)
    return sent


@dataclass(frozen=True, eq=False)
class Given(Block):
    """A block whose sums are given: no sender's row is looked at but the receivers' own.

    `given` is [receivers, width], the sum of each receiver's neighbours' states, scaled if they are to be.
    """

    given: "Sparse | Tensor" = field(kw_only=True)

    def sums(
        self, dense: Float[Tensor, "senders width"] | Stacked, map: "Callable[[Any], Tensor] | None" = None
    ) -> Float[Tensor, "receivers width"]:
        """Return the given sums, mapped, [receivers, width]."""
        return self._received(map)

    def means(self, states: States, map: "Callable[[Any], Tensor] | None" = None) -> Tensor:
        """Return the given sums, mapped, divided by each receiver's number of neighbours, [receivers, width]."""
        return self._received(map) / divisor(self.degree)[:, None]

    def smoothed(self, states: States, map: "Callable[[Any], Tensor] | None" = None) -> Tensor:
        """Return own states plus what was given, [receivers, width], as in a block; senders have divided theirs."""
        root = (self.degree + 1.0).rsqrt()[:, None]
        return root * (root * self.own(_sent(states, map)) + self._received(map))

    @property
    def edge_index(self) -> Tensor:
        """Not where sums are given: raises `InputError`."""
        raise InputError(
            "inputs.aggregates must be false with a model that reads edges: it sends sums of neighbours alone."
        )

    @property
    def few(self) -> "tuple[Tensor, Sparse] | None":
        """Not where sums are given."""
        return None

    def _received(self, map: "Callable[[Any], Tensor] | None") -> Tensor:
        return self.given if map is None else map(self.given)  # type: ignore[return-value]


class _Spmm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, dense: Tensor, graph: Graph) -> Tensor:
        ctx.graph = graph
        ctx.save_for_backward(values, dense)
        flops.count(graph.edges * dense.shape[1])
        return graph.matrix(values) @ dense

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        values, dense = ctx.saved_tensors
        gradient = gradient.contiguous()
        flops.count(sum(ctx.needs_input_grad[:2]) * ctx.graph.edges * dense.shape[1])
        to_values = sampled(gradient, dense, ctx.graph) if ctx.needs_input_grad[0] else None
        to_dense = ctx.graph.transposed(values) @ gradient if ctx.needs_input_grad[1] else None
        return to_values, to_dense, None


class _Sddmm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, graph: Graph) -> Tensor:
        ctx.graph = graph
        ctx.save_for_backward(left, right)
        flops.count(graph.edges * left.shape[1])
        return sampled(left, right, graph)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        left, right = ctx.saved_tensors
        gradient = gradient.contiguous()
        flops.count(sum(ctx.needs_input_grad[:2]) * ctx.graph.edges * left.shape[1])
        to_left = ctx.graph.matrix(gradient) @ right if ctx.needs_input_grad[0] else None
        to_right = ctx.graph.transposed(gradient) @ left if ctx.needs_input_grad[1] else None
        return to_left, to_right, None


class _EndSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, graph: Graph) -> Tensor:
        ctx.graph = graph
        return left.index_select(1, graph.rows) + right.index_select(1, graph.columns)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        graph: Graph = ctx.graph
        ones = gradient.new_ones(graph.nodes)
        # Sums over a node's edges are products with ones: many times faster than scattering.
        gradient = gradient.contiguous()
        to_left = torch.stack([graph.matrix(values) @ ones for values in gradient])
        to_right = torch.stack([graph.transposed(values) @ ones for values in gradient])
        return to_left, to_right, None


def sampled(left: Tensor, right: Tensor, graph: Graph) -> Tensor:
    """Return the entries of left @ right.T where the graph has an edge, [edges]."""
    pattern = graph.matrix(torch.zeros(graph.edges, dtype=left.dtype, device=left.device))
    product: Tensor = torch.sparse.sampled_addmm(pattern, left.contiguous(), right.contiguous().t(), beta=0.0)
    return product.values()


def _sums(values: Tensor, offsets: Tensor) -> Tensor:
    """Sums of consecutive values; [offsets - 1]."""
    return torch.segment_reduce(values, "sum", offsets=offsets, unsafe=True, initial=0.0)
