"""Read the citation graphs of Planetoid from their files, as PyG's reader does, whose import takes seconds."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from fedgraft.domains.nodes.reading.plain_pickles import load_plain

MATRICES = ("x", "tx", "allx", "y", "ty", "ally")
"""Features and one-hot labels: of training nodes, of test nodes, and of all but these."""
GAPS = ("citeseer",)
"""Sets that lack some of their test nodes: these have no features, and the first class."""


def read_planetoid(folder: Path, name: str) -> SimpleNamespace:
    """Return a set's x float32 [nodes, features], y int64 [nodes] and edge_index int64 [2, edges], without loops.

    Source: Yang et al., "Revisiting Semi-Supervised Learning with Graph Embeddings", ICML 2016; the order of nodes is
        that of `torch_geometric.io.read_planetoid_data`.

    Args:
        folder: with ind.NAME.x and the others.
        name: of the set, as the files have it.

    Raises `UnpicklingError` for a file that holds more than arrays and lists, of which nothing is run.
    """
    parts = {part: load_plain(folder / f"ind.{name}.{part}") for part in (*MATRICES, "graph")}
    _, tx, allx, _, ty, ally = (_dense(parts[part]) for part in MATRICES)
    tests = torch.tensor([int(line) for line in (folder / f"ind.{name}.test.index").read_text().split("\n")[:-1]])
    ordered = tests.sort()[0]
    if name in GAPS:
        tx, ty = (_spread(each, ordered - ordered[0]) for each in (tx, ty))
    x, y = torch.cat([allx, tx]), torch.cat([ally, ty]).max(dim=1)[1]
    x[tests], y[tests] = x[ordered], y[ordered]
    return SimpleNamespace(x=x, y=y, edge_index=_edges(parts["graph"], len(y)))


def _dense(matrix: Any) -> Tensor:
    """A sparse or dense matrix, dense, float32."""
    return torch.from_numpy(matrix.todense() if hasattr(matrix, "todense") else matrix).to(torch.float)


def _spread(rows: Tensor, places: Tensor) -> Tensor:
    """Rows at their places, and zeros between them."""
    whole = torch.zeros(int(places[-1]) + 1, rows.shape[1], dtype=rows.dtype)
    whole[places] = rows
    return whole


def _edges(neighbours: dict[int, list[int]], nodes: int) -> Tensor:
    """Edges [2, edges], each once and none a loop, in the order of their ends."""
    source = torch.tensor([node for node, others in neighbours.items() for _ in others])
    end = torch.tensor([other for others in neighbours.values() for other in others])
    key = torch.unique((end * nodes + source)[source != end])
    return torch.stack([key % nodes, key // nodes])
