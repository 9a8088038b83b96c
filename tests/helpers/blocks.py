"""Layers over small undirected graphs, without any colours."""

import numpy as np
import torch

from fedgraft.nn.propagate import Block, Sparse


def block_of(adjacency: np.ndarray) -> Block:
    """Every node receives and sends; entry (i, j) says how many edges there are."""
    rows, columns = np.nonzero(adjacency)
    matrix = Sparse(rows, columns, adjacency[rows, columns], (len(adjacency), len(adjacency)))
    degree = torch.from_numpy(adjacency.sum(1).astype(np.float32))
    return Block(matrix, torch.arange(len(adjacency)), degree, degree)


def edges_of(pairs: list[tuple[int, int]], nodes: int) -> np.ndarray:
    """The adjacency of an undirected graph."""
    adjacency = np.zeros((nodes, nodes))
    for one, other in pairs:
        adjacency[one, other] = adjacency[other, one] = 1
    return adjacency
