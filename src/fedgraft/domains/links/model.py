"""The model of the task `link`: embeddings of nodes, and what makes a score of two of them."""

from typing import Final

import torch
from torch import Tensor, nn

from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.nn import flops
from fedgraft.nn.layers import linear

LIKENESS: Final = 10.0
"""Log odds that a cosine of 1 adds at first: cosines of nodes that have an edge are small, such as 0.2."""


class LinkModel(nn.Module):
    """A network from features to log odds that pairs of nodes have an edge; its weights are drawn from `g`.

    `nodes` makes embeddings, of so many numbers, `width`, as it has classes. The decoder is "product", their inner
    product and a bias; or "perceptron", of one hidden layer over their entrywise product. `likeness` says whether the
    cosine of the two nodes' features joins, by a weight that is learnt.
    """

    def __init__(self, nodes: NodeModel, width: int, decoder: str, likeness: bool, g: torch.Generator) -> None:
        super().__init__()
        self.nodes = nodes
        perceptron = decoder == "perceptron"
        self.inner = linear(width, width, g) if perceptron else None
        self.outer = linear(width, 1, g) if perceptron else None
        self.bias = None if perceptron else nn.Parameter(torch.zeros(1))
        self.likeness = nn.Parameter(torch.ones(1)) if likeness else None

    def forward(self, embeddings: Tensor, pairs: Tensor, cosines: Tensor | None) -> Tensor:
        """Return log odds, float32 [n], of `pairs`, int64 [2, n], rows of the embeddings, float32 [nodes, width].

        `cosines` are of their features, float32 [n]; None where these do not join.
        """
        odds = self._decoded(embeddings, pairs)
        if self.likeness is None or cosines is None:
            return odds
        flops.count((2 + 2 * torch.is_grad_enabled()) * len(cosines))
        return odds + LIKENESS * self.likeness * cosines

    def _decoded(self, embeddings: Tensor, pairs: Tensor) -> Tensor:
        joined = embeddings.index_select(0, pairs[0]) * embeddings.index_select(0, pairs[1])
        flops.count((1 + 2 * torch.is_grad_enabled()) * joined.numel())
        if self.bias is not None:
            return joined.sum(1) + self.bias
        assert self.inner is not None
        assert self.outer is not None
        odds: Tensor = self.outer(torch.relu(self.inner(joined)))
        return odds[:, 0]
