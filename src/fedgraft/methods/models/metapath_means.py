"""Metapath means: a perceptron over a node's features and their means over the nodes that metapaths join to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import CARRIED, MetapathEncoder, Paths
from fedgraft.contracts.ranges import PositiveInt
from fedgraft.errors import require
from fedgraft.nn.edge_messages import Fan, edge_messages
from fedgraft.nn.layers import linear, row_linear
from fedgraft.nn.propagate import Sparse, States


@dataclass(frozen=True)
class MetapathMeans(MetapathEncoder):
    """Metapath means: a perceptron over a node's features and their means over the nodes that metapaths join to it.

    relu(V relu(W_0 x_i + sum over metapaths of W_p mean of x_j)), the mean being over the other nodes j that the
    metapath p joins to i, by weight where edges have weights. Where they carry columns, the mean is of
    relu(W_p x_j + U_p e_ij + b_p), e_ij being the means of these over the paths from i to j, and i is among the j where
    a path leads back to it.

    Source: Yang et al., "Simple and Efficient Heterogeneous Graph Neural Network" (SeHGNN), AAAI 2023, means over
        metapaths' neighbours; messages of Hu et al., "Strategies for Pre-training Graph Neural Networks", ICLR 2020.
    Differs: their means are added where SeHGNN weighs them by a transformer; of the target type's features alone.

    Args:
        hidden: width of both layers, >= 1.
        layers: 1, or 2 with the layer V.
        edges: whether there are means; without them it is a perceptron that sees no edges.
    """

    hidden: PositiveInt = 128
    layers: int = 2
    edges: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.layers in (1, 2), "MetapathMeans.layers", "1 or 2", self.layers)

    @property
    def width(self) -> int:
        """Int, the width of an embedding."""
        return self.hidden

    def reads(self, inputs: int, edge_width: int) -> frozenset[str]:
        """Columns and weights; nothing without means."""
        return frozenset(CARRIED) if self.edges else frozenset()

    def graph(self, matrix: scipy.sparse.csr_matrix) -> Sparse:
        """The matrix that averages over others, [nodes, nodes]."""
        return _averaging(scipy.sparse.csr_matrix((np.ones(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape))

    def carried_graph(self, paths: Paths) -> "PathGraph":
        """The matrix that averages over others by weight; or who sends to whom, with what edges carry."""
        if not paths.values.shape[1]:
            return _averaging(paths.matrix)
        entries = paths.matrix.tocoo()
        ends = torch.from_numpy(np.stack([entries.col, entries.row]).astype(np.int64))
        weight = torch.from_numpy(entries.data.astype(np.float32))
        return PathMessages(ends, weight, torch.from_numpy(paths.values), paths.matrix.shape[0])

    def build(self, node_width: int, path_widths: Sequence[int], g: torch.Generator) -> nn.Module:
        """Return the module."""
        return Means(self, node_width, path_widths, g)


@dataclass(frozen=True, eq=False)
class PathMessages:
    """Who sends to whom along a metapath, and what its edges carry.

    Args:
        ends: int64 [2, entries], senders and receivers; the latter ascend.
        weight: float32 [entries], how much each counts.
        values: float32 [entries, any].
        nodes: how many there are.
    """

    ends: Tensor
    weight: Tensor
    values: Tensor
    nodes: int

    @cached_property
    def fan(self) -> Fan:
        """As messages take it; made once."""
        sender, receiver = self.ends
        return Fan(sender, receiver, self.weight, self.values, (self.nodes, self.nodes))

    def to(self, device: str | torch.device) -> "PathMessages":
        """Return the same on another device."""
        return PathMessages(self.ends.to(device), self.weight.to(device), self.values.to(device), self.nodes)


PathGraph: TypeAlias = Sparse | PathMessages
"""One metapath, as the module reads it."""


def _averaging(matrix: scipy.sparse.csr_matrix) -> Sparse:
    """The matrix that averages over others by how much they count, [nodes, nodes]."""
    entries = matrix.tocoo()
    other = entries.row != entries.col
    rows, columns, counts = entries.row[other], entries.col[other], entries.data[other]
    order = np.lexsort((columns, rows))
    values = (counts / np.bincount(rows, counts, minlength=matrix.shape[0])[rows]).astype(np.float32)
    return Sparse(rows[order], columns[order], values[order], matrix.shape)


class Means(nn.Module):
    """The module of `MetapathMeans`."""

    def __init__(self, options: MetapathMeans, inputs: int, path_widths: Sequence[int], g: torch.Generator) -> None:
        super().__init__()
        self.own = row_linear(inputs, options.hidden, g)
        widths = path_widths if options.edges else ()
        self.means = nn.ModuleList(row_linear(inputs, options.hidden, g, bias=width > 0) for width in widths)
        carried = {str(path): width for path, width in enumerate(widths) if width}
        self.carried = nn.ModuleDict(
            {path: linear(width, options.hidden, g, bias=False) for path, width in carried.items()}
        )
        self.outer = linear(options.hidden, options.hidden, g) if options.layers == 2 else None

    def forward(self, features: States, graphs: Sequence[PathGraph]) -> Tensor:
        """Return embeddings [nodes, hidden]."""
        state: Tensor = self.own(features)
        for path, (layer, graph) in enumerate(zip(self.means, graphs, strict=False)):
            if isinstance(graph, PathMessages):
                state = state + edge_messages(layer(features), self.carried[str(path)].used, graph.fan)  # type: ignore[arg-type]
            else:
                state = state + graph @ layer(features)  # means of what is mapped: the same, and narrower
        state = torch.relu(state)
        return state if self.outer is None else torch.relu(self.outer(state))
