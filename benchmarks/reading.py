"""A table of edges read as own tables are, against pandas' own `read_csv` of the same file: time and memory."""

import multiprocessing as mp
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from fedgraft.domains.nodes.reading.tables import EDGES
from fedgraft.domains.tables.reader import read
from memory import resident
from timing import in_turns, ratio

COUNT = 5_000_000
"""Edges, between a fifth as many nodes."""
ENDS = replace(EDGES, columns=EDGES.columns[:2], folder="")
"""Their columns."""


def over_pandas(count: int = COUNT, repeats: int = 5) -> float:
    """Seconds of reading / those of pandas with its default types."""
    with _edges(count) as path:
        return ratio(
            in_turns({"ours": lambda _: ours(path), "pandas": lambda _: usual(path)}, repeats), "ours", "pandas"
        )


def codes_over_pandas(count: int = COUNT, repeats: int = 3) -> float:
    """Seconds of reading and numbering the ids of both ends, as text / those of pandas and its sorted `factorize`."""
    with _edges(count) as path:
        variants = {"ours": lambda _: coded(path), "pandas": lambda _: usually_coded(path)}
        return ratio(in_turns(variants, repeats), "ours", "pandas")


def memory_over_pandas(count: int = COUNT) -> float:
    """Peak memory of reading / that of pandas, each in a process of its own, without what it has before."""
    with _edges(count) as path:
        return _peak(ours, path) / _peak(usual, path)


def ours(path: Path) -> pd.DataFrame:
    """Read as a data set of own tables does."""
    return read(path, ENDS, ENDS.names(), "Nodes").frame


def usual(path: Path) -> pd.DataFrame:
    """Read as a user of pandas does."""
    return pd.read_csv(path)


def coded(path: Path) -> list[object]:
    """Read, and number the ids, text in ascending order."""
    rows = read(path, ENDS, ENDS.names(), "Nodes")
    return [rows[role].codes() for role in ENDS.roles]


def usually_coded(path: Path) -> list[object]:
    """Read, and number the ids, numbers in ascending order."""
    table = pd.read_csv(path)
    return [pd.factorize(table[name], sort=True) for name in table]


@contextmanager
def _edges(count: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.csv"
        ends = np.random.default_rng(0).integers(0, max(count // 5, 1), (count, 2))
        pd.DataFrame(ends, columns=list(ENDS.roles)).to_csv(path, index=False)
        yield path


def _peak(function: Callable[[Path], object], path: Path) -> int:
    with mp.get_context("spawn").Pool(1) as pool:
        return pool.apply(_grown, (function, path))


def _grown(function: Callable[[Path], object], path: Path) -> int:
    before = resident("VmRSS")
    kept = function(path)
    grown = resident("VmHWM") - before
    del kept
    return max(grown, 1)
