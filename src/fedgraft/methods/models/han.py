"""HAN: attention to the nodes that a metapath joins, and attention to metapaths."""

from collections.abc import Sequence
from dataclasses import dataclass

import scipy.sparse
import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import MetapathEncoder
from fedgraft.errors import require
from fedgraft.nn.attention import HeadedGraph, attend
from fedgraft.nn.layers import linear, normal, row_linear
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
    heads: int = 8
    slope: float = 0.2

    def __post_init__(self) -> None:
        require(self.heads >= 1, "HAN.heads", ">= 1", self.heads)
        fits = self.hidden >= 1 and self.hidden % self.heads == 0
        require(fits, "HAN.hidden", f"a positive multiple of heads = {self.heads}", self.hidden)
        require(0 <= self.slope < 1, "HAN.slope", "in [0, 1)", self.slope)

    @property
    def width(self) -> int:
        """Int, the width of an embedding."""
        return self.hidden

    def graph(self, matrix: scipy.sparse.csr_matrix) -> HeadedGraph:
        """The graph of one metapath, all heads."""
        return HeadedGraph(matrix, self.heads)

    def build(self, node_width: int, metapaths: int, g: torch.Generator) -> nn.Module:
        """Return the module."""
        return Attention(self, node_width, metapaths, g)


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
        mapped = self.inputs(features)
        values = mapped.view(len(mapped), self.options.heads, -1).transpose(0, 1).contiguous()
        ends = torch.cat([self.receiver, self.sender]).permute(1, 2, 0)
        receiver, sender = (values @ ends).permute(2, 0, 1).chunk(2)
        mixed = attend(values, receiver, sender, graphs, self.options.slope)
        states = torch.relu(mixed.transpose(1, 2).flatten(2))
        scores = torch.tanh(self.semantic(states)).mean(1) @ self.query
        return (scores.softmax(0) @ states.flatten(1)).view(states.shape[1:])
