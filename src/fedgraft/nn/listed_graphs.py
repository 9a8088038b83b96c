"""Graphs as a trained model reads them outside a run: edges in a list, all in torch, so that gradients pass."""

from collections.abc import Callable, Mapping
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


Given = Mapping[str, Tensor]
"""What a trained model reads beside features of nodes and edges, by name; of edges:

edge_attr: float32 [edges, any], what they carry; edge_weight: float32 [edges], how much each counts; along: bool
[edges], whether it goes from its source to its target.
"""


def block_of(edge_index: Tensor, nodes: int, given: Given, graph: Tensor | None = None) -> Block:
    """Return the layer over so many nodes of graphs whose edges are listed, int64 [2, edges], source over target.

    `graph`, int64 [nodes], ascending, is the graph of each node, which a network over whole graphs reads.
    """
    order = torch.argsort(edge_index[1], stable=True)
    read = {name: given[name][order] for name in ("edge_attr", "edge_weight", "along") if name in given}
    sender, receiver = edge_index[:, order]
    count = torch.ones(len(order), device=order.device)
    weight = read.get("edge_weight")
    times = count if weight is None else weight
    degree = torch.zeros(nodes, device=order.device).index_add(0, receiver, times)
    edges = EdgeValues(read.get("edge_attr", count[:, None][:, :0]), read.get("along", count > 0), weight)
    matrix, every = ListedMatrix(receiver, sender, times, (nodes, nodes)), torch.arange(nodes, device=order.device)
    parts: Any = matrix, every, degree, degree, edges if read else None
    return Block(*parts) if graph is None else Subgraph(*parts, graph=graph, graphs=torch.unique(graph))


class GraphReader(nn.Module):
    """A trained model of a graph.

    `reads` are names of what it reads beside features of nodes and edges, in order. `unit`, if given, is that of
    numbers: with attributes `spread`, of which outputs are multiples, and `mean`, which is added.
    """

    outputs: Callable[[Tensor, Tensor, Given], Tensor]
    """From features of nodes, float32 [nodes, any], edges and what else is given to outputs."""

    def __init__(self, reads: tuple[str, ...], unit: Any = None) -> None:
        super().__init__()
        self.reads = reads
        self.spread, self.mean = (1.0, 0.0) if unit is None else (float(unit.spread), float(unit.mean))

    def forward(self, x: Tensor, edge_index: Tensor, *more: Tensor | None, **named: Tensor | None) -> Tensor:
        """Return the outputs; further arguments are those that the model reads, in their order or by name."""
        given = dict(zip(self.reads[: len(more)], more, strict=True)) | named
        there = {name: each for name, each in given.items() if each is not None}
        return self.outputs(x, edge_index, there) * self.spread + self.mean
