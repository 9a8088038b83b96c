"""Messages along edges that carry numbers, averaged at their receivers, with their own gradient.

    edge_messages(sent, weight, fan)    out[i] = mean over i's edges e, from j, of relu(sent[j] + weight values[e])
    means_and_maxima(...)               the same, and beside it the largest of these messages, number by number

Where several messages are equally large they share the gradient of the largest equally. Edges of two nodes may repeat,
each with values of its own. Edges are taken a piece at a time, those of whole receivers, and for the gradient those of
whole senders: a piece stays in a processor's cache, and of [edges, width] there is only a mask, bool, of where the relu
let pass, and one of where the largest are. Sums are products with rows that follow each other, in one order: equal
bits.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.nn import flops
from fedgraft.nn.sparse import Csr, int32


def taken(dense: Tensor, places: Tensor) -> Tensor:
    """Return rows [places, any] of `dense` [rows, any]; `places` are whole numbers, each in 0 .. rows - 1."""
    if not dense.is_cpu:
        return dense.index_select(0, places)
    # "clip" looks at no place twice; there is none to clip.
    return torch.from_numpy(dense.detach().numpy().take(places.numpy(), axis=0, mode="clip"))


def above_zero(values: Tensor, out: Tensor) -> None:
    """Write to `out`, bool, where values of its shape are above 0."""
    if values.is_cpu:
        np.greater(values.detach().numpy(), 0, out=out.numpy())
    else:
        torch.gt(values, 0, out=out)


def equal_there(values: Tensor, others: Tensor, mask: Tensor, out: Tensor) -> None:
    """Write to `out`, bool, where values equal others and a mask is true; all have one shape."""
    if values.is_cpu:
        same = np.equal(values.detach().numpy(), others.detach().numpy(), out=out.numpy())
        np.logical_and(same, mask.numpy(), out=same)
    else:
        torch.logical_and(values == others, mask, out=out)


def as_numbers(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 1 where a mask, bool, is true, else 0: from bytes, as PyTorch turns bool into numbers one by one."""
    return mask.view(torch.uint8).to(dtype)


PIECE = 1 << 12
"""Edges that are taken at once on a CPU, or those of one node: with 240,000 edges in 0.7 of the time of all at once
(measured, widths 32 and 64)."""


class Fan:
    """Edges from senders to receivers, ready for messages and for their gradient.

    Args:
        sender: int64 [edges]; receiver: int64 [edges], ascending.
        weight: float [edges], > 0, how much each counts in its receiver's mean; of the dtype of what is sent.
        values: float [edges, any], what edges carry; None for nothing.
        shape: (receivers, senders).
    """

    def __init__(
        self, sender: Tensor, receiver: Tensor, weight: Tensor, values: Tensor | None, shape: tuple[int, int]
    ) -> None:
        to, by = receiver.numpy(force=True), sender.numpy(force=True)
        total = np.bincount(to, weight.numpy(force=True), minlength=shape[0])
        share = weight / torch.from_numpy(total).to(weight)[receiver]
        order = torch.from_numpy(np.argsort(by, kind="stable")).to(sender.device)
        self.shape, self.edges = shape, len(by)
        self.sender, self.values = sender, values
        self.receiver, self.order, self.receiver_back = receiver, order, receiver[order]
        self.scaled_back = None if values is None else (values * share[:, None])[order].t().contiguous()
        self.pieces = list(_pieces(to, share, shape[0]))
        self.pieces_back = list(_pieces(by[order.numpy(force=True)], share[order], shape[1]))

    @cached_property
    def values_back(self) -> Tensor | None:
        """What edges carry, [any, edges], in the order of their senders."""
        return None if self.values is None else self.values[self.order].t().contiguous()


@dataclass(frozen=True, eq=False)
class _Piece:
    """The edges of some nodes that follow each other, and the matrix [nodes, edges] that adds them up."""

    nodes: slice
    edges: slice
    sums: Csr

    @cached_property
    def plain_sums(self) -> Csr:
        """The same with every edge once, however much it counts."""
        return replace(self.sums, values=torch.ones_like(self.sums.values))


def edge_messages(
    sent: Float[Tensor, "senders width"], weight: Float[Tensor, "width any"] | None, fan: Fan
) -> Float[Tensor, "receivers width"]:
    """Return each receiver's mean message, zero of none; `weight` maps what edges carry, None where nobody reads it."""
    means: Tensor = _EdgeMessages.apply(sent, weight, fan, False)[0]  # type: ignore[no-untyped-call]
    return means


def means_and_maxima(
    sent: Float[Tensor, "senders width"], weight: Float[Tensor, "width any"] | None, fan: Fan
) -> tuple[Float[Tensor, "receivers width"], Float[Tensor, "receivers width"]]:
    """Return each receiver's mean message and its largest in each number, zero of none; arguments as `edge_messages`.

    How much an edge counts matters to the mean alone.
    """
    means, maxima = _EdgeMessages.apply(sent, weight, fan, True)  # type: ignore[no-untyped-call]
    return means, maxima


class _EdgeMessages(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, sent: Tensor, weight: Tensor | None, fan: Fan, with_maxima: bool
    ) -> tuple[Tensor, Tensor | None]:
        means = sent.new_empty(fan.shape[0], sent.shape[1])
        passed = torch.empty(fan.edges, sent.shape[1], dtype=torch.bool, device=sent.device)
        largest = _Largest.of(means, passed) if with_maxima else None
        for piece in fan.pieces:
            messages = taken(sent, fan.sender[piece.edges])
            if weight is not None:
                messages.addmm_(_carried(fan.values)[piece.edges], weight.t())
            above_zero(messages, passed[piece.edges])
            means[piece.nodes] = piece.sums @ messages.relu_()
            if largest is not None:
                largest.add(piece, messages, passed[piece.edges], fan.receiver[piece.edges] - piece.nodes.start)
        ctx.fan, ctx.reads = fan, weight is not None
        ctx.save_for_backward(passed, *([] if largest is None else [largest.there, largest.equal]))
        _count(fan, sent.shape[1], weight is not None)
        return means, None if largest is None else largest.maxima

    @staticmethod
    def backward(ctx: Any, to_means: Tensor, to_maxima: Any) -> tuple[Tensor, Tensor | None, None, None]:
        fan: Fan = ctx.fan
        passed, *of_largest = ctx.saved_tensors
        if of_largest:
            there, equal = of_largest
            shared = to_maxima / equal
        width = to_means.shape[1]
        to_sent = to_means.new_empty(fan.shape[1], width)
        to_weight = to_means.new_zeros(_carried(fan.values).shape[1], width) if ctx.reads else None
        for piece in fan.pieces_back:
            messages = _at_edges(to_means, passed, fan, piece.edges)
            to_sent[piece.nodes] = piece.sums @ messages
            if to_weight is not None:
                to_weight.addmm_(_carried(fan.scaled_back)[:, piece.edges], messages)
            if of_largest:
                messages = _at_edges(shared, there, fan, piece.edges)
                to_sent[piece.nodes] += piece.plain_sums @ messages
                if to_weight is not None:
                    to_weight.addmm_(_carried(fan.values_back)[:, piece.edges], messages)
        _count(fan, width, ctx.reads)
        return to_sent, None if to_weight is None else to_weight.t(), None, None


def _at_edges(gradient: Tensor, mask: Tensor, fan: Fan, edges: slice) -> Tensor:
    """The gradient [receivers, width] at some edges in the order of their senders, where the mask is true; else 0."""
    at = taken(gradient, fan.receiver_back[edges])
    return at.mul_(as_numbers(taken(mask, fan.order[edges]), at.dtype))


@dataclass(frozen=True, eq=False)
class _Largest:
    """The largest messages of receivers [receivers, width], how many are equally large, at least 1, and which."""

    maxima: Tensor
    equal: Tensor
    there: Tensor

    @classmethod
    def of(cls, means: Tensor, passed: Tensor) -> "_Largest":
        """Of no message yet; shapes and dtypes are those of the arguments."""
        return cls(torch.zeros_like(means), torch.ones_like(means), torch.empty_like(passed))

    def add(self, piece: _Piece, messages: Tensor, passed: Tensor, at: Tensor) -> None:
        """Look at a piece's messages [edges, width], those that passed, to receivers `at` of the piece's."""
        top = self.maxima[piece.nodes].scatter_reduce_(0, at[:, None].expand_as(messages), messages, "amax")
        there = self.there[piece.edges]
        equal_there(messages, taken(top, at), passed, there)
        self.equal[piece.nodes] = (piece.plain_sums @ as_numbers(there, messages.dtype)).clamp_(min=1)


def _count(fan: Fan, width: int, reads: bool) -> None:
    """Note a pass over all edges: their sums, and the product with what they carry."""
    flops.count(fan.edges * width * (1 + (_carried(fan.values).shape[1] if reads else 0)))


def _carried(values: Tensor | None) -> Tensor:
    assert values is not None, "whoever has weights for them has seen that edges carry something"
    return values


def _pieces(node: NDArray[np.int64], share: Tensor, nodes: int) -> Iterator[_Piece]:
    """Pieces of edges whose nodes, int64 [edges], ascend, each to be multiplied by its share, float [edges]."""
    pointers = np.concatenate([[0], np.cumsum(np.bincount(node, minlength=nodes))])
    begins = np.arange(PIECE, len(node), PIECE) if share.is_cpu else np.zeros(0, np.int64)
    cuts: list[int] = np.unique([0, *np.searchsorted(pointers, begins), nodes]).tolist()
    for first, last in itertools.pairwise(cuts):
        begin, end = int(pointers[first]), int(pointers[last])
        own = int32(pointers[first : last + 1] - begin).to(share.device)
        every = torch.arange(end - begin, dtype=torch.int32, device=share.device)
        edges = slice(begin, end)
        yield _Piece(slice(first, last), edges, Csr(own, every, share[edges], end - begin))
