"""Reads the published graphs whose nodes are classified, by PyG's readers, or by its and OGB's data sets.

The seven small ones are read from their raw files, laid out as PyG lays them out (ROOT/NAME/raw/FILE); nothing is
written. PyG and OGB download the large ones themselves, and keep in the root what they made of them.
"""

import importlib
import pickle
import zipfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedgraft.domains.dealing import Collection
from fedgraft.domains.nodes.base.shards import WholeGraph
from fedgraft.domains.nodes.reading.pyg_objects import collection_of
from fedgraft.domains.nodes.reading.pyg_sets import SETS, Published
from fedgraft.domains.tables.pyg_objects import known_classes
from fedgraft.errors import InputError


def read_set(root: Path, name: str) -> Collection[WholeGraph]:
    """Read one of `SETS`, whole, split by nobody.

    `root` has PubMed/raw/ind.pubmed.x ..., CS/raw/ms_academic_cs.npz ..., or is where downloads go.
    """
    published = SETS[name]
    classes: tuple[str, ...] = ()
    if not published.files:
        data = _downloaded(root, published)
    else:
        folder = root / published.title / "raw"
        for file in published.files:
            if not (folder / file).is_file():
                raise InputError(f"PygNodes: no file {folder / file}; download {published.address}/{file} to there.")
        data, classes = _read(folder, published)
    y = data.y if data.y.ndim == 1 or data.y.shape[1] == 1 else _commonest(data.y.numpy())
    # All up to the highest are published classes, also one that is no node's commonest label.
    classes = classes or tuple(str(each) for each in range(int(y.max()) + 1))
    return collection_of(SimpleNamespace(x=data.x, y=y, edge_index=data.edge_index), published.title, classes=classes)


def _read(folder: Path, published: Published) -> tuple[Any, tuple[str, ...]]:
    """(the graph, names of its classes if the files tell)."""
    try:
        if len(published.files) > 1:
            return read_planetoid(folder, published.title.lower()), ()
        path = folder / published.files[0]
        if not zipfile.is_zipfile(path):  # np.load would leave it open
            raise zipfile.BadZipFile("it is no .npz archive, or cut off")
        from torch_geometric.io import read_npz  # takes seconds

        data = read_npz(str(path))
        with np.load(path, allow_pickle=False) as arrays:
            names = arrays["class_names"].tolist() if "class_names" in arrays else []
        return data, tuple(map(str, names))
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, EOFError, RuntimeError) as error:
        damaged: Exception = error
    except (pickle.UnpicklingError, zipfile.BadZipFile) as error:
        damaged = error
    files = published.files[0] if len(published.files) == 1 else f"{published.files[0].rpartition('.')[0]}.*"
    raise InputError(
        f"PygNodes: {folder / files} cannot be read ({type(damaged).__name__}: {damaged}); download it again from "
        f"{published.address}."
    ) from damaged


def _downloaded(root: Path, published: Published) -> Any:
    if published.loader.startswith("ogbn"):
        try:
            library = importlib.import_module("ogb.nodeproppred")
        except ImportError as error:
            raise InputError(
                f"PygNodes: {published.title} is read by the package ogb, which cannot be imported ({error}): "
                f"pip install ogb. The set is at {published.address}."
            ) from error
        open_set = partial(library.PygNodePropPredDataset, published.loader, root=str(root))
    else:
        library = importlib.import_module("torch_geometric.datasets")
        open_set = partial(getattr(library, published.loader), str(root / published.title))
    try:
        with known_classes("Data"):
            return open_set()[0]
    except Exception as error:  # whatever a download and a library's own reading may raise
        raise InputError(
            f"PygNodes: {published.title} could not be downloaded to, or read from, {root} ({type(error).__name__}: "
            f"{error}). It is at {published.address}."
        ) from error


def _commonest(several: Any) -> Any:
    """Return the label of each node that most nodes have, of 0 or 1 [nodes, labels]; -1 where a node has none."""
    import torch

    counts = several.sum(axis=0)
    best = np.where(several > 0, counts[None, :] + 1, 0).argmax(axis=1)
    return torch.from_numpy(np.where(several.any(axis=1), best, -1))


# --- planetoid files --------------------------------------------------------------------------------------------------


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
