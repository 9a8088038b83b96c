"""Attention of several heads over a graph in CSR, with its own gradient.

    attend(values, receiver, sender)    out[i] = sum over edges (i, j) of a[ij] * values[j],  per head
        a[ij] = softmax over i's edges of leaky_relu(receiver[i] + sender[j])

Heads lie beside each other as blocks of one matrix, so that a small graph takes one product for all of them. No array
of [edges, width] is ever made.
"""

from typing import Any, TypeAlias

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
        self._together = heads if self.edges * heads <= MOST_ENTRIES else 1
        blocks = [matrix] * self._together
        self._graph = Graph(scipy.sparse.block_diag(blocks, format="csr") if self._together > 1 else matrix)

    def to(self, device: str | torch.device) -> "HeadedGraph":
        """Return the graph on another device."""
        moved = object.__new__(HeadedGraph)
        moved.nodes, moved.edges, moved.heads, moved._together = self.nodes, self.edges, self.heads, self._together
        moved._graph = self._graph.to(device)
        return moved

    def forward(self, values: Tensor, receiver: Tensor, sender: Tensor, slope: float) -> tuple[Tensor, list["_Kept"]]:
        """Return what `attend` returns, and what `backward` needs."""
        outputs, kept = [], []
        highest = torch.nn.functional.leaky_relu(receiver.amax(1) + sender.amax(1), slope)
        for number, (part, to, by) in enumerate(self._parts(values, receiver, sender)):
            graph, first = self._graph, number * self._together
            scores = to.index_select(0, graph.rows).add_(by.index_select(0, graph.columns))
            raised = torch.nn.functional.leaky_relu(scores, slope).view(self._together, -1)
            # Relative to what is at least the largest score, so that no exponential is beyond float32.
            raised -= highest[first : first + self._together, None]
            weights = raised.clamp_(min=LOWEST).exp_().view(-1)
            total = graph.row_sums(weights)[:, None]
            outputs.append((graph.matrix(weights) @ part).div_(total))
            kept.append((weights, total, scores))
        flops.count(self.heads * self.edges * values.shape[-1])
        return torch.cat(outputs).view_as(values), kept

    def backward(
        self, gradient: Tensor, output: Tensor, values: Tensor, kept: list["_Kept"], slope: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of values, receiver and sender.

        With G the gradient of the output o, that of a score is a[ij] (<G[i], values[j]> - <G[i], o[i]>).
        """
        graph = self._graph
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        own = (gradient * output).sum(2, keepdim=True)
        for (part, of, about), (weights, total, scores) in zip(self._parts(values, gradient, own), kept, strict=True):
            of = of / total
            to_raised = sampled(of, part, graph)
            to_raised.sub_((about / total)[:, 0].index_select(0, graph.rows)).mul_(weights)
            to_scores = torch.ops.aten.leaky_relu_backward(to_raised, scores, slope, False)
            found.append((graph.transposed(weights) @ of, graph.row_sums(to_scores), graph.column_sums(to_scores)))
        flops.count(2 * self.heads * self.edges * values.shape[-1])
        to_values, to_receiver, to_sender = (torch.cat(parts) for parts in zip(*found, strict=True))
        shape = self.heads, self.nodes
        return to_values.view_as(values), to_receiver.view(shape), to_sender.view(shape)

    def _parts(self, *arrays: Tensor) -> list[tuple[Tensor, ...]]:
        """Arrays [heads, nodes, ...] as one or more of [heads together * nodes, ...]."""
        pieces = [array.reshape(-1, self._together * self.nodes, *array.shape[2:]) for array in arrays]
        return list(zip(*pieces, strict=True))


_Kept: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Weights of all edges, not divided by their sums; these sums, [nodes, 1]; scores."""


def attend(
    values: Float[Tensor, "heads nodes width"],
    receiver: Float[Tensor, "heads nodes"],
    sender: Float[Tensor, "heads nodes"],
    graph: HeadedGraph,
    slope: float,
) -> Float[Tensor, "heads nodes width"]:
    """Return the mean of what each node attends to, weighted by the softmax of its scores, for every head."""
    mixed: Tensor = _Attend.apply(values, receiver, sender, graph, slope)  # type: ignore[no-untyped-call]
    return mixed


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, receiver: Tensor, sender: Tensor, graph: HeadedGraph, slope: float) -> Tensor:
        values = values.contiguous()
        output, ctx.kept = graph.forward(values, receiver.contiguous(), sender.contiguous(), slope)
        ctx.graph, ctx.slope = graph, slope
        ctx.save_for_backward(values, output)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        values, output = ctx.saved_tensors
        return *ctx.graph.backward(gradient.contiguous(), output, values, ctx.kept, ctx.slope), None, None
