"""Metapath means: a perceptron over a node's features and their means over the nodes that metapaths join to it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import MetapathEncoder
from fedgraft.errors import require
from fedgraft.nn.layers import linear, row_linear
from fedgraft.nn.propagate import Sparse, States


@dataclass(frozen=True)
class MetapathMeans(MetapathEncoder):
    """Metapath means: a perceptron over a node's features and their means over the nodes that metapaths join to it.

    relu(V relu(W_0 x_i + sum over metapaths of W_p mean of x_j)), the mean being over the other nodes j that the
    metapath p joins to i.

    Source: Yang et al., "Simple and Efficient Heterogeneous Graph Neural Network" (SeHGNN), AAAI 2023, means over
        metapaths' neighbours.
    Differs: their means are added where SeHGNN weighs them by a transformer; of the target type's features alone.

    Args:
        hidden: width of both layers, >= 1.
        layers: 1, or 2 with the layer V.
        edges: whether there are means; without them it is a perceptron that sees no edges.
    """

    hidden: int = 128
    layers: int = 2
    edges: bool = True

    def __post_init__(self) -> None:
        require(self.hidden >= 1, "MetapathMeans.hidden", ">= 1", self.hidden)
        require(self.layers in (1, 2), "MetapathMeans.layers", "1 or 2", self.layers)

    @property
    def width(self) -> int:
        """Int, the width of an embedding."""
        return self.hidden

    def graph(self, matrix: scipy.sparse.csr_matrix) -> Sparse:
        """The matrix that averages over others, [nodes, nodes]."""
        entries = matrix.tocoo()
        other = entries.row != entries.col
        rows, columns = entries.row[other], entries.col[other]
        order = np.lexsort((columns, rows))
        counts = np.bincount(rows, minlength=matrix.shape[0])
        values = (1.0 / counts[rows]).astype(np.float32)
        return Sparse(rows[order], columns[order], values[order], matrix.shape)

    def build(self, node_width: int, metapaths: int, g: torch.Generator) -> nn.Module:
        """Return the module."""
        return Means(self, node_width, metapaths, g)


class Means(nn.Module):
    """The module of `MetapathMeans`."""

    def __init__(self, options: MetapathMeans, inputs: int, metapaths: int, g: torch.Generator) -> None:
        super().__init__()
        self.own = row_linear(inputs, options.hidden, g)
        paths = metapaths if options.edges else 0
        self.means = nn.ModuleList(row_linear(inputs, options.hidden, g, bias=False) for _ in range(paths))
        self.outer = linear(options.hidden, options.hidden, g) if options.layers == 2 else None

    def forward(self, features: States, graphs: Sequence[Sparse]) -> Tensor:
        """Return embeddings [nodes, hidden]."""
        state: Tensor = self.own(features)
        for layer, graph in zip(self.means, graphs, strict=False):
            state = state + graph @ layer(features)  # means of what is mapped: the same, and narrower
        state = torch.relu(state)
        return state if self.outer is None else torch.relu(self.outer(state))
