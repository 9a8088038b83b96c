"""Attention along listed edges, of which two nodes may have several, with its own gradient.

    attention(values, scores, times, scaling, ends)
        out[i] = sum over i's edges e, from j, of a[e] scaling[e] values[j]
        a[e] = times[e] exp(scores[e]) / (the same, added up over i's edges),  per head

No array of [edges, width] is ever made. With G the gradient of the output, that of a[e] scaling[e] is
<G[i], values[j]>.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fedgraft.nn import flops
from fedgraft.nn.sparse import Csr, int32

PIECE = 1 << 12
"""Edges whose rows are multiplied at once: what a processor's cache holds."""


class Ends:
    """Edges from senders to receivers, ready for attention and for its gradient.

    Args:
        sender: int64 [edges]; receiver: int64 [edges], ascending.
        shape: (receivers, senders).
    """

    def __init__(self, sender: Tensor, receiver: Tensor, shape: tuple[int, int]) -> None:
        to, by = receiver.numpy(force=True), sender.numpy(force=True)
        order = np.argsort(by, kind="stable")
        device = sender.device
        self.shape, self.edges, self.sender, self.receiver = shape, len(by), sender, receiver
        self._order = torch.from_numpy(order).to(device)
        self._senders, self._receivers_back = int32(by).to(device), int32(to[order]).to(device)
        self._offsets, self._offsets_back = (
            torch.from_numpy(np.concatenate([[0], np.cumsum(np.bincount(node, minlength=nodes))])).to(device)
            for node, nodes in ((to, shape[0]), (by, shape[1]))
        )

    def weighted(self, weights: Tensor) -> Csr:
        """Return the matrix with these weights [edges], from senders to receivers."""
        return Csr(self._offsets.int(), self._senders, weights, self.shape[1])

    def weighted_back(self, weights: Tensor) -> Csr:
        """Return its transpose."""
        return Csr(self._offsets_back.int(), self._receivers_back, weights.index_select(0, self._order), self.shape[0])

    def products(
        self, left: Float[Tensor, "heads receivers width"], right: Float[Tensor, "heads senders width"]
    ) -> Float[Tensor, "heads edges"]:
        """Return the inner product of the receiver's row of `left` and the sender's row of `right`."""
        found = left.new_empty(len(left), self.edges)
        for first in range(0, self.edges, PIECE):
            some = slice(first, first + PIECE)
            rows = left.index_select(1, self.receiver[some]).mul_(right.index_select(1, self.sender[some]))
            torch.sum(rows, 2, out=found[:, some])
        return found

    def sums(self, of: Float[Tensor, "heads edges"]) -> Float[Tensor, "heads receivers"]:
        """Return sums over each receiver's edges."""
        return _summed(of, self._offsets)

    def sums_back(self, of: Float[Tensor, "heads edges"]) -> Float[Tensor, "heads senders"]:
        """Return sums over each sender's edges."""
        return _summed(of.index_select(1, self._order), self._offsets_back)


def end_sums(
    left: Float[Tensor, "heads receivers"], right: Float[Tensor, "heads senders"], ends: Ends
) -> Float[Tensor, "heads edges"]:
    """Return the receiver's entry of `left` plus the sender's entry of `right`."""
    sums: Tensor = _EndSums.apply(left, right, ends)  # type: ignore[no-untyped-call]
    return sums


def attention(
    values: Float[Tensor, "heads senders width"],
    scores: Float[Tensor, "heads edges"],
    times: Float[Tensor, " edges"],
    scaling: Float[Tensor, "heads edges"] | None,
    ends: Ends,
) -> Float[Tensor, "heads receivers width"]:
    """Return what each receiver attends to; scores are such that their exponentials add up in float32.

    `times`, > 0, say how many edges each stands for; `scaling` multiplies what goes along an edge, None for 1. Nothing
    comes of no edges.
    """
    mixed: Tensor = _Attention.apply(values, scores, times, scaling, ends)  # type: ignore[no-untyped-call]
    return mixed


class _EndSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, ends: Ends) -> Tensor:
        ctx.ends = ends
        return left.index_select(1, ends.receiver) + right.index_select(1, ends.sender)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        return ctx.ends.sums(gradient), ctx.ends.sums_back(gradient), None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, scores: Tensor, times: Tensor, scaling: Tensor | None, ends: Ends) -> Tensor:
        weights = scores.exp() * times
        total = ends.sums(weights)
        shares = weights / total.index_select(1, ends.receiver)
        used = shares if scaling is None else shares * scaling
        ctx.ends = ends
        ctx.save_for_backward(values, shares, used, scaling)
        flops.count(ends.edges * values.shape[0] * values.shape[2])
        return torch.stack([ends.weighted(each) @ of for each, of in zip(used, values, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, Tensor | None, None]:
        ends: Ends = ctx.ends
        values, shares, used, scaling = ctx.saved_tensors
        flops.count(2 * ends.edges * values.shape[0] * values.shape[2])
        to_values = torch.stack([ends.weighted_back(each) @ of for each, of in zip(used, gradient, strict=True)])
        to_used = ends.products(gradient, values)
        to_scaling = None if scaling is None else to_used * shares
        to_shares = to_used if scaling is None else to_used * scaling
        mean = ends.sums(shares * to_shares).index_select(1, ends.receiver)
        return to_values, shares * (to_shares - mean), None, to_scaling, None


def _summed(of: Tensor, offsets: Tensor) -> Tensor:
    """Sums of consecutive entries, [heads, offsets - 1]."""
    return torch.stack(
        [torch.segment_reduce(each, "sum", offsets=offsets, unsafe=True, initial=0.0) for each in of.contiguous()]
    )
