"""Pickles that hold arrays and nothing else: a file of somebody else must not run what it likes."""

import pickle
from pathlib import Path
from typing import Any

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
    """Return what a pickle holds. Raises `UnpicklingError` where it names anything but arrays, matrices and lists.

    Raises what `pickle` raises for a file that is damaged.
    """
    with path.open("rb") as file:
        return _Plain(file, encoding="latin1").load()
