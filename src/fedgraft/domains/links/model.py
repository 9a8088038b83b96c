"""The model of the task `link`: embeddings of nodes, and what makes a score of two of them."""

from typing import Final

import torch
from torch import Tensor, nn

from fedgraft.domains.nodes.model import NodeModel
from fedgraft.nn import flops
from fedgraft.nn.layers import linear

DECODERS: Final = ("product", "perceptron")


class LinkModel(nn.Module):
    """A network from features to log odds that pairs of nodes have an edge.

    Args:
        nodes: makes embeddings, of so many numbers as it has classes.
        width: of an embedding.
        decoder: "product", their inner product and a bias; or "perceptron", of one hidden layer over their entrywise
            product.
        g: what it is drawn from.
    """

    def __init__(self, nodes: NodeModel, width: int, decoder: str, g: torch.Generator) -> None:
        super().__init__()
        self.nodes = nodes
        perceptron = decoder == "perceptron"
        self.inner = linear(width, width, g) if perceptron else None
        self.outer = linear(width, 1, g) if perceptron else None
        self.bias = None if perceptron else nn.Parameter(torch.zeros(1))

    def forward(self, embeddings: Tensor, pairs: Tensor) -> Tensor:
        """Return log odds, float32 [n].

        Args:
            embeddings: float32 [nodes, width].
            pairs: int64 [2, n], rows of them.
        """
        joined = embeddings.index_select(0, pairs[0]) * embeddings.index_select(0, pairs[1])
        flops.count((1 + 2 * torch.is_grad_enabled()) * joined.numel())
        if self.bias is not None:
            return joined.sum(1) + self.bias
        assert self.inner is not None
        assert self.outer is not None
        odds: Tensor = self.outer(torch.relu(self.inner(joined)))
        return odds[:, 0]
