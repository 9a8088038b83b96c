"""Reads the published graphs whose nodes are classified, by PyG's readers, or by its and OGB's data sets.

The seven small ones are read from their raw files, laid out as PyG lays them out (ROOT/NAME/raw/FILE); nothing is
written. PyG and OGB download the large ones themselves, and keep in the root what they made of them.
"""

import importlib
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedgraft.domains.dealing import Collection
from fedgraft.domains.nodes.base.shards import WholeGraph
from fedgraft.domains.nodes.reading.planetoid_files import read_planetoid
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
    of_ogb = published.loader.startswith("ogbn")
    open_set: Callable[[], Any]
    if of_ogb:
        try:
            library = importlib.import_module("ogb.nodeproppred")
        except ImportError as error:
            raise InputError(
                f"PygNodes: {published.title} is read by the package ogb, which cannot be imported ({error}): "
                f"pip install ogb. The set is at {published.address}."
            ) from error

        def open_set() -> Any:
            return library.PygNodePropPredDataset(published.loader, root=str(root))
    else:
        library = importlib.import_module("torch_geometric.datasets")

        def open_set() -> Any:
            return getattr(library, published.loader)(str(root / published.title))

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
