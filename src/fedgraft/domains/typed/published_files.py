"""Reads the files that published typed graphs come in, with errors that name the file and where to get it again."""

import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse

from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features, compact
from fedgraft.errors import InputError


class Files:
    """The files of a set in one folder; each can be downloaded from the address, by its name behind a "/"."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address

    def check(self, names: Sequence[str]) -> None:
        """Raise `InputError` for the first file that is not there."""
        for name in names:
            if not (self.folder / name).is_file():
                raise InputError(
                    f"TypedSets: no file {self.folder / name}; download {self.address}/{name} to there. TypedSets.root "
                    "(data.root in a recipe) is the set's folder, or one above it."
                )

    def wrong(self, name: str, why: str) -> InputError:
        """Return the error for a file that does not hold what it must."""
        return InputError(
            f"TypedSets: {self.folder / name} cannot be read ({why}); download it again from {self.address}/{name}."
        )

    def numbers(self, name: str, columns: int, separator: str | None = None) -> Indices:
        """Whole numbers of 0 or more, int64 [rows, columns], of a file with a row per line; None is for blanks."""
        with self._opened(name) as path:
            numbers = np.loadtxt(path, dtype=np.int64, delimiter=separator, ndmin=2)
            if numbers.shape[1] != columns:
                raise ValueError(f"{columns} numbers a line are needed, got {numbers.shape[1]}")
            if numbers.min() < 0:
                raise ValueError(f"numbers must be at least 0; line {(numbers < 0).any(axis=1).argmax() + 1} has less")
        return numbers

    def lists(self, name: str) -> Indices:
        """Pairs int64 [2, pairs] of a file with lines such as "3:8,9": a number, and those that it is joined to."""
        pairs: list[tuple[int, int]] = []
        with self._opened(name) as path:
            for line, text in enumerate(path.read_text().splitlines(), 1):
                first, _, others = text.strip().partition(":")
                try:
                    pairs += [(int(first), int(other)) for other in others.split(",") if other]
                except ValueError as error:
                    raise ValueError(f"line {line}: {error}") from error
            if not pairs:
                raise ValueError("no pairs")
        pairs_found = np.array(pairs, np.int64).T
        if pairs_found.min() < 0:
            raise self.wrong(name, f"numbers must be at least 0; got {pairs_found.min()}")
        return pairs_found

    def labels(self, name: str) -> Indices:
        """Whole numbers int64 [nodes] of an .npy file."""
        with self._opened(name) as path:
            values = np.load(path, allow_pickle=False)
            if values.ndim != 1 or not len(values) or (values % 1 != 0).any() or values.min() < 0:
                raise ValueError(f"it must be one class a node, 0 or more; got {values.dtype} of {list(values.shape)}")
            label: Indices = values.astype(np.int64)
        return label

    def matrix(self, name: str) -> Features:
        """float32 [nodes, f] of an .npz file that `scipy.sparse.save_npz` wrote."""
        with self._opened(name) as path:
            if not zipfile.is_zipfile(path):  # np.load would leave it open
                raise zipfile.BadZipFile("it is no .npz archive, or cut off")
            matrix = sparse.load_npz(path).tocsr().astype(np.float32)
            if not np.isfinite(matrix.data).all():
                raise ValueError("features must be finite numbers")
            matrix.sort_indices()
        return compact(matrix)

    def table(self, name: str, columns: Sequence[str]) -> pd.DataFrame:
        """Return some columns of a CSV file with a header, as text; empty fields are missing."""
        with self._opened(name) as path:
            table: pd.DataFrame = pd.read_csv(path, usecols=list(columns), dtype=str)
        return table

    def lines(self, name: str) -> list[list[str]]:
        """Return the words of each line that has some."""
        with self._opened(name) as path:
            return [words for text in path.read_text().splitlines() if (words := text.split())]

    @contextmanager
    def _opened(self, name: str) -> Iterator[Path]:
        """Make what readers raise for a damaged file an `InputError`."""
        damaged = (OSError, ValueError, KeyError, EOFError, IndexError, AttributeError, zipfile.BadZipFile, zlib.error)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # of an empty file
                yield self.folder / name
        except (*damaged, UserWarning) as error:
            raise self.wrong(name, f"{type(error).__name__}: {' '.join(str(error).split())}") from error
