"""Read the citation graphs of Planetoid from their files, as PyG's reader does, whose import takes seconds."""

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

PLAIN = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("scipy.sparse.csr", "csr_matrix"),
    ("scipy.sparse._csr", "csr_matrix"),
    ("collections", "defaultdict"),
    ("__builtin__", "list"),
    ("builtins", "list"),
}
"""(module, name) of what arrays, sparse matrices and lists of neighbours are made of."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in PLAIN:
            raise pickle.UnpicklingError(f"it would call {module}.{name}, which no array needs")
        return super().find_class("scipy.sparse" if module.startswith("scipy") else module, name)  # its name of now


def load_plain(path: Path) -> Any:
    """Return what a pickle holds.

    Raises `UnpicklingError` where it names anything but arrays, matrices and lists, or more than memory can hold, and
    what `pickle` raises for a file that is damaged.
    """
    with path.open("rb") as file:
        try:
            return _Plain(file, encoding="latin1").load()
        except (MemoryError, OverflowError) as error:
            raise pickle.UnpicklingError("it says that it holds more than memory can") from error


MATRICES = ("x", "tx", "allx", "y", "ty", "ally")
"""Features and one-hot labels: of training nodes, of test nodes, and of all but these."""
GAPS = ("citeseer",)
"""Sets that lack some of their test nodes: these have no features, and the first class."""


def read_planetoid(folder: Path, name: str) -> SimpleNamespace:
    """Return a set's x float32 [nodes, features], y int64 [nodes] and edge_index int64 [2, edges], without loops.

    Source: Yang et al., "Revisiting Semi-Supervised Learning with Graph Embeddings", ICML 2016; the order of nodes is
        that of `torch_geometric.io.read_planetoid_data`.

    The folder has ind.NAME.x and the others. Raises `UnpicklingError` for a file that holds more than arrays and lists,
    of which nothing is run.
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
