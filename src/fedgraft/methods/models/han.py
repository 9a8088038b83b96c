"""HAN: attention to the nodes that a metapath joins, and attention to metapaths."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import scipy.sparse
import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import MetapathEncoder
from fedgraft.contracts.ranges import PositiveInt, ProperFraction
from fedgraft.errors import require
from fedgraft.nn import flops
from fedgraft.nn.attention import HeadedGraph, attend
from fedgraft.nn.layers import linear, normal, row_linear
from fedgraft.nn.manual_gradients import relu_back
from fedgraft.nn.propagate import States


@dataclass(frozen=True)
class HAN(MetapathEncoder):
    """HAN: attention to the nodes that a metapath joins, and attention to metapaths.

    Features are mapped, W x. For each metapath a node's state is relu(sum over what it joins to the node of a W x), a
    being the softmax of leaky_relu(r . W x_i + s . W x_j), in several heads that are concatenated. What a metapath
    weighs is the softmax of q . mean over the client's nodes of tanh(K state + b); the output is the weighted sum.

    Source: Wang et al., "Heterogeneous Graph Attention Network", WWW 2019, Eq. (1)-(9); parameters as PyG's `HANConv`,
        whose outputs it equals.
    Differs: relu in place of ELU, as PyG's. A node always attends to itself, too. No dropout of attention.

    Args:
        hidden: width of the output, a multiple of `heads` (RAFHGL: 128).
        heads: attention heads, >= 1 (RAFHGL: 8).
        slope: of leaky_relu below 0, in [0, 1).
    """

    hidden: int = 128
    heads: PositiveInt = 8
    slope: ProperFraction = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.hidden >= 1 and self.hidden % self.heads == 0
        require(fits, "HAN.hidden", f"a positive multiple of heads = {self.heads}", self.hidden)

    @property
    def width(self) -> int:
        """Int, the width of an embedding."""
        return self.hidden

    def graph(self, matrix: scipy.sparse.csr_matrix) -> HeadedGraph:
        """The graph of one metapath, [nodes, nodes], all heads."""
        return HeadedGraph(matrix, self.heads)

    def build(self, node_width: int, path_widths: Sequence[int], g: torch.Generator) -> nn.Module:
        """Return the module."""
        return Attention(self, node_width, len(path_widths), g)


class Attention(nn.Module):
    """The module of `HAN`."""

    def __init__(self, options: HAN, inputs: int, metapaths: int, g: torch.Generator) -> None:
        super().__init__()
        heads, width = options.heads, options.hidden // options.heads
        self.options = options
        self.inputs = row_linear(inputs, options.hidden, g)
        spread = (2.0 / (1 + width)) ** 0.5  # Glorot and Bengio, AISTATS 2010, as PyG draws them
        self.receiver = normal(metapaths, heads, width, std=spread, g=g)
        self.sender = normal(metapaths, heads, width, std=spread, g=g)
        self.semantic = linear(options.hidden, options.hidden, g)
        self.query = normal(options.hidden, std=(2.0 / (1 + options.hidden)) ** 0.5, g=g)

    def forward(self, features: States, graphs: Sequence[HeadedGraph]) -> Tensor:
        """Return embeddings [nodes, hidden]."""
        semantic = self.semantic.weight, self.semantic.bias, self.query
        learnt = self.inputs(features), self.receiver, self.sender, *semantic
        mixed: Tensor = _Mixed.apply(*learnt, graphs, self.options.slope)  # type: ignore[no-untyped-call]
        return mixed


class _Mixed(torch.autograd.Function):
    """Both attentions, with their gradient by hand: at a small client autograd's steps are a tenth of the time."""

    @staticmethod
    def forward(ctx: Any, mapped: Tensor, receiver: Tensor, sender: Tensor, *others: Any) -> Tensor:
        *semantic, graphs, slope = others
        states, ctx.states_back = _metapath_states(mapped, receiver, sender, graphs, slope)
        mixed, ctx.mixed_back = _weighed(states, *semantic)
        return mixed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        to_states, *to_semantic = ctx.mixed_back(gradient)
        return *ctx.states_back(to_states), *to_semantic, None, None


_Back: TypeAlias = Callable[[Tensor], tuple[Tensor, ...]]
"""Gives the gradients of a function's arguments, in their order, for that of its result."""


def _metapath_states(
    mapped: Tensor, receiver: Tensor, sender: Tensor, graphs: Sequence[HeadedGraph], slope: float
) -> tuple[Tensor, _Back]:
    """Return the nodes' states for each metapath, float32 [metapaths, nodes, hidden]."""
    values = mapped.view(len(mapped), receiver.shape[1], -1).transpose(0, 1).contiguous()
    ends = torch.cat([receiver, sender]).permute(1, 2, 0).contiguous()
    to, by = (values @ ends).permute(2, 0, 1).contiguous().chunk(2)
    mixed, attend_back = attend(values, to, by, graphs, slope)
    states = torch.relu(mixed.transpose(1, 2).flatten(2))

    def back(gradient: Tensor) -> tuple[Tensor, ...]:
        by_node = relu_back(states, gradient).view(*states.shape[:2], *values.shape[::2])
        to_values, *to_scores = attend_back(by_node.transpose(1, 2).contiguous())
        both = torch.cat(to_scores).permute(1, 2, 0).contiguous()
        to_values.baddbmm_(both, ends.transpose(1, 2))
        to_ends = (values.transpose(1, 2) @ both).permute(2, 0, 1)
        return to_values.transpose(0, 1).flatten(1), *to_ends.chunk(2)

    return states, back


def _weighed(states: Tensor, weight: Tensor, bias: Tensor, query: Tensor) -> tuple[Tensor, _Back]:
    """Return the mean of the metapaths' states, weighed by the attention to metapaths, float32 [nodes, hidden]."""
    flat = states.flatten(0, 1)
    flops.count(len(flat) * weight.numel())
    keys = torch.addmm(bias, flat, weight.t()).tanh_().view(states.shape)
    key = keys.mean(1)
    shares = (key @ query).softmax(0)

    def back(gradient: Tensor) -> tuple[Tensor, ...]:
        flops.count(2 * len(flat) * weight.numel())
        gradient = gradient.flatten()
        to_shares = states.flatten(1) @ gradient
        to_scores = shares * (to_shares - shares @ to_shares)
        to_key = torch.outer(to_scores / states.shape[1], query)
        to_keys = _TANH_BACK(to_key[:, None].expand_as(keys), keys).flatten(0, 1)
        to_states = (to_keys @ weight).view(len(states), -1).addr_(shares, gradient).view(states.shape)
        return to_states, to_keys.t() @ flat, to_keys.sum(0), to_scores @ key

    return (shares @ states.flatten(1)).view(states.shape[1:]), back


_TANH_BACK = torch.ops.aten.tanh_backward
