"""Attention of several heads over graphs, with its own gradient.

    attend(values, receiver, sender)    out[i] = sum over edges (i, j) of a[ij] * values[j],  per head
        a[ij] = softmax over i's edges of leaky_relu(receiver[i] + sender[j])

A graph of few edges is listed in CSR, one of many is a matrix with its zeros. No array of [edges, width] is ever made.
With G the gradient of the output o, that of a score is a[ij] (<G[i], values[j]> - <G[i], o[i]>) times the slope there.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor

from fedgraft.nn import flops
from fedgraft.nn.propagate import Graph, sampled

MOST_ENTRIES = 1 << 20
"""Entries of the matrix with all heads up to which these share one product (measured: beyond it, it saves nothing)."""
LOWEST = -80.0
"""Least exponent of a weight: its exponential is still above zero in float32."""
FILLED = 5
"""Entries of a graph's matrix for each of its edges up to which it is kept with its zeros (measured: an edge in a list
takes as long as five entries)."""
TILE = 1 << 19
"""Entries of such a matrix, all heads together, that are computed at once: what a processor's cache holds."""

Gradients: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Of values, receiver and sender."""


class HeadedGraph:
    """The structure of a directed graph on n nodes, for attention of several heads.

    Args:
        matrix: its adjacency [n, n]; entry (i, j) means that i attends to j. Every node attends to itself at least.
        heads: number of heads, >= 1.

    Attributes:
        nodes: n; edges: number of edges; heads: number of heads.
    """

    def __init__(self, matrix: scipy.sparse.csr_matrix, heads: int) -> None:
        self.nodes, self.edges, self.heads = int(matrix.shape[0]), int(matrix.nnz), heads
        filled = self.nodes**2 <= FILLED * self.edges
        self._kernel: _Kernel = _Filled.of(matrix) if filled else _Listed.of(matrix, heads)

    def to(self, device: str | torch.device) -> "HeadedGraph":
        """Return the graph on another device."""
        moved = object.__new__(HeadedGraph)
        moved.nodes, moved.edges, moved.heads = self.nodes, self.edges, self.heads
        moved._kernel = self._kernel.to(device)
        return moved

    def forward(self, output: Tensor, values: Tensor, receiver: Tensor, sender: Tensor, slope: float) -> Any:
        """Write [heads, nodes, width] of `attend`, return what `backward` needs; zeros do not count as operations."""
        flops.count(self.heads * self.edges * values.shape[-1])
        return self._kernel.forward(output, values, receiver, sender, slope)

    def backward(self, gradient: Tensor, output: Tensor, values: Tensor, kept: Any, slope: float) -> Gradients:
        """Return gradients of values [heads, nodes, width], receiver and sender [heads, nodes]."""
        flops.count(2 * self.heads * self.edges * values.shape[-1])
        return self._kernel.backward(gradient, output, values, kept, slope)


def attend(
    values: Float[Tensor, "heads nodes width"],
    receiver: Float[Tensor, "graphs heads nodes"],
    sender: Float[Tensor, "graphs heads nodes"],
    graphs: Sequence[HeadedGraph],
    slope: float,
) -> tuple[Float[Tensor, "graphs heads nodes width"], Callable[[Tensor], Gradients]]:
    """Return the mean of what each node attends to, weighted by the softmax of its scores, for every graph and head.

    And a function from the gradient of these to that of values, receiver and sender. Arrays are in one piece.
    """
    outputs = values.new_empty(len(graphs), *values.shape)
    parts = zip(graphs, outputs, receiver, sender, strict=True)
    kept = [graph.forward(output, values, to, by, slope) for graph, output, to, by in parts]

    def back(gradient: Tensor) -> Gradients:
        parts = zip(graphs, gradient, outputs, kept, strict=True)
        gradients = [graph.backward(of, output, values, what, slope) for graph, of, output, what in parts]
        to_values, to_receiver, to_sender = zip(*gradients, strict=True)
        return sum(to_values[1:], to_values[0]), torch.stack(to_receiver), torch.stack(to_sender)

    return outputs, back


class _Kernel(Protocol):
    """How a `HeadedGraph` computes; methods as there."""

    def to(self, device: str | torch.device) -> "_Kernel": ...

    def forward(self, output: Tensor, values: Tensor, receiver: Tensor, sender: Tensor, slope: float) -> Any: ...

    def backward(self, gradient: Tensor, output: Tensor, values: Tensor, kept: Any, slope: float) -> Gradients: ...


class _Listed:
    """A graph of few edges in CSR. Heads are blocks of one matrix, so that all of a small graph take one product."""

    def __init__(self, graph: Graph, nodes: int, together: int) -> None:
        self._graph, self._nodes, self._together = graph, nodes, together

    @classmethod
    def of(cls, matrix: scipy.sparse.csr_matrix, heads: int) -> "_Listed":
        together = heads if matrix.nnz * heads <= MOST_ENTRIES else 1
        blocks = scipy.sparse.block_diag([matrix] * together, format="csr") if together > 1 else matrix
        return cls(Graph(blocks), int(matrix.shape[0]), together)

    def to(self, device: str | torch.device) -> "_Listed":
        return _Listed(self._graph.to(device), self._nodes, self._together)

    def forward(self, output: Tensor, values: Tensor, receiver: Tensor, sender: Tensor, slope: float) -> Any:
        graph, kept = self._graph, []
        for part, to, by, sums in self._parts(values, receiver, sender, output):
            scores = to.index_select(0, graph.rows).add_(by.index_select(0, graph.columns))
            raised = torch.nn.functional.leaky_relu(scores, slope).view(self._together, -1)
            # Relative to the largest of a head, so that no exponential is beyond float32.
            weights = raised.sub_(raised.amax(1, keepdim=True)).clamp_(min=LOWEST).exp_().view(-1)
            total = graph.row_sums(weights)[:, None]
            torch.div(graph.weighted(weights) @ part, total, out=sums)
            kept.append((weights, total, scores))
        return kept

    def backward(self, gradient: Tensor, output: Tensor, values: Tensor, kept: Any, slope: float) -> Gradients:
        graph = self._graph
        gradients: list[Gradients] = []
        for (of, what, part), (weights, total, scores) in zip(self._parts(gradient, output, values), kept, strict=True):
            of = of / total
            to_raised = sampled(of, part, graph)
            to_raised.sub_((of * what).sum(1).index_select(0, graph.rows)).mul_(weights)
            to_scores = _LEAKY_BACK(to_raised, scores, slope, False, grad_input=to_raised)
            gradients.append(
                (graph.weighted_back(weights) @ of, graph.row_sums(to_scores), graph.column_sums(to_scores))
            )
        to_values, to_receiver, to_sender = map(_joined, zip(*gradients, strict=True))
        shape = values.shape[:2]
        return to_values.view_as(values), to_receiver.view(shape), to_sender.view(shape)

    def _parts(self, *arrays: Tensor) -> list[tuple[Tensor, ...]]:
        """Arrays [heads, nodes, ...] as one or more of [heads together * nodes, ...]."""
        pieces = [array.view(-1, self._together * self._nodes, *array.shape[2:]) for array in arrays]
        return list(zip(*pieces, strict=True))


class _Filled:
    """A graph of many edges, as a matrix of ones and zeros.

    With r for receiver, s for sender, m = max s and t = max(0, r[i] + m), the weight of an edge is

        max(exp(s[j] - m), exp((slope - 1) t) exp(slope (s[j] - m)))

    which is the exponential of its score, but for a factor that all edges of node i have in common. So exponentials are
    of nodes, not of entries. What is larger of the two is the first where the score is above zero.
    """

    def __init__(self, ones: Tensor) -> None:
        self._ones = ones

    @classmethod
    def of(cls, matrix: scipy.sparse.csr_matrix) -> "_Filled":
        ones = np.zeros(matrix.shape, np.float32)
        ones[np.repeat(np.arange(len(ones)), np.diff(matrix.indptr)), matrix.indices] = 1.0
        return cls(torch.from_numpy(ones))

    def to(self, device: str | torch.device) -> "_Filled":
        return _Filled(self._ones.to(device))

    def forward(self, output: Tensor, values: Tensor, receiver: Tensor, sender: Tensor, slope: float) -> Any:
        highest = sender.amax(1, keepdim=True)
        below, above = sender - highest, (receiver + highest).clamp_(min=0)
        factors = torch.stack([below, slope * below, (slope - 1) * above]).clamp_(min=LOWEST).exp_()
        total = torch.empty_like(receiver)[:, :, None]
        tiles = list(self._tiles(*receiver.shape))
        for heads, rows in tiles:
            weights = self._weights(heads, rows, factors)
            torch.sum(weights, 2, keepdim=True, out=total[heads, rows])
            torch.bmm(weights, values[heads], out=output[heads, rows])
        output.div_(total)
        return receiver, sender, factors, total, weights if len(tiles) == 1 else None

    def backward(self, gradient: Tensor, output: Tensor, values: Tensor, kept: Any, slope: float) -> Gradients:
        receiver, sender, factors, total, all_weights = kept
        of = gradient / total
        own = (of * output).sum(2, keepdim=True).neg_()
        to_values, to_receiver, to_sender = map(torch.zeros_like, (values, receiver, sender))
        for heads, rows in self._tiles(*receiver.shape):
            weights = self._weights(heads, rows, factors) if all_weights is None else all_weights
            part = of[heads, rows]
            to_values[heads].baddbmm_(weights.transpose(1, 2), part)
            to_raised = torch.baddbmm(own[heads, rows], part, values[heads].transpose(1, 2)).mul_(weights)
            scores = receiver[heads, rows, None] + sender[heads, None]
            to_scores = _LEAKY_BACK(to_raised, scores, slope, False, grad_input=to_raised)
            to_sender[heads].add_(to_scores.sum(1))
            torch.sum(to_scores, 2, out=to_receiver[heads, rows])
        return to_values, to_receiver, to_sender

    def _weights(self, heads: slice, rows: slice, factors: Tensor) -> Tensor:
        """Weights of a tile, not divided by their sums, float [heads, rows, nodes]."""
        first, second, falling = factors
        weights = falling[heads, rows, None] * second[heads, None]
        return torch.maximum(weights, first[heads, None], out=weights).mul_(self._ones[rows])

    def _tiles(self, heads: int, nodes: int) -> Iterator[tuple[slice, slice]]:
        """Heads and rows of what is computed at once."""
        if heads * nodes**2 <= TILE:
            yield slice(0, heads), slice(0, nodes)
            return
        step = max(1, TILE // nodes)
        for head in range(heads):
            for start in range(0, nodes, step):
                yield slice(head, head + 1), slice(start, start + step)


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    return torch.cat(parts) if len(parts) > 1 else parts[0]


_LEAKY_BACK = torch.ops.aten.leaky_relu_backward.grad_input
