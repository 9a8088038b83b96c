"""Graphs as a trained model reads them outside a run: edges in a list, all in torch, so that gradients pass."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fedgraft.nn.propagate import Block, EdgeValues
from fedgraft.nn.whole_networks import Subgraph


class ListedMatrix:
    """A sparse matrix as its entries, with what layers use of a `Sparse`.

    Args:
        rows: int64 [entries]; columns: int64 [entries]; values: float32 [entries].
        shape: (rows, columns).
    """

    def __init__(self, rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> None:
        self.listed, self.shape = (rows, columns, values), shape

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Return the product with [columns, width], float32 [rows, width]."""
        rows, columns, values = self.listed
        return dense.new_zeros(self.shape[0], dense.shape[1]).index_add(0, rows, values[:, None] * dense[columns])

    def scaled(self, by_row: Tensor, by_column: Tensor | None = None) -> "ListedMatrix":
        """Return it with rows multiplied by numbers [rows], and columns by numbers [columns]."""
        rows, columns, values = self.listed
        values = values * by_row[rows]
        return ListedMatrix(rows, columns, values if by_column is None else values * by_column[columns], self.shape)

    def with_ones(self, place: Tensor) -> "ListedMatrix":
        """One more at a place, int64 [rows], of every row."""
        rows, columns, values = self.listed
        every = torch.arange(len(place), device=place.device)
        listed = torch.cat([rows, every]), torch.cat([columns, place]), torch.cat([values, values.new_ones(len(place))])
        return ListedMatrix(*listed, self.shape)

    def filled(self) -> None:
        """Return None: no rows are left out."""


def block_of(
    edge_index: Tensor,
    nodes: int,
    edge_attr: Tensor | None = None,
    edge_weight: Tensor | None = None,
    along: Tensor | None = None,
    graph: Tensor | None = None,
) -> Block:
    """Return the layer over all nodes of graphs whose edges are listed.

    Args:
        edge_index: int64 [2, edges], source over target.
        nodes: how many there are.
        edge_attr: float32 [edges, any], what edges carry.
        edge_weight: float32 [edges], how much each counts.
        along: bool [edges], whether it goes from its source to its target.
        graph: int64 [nodes], ascending, for a network over whole graphs.
    """
    order = torch.argsort(edge_index[1], stable=True)
    sender, receiver = edge_index[:, order]
    count = torch.ones(len(order), device=order.device)
    weight = count if edge_weight is None else edge_weight[order]
    degree = torch.zeros(nodes, device=order.device).index_add(0, receiver, weight)
    edges = None
    if not (edge_attr is None and edge_weight is None and along is None):
        values = count[:, None][:, :0] if edge_attr is None else edge_attr[order]
        along = count > 0 if along is None else along[order]
        edges = EdgeValues(values, along, None if edge_weight is None else weight)
    matrix = ListedMatrix(receiver, sender, weight, (nodes, nodes))
    parts: Any = matrix, torch.arange(nodes, device=order.device), degree, degree, edges
    return Block(*parts) if graph is None else Subgraph(*parts, graph=graph, graphs=torch.unique(graph))


class GraphReader(nn.Module):
    """A trained model of a graph.

    `reads` are names of what it reads beside features of nodes and edges, in order. `unit`, if given, is that of
    numbers: with attributes `spread`, of which outputs are multiples, and `mean`, which is added.
    """

    outputs: Callable[..., Tensor]
    """From what `forward` is given, all further arguments by name, to outputs."""

    def __init__(self, reads: tuple[str, ...], unit: Any = None) -> None:
        super().__init__()
        self.reads = reads
        self.spread, self.mean = (1.0, 0.0) if unit is None else (float(unit.spread), float(unit.mean))

    def forward(self, x: Tensor, edge_index: Tensor, *more: Tensor, **named: Tensor) -> Tensor:
        """Return the outputs; further arguments are those that the model reads, in their order or by name."""
        given = dict(zip(self.reads[: len(more)], more, strict=True)) | named
        return self.outputs(x, edge_index, **given) * self.spread + self.mean
