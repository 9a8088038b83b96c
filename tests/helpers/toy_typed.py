"""Typed graphs of a few nodes, as values and as tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse

from fedgraft.domains.typed.shards import TypedGraph, once

WRITES = [(0, 0), (0, 1), (1, 1), (2, 2), (3, 2), (3, 0), (4, 3), (5, 3)]
"""Papers p0 .. p5 and authors a0 .. a3."""
APPEARS = [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 0)]
"""Papers and venues v0 and v1."""


def papers(
    label: Sequence[int] = (0, 1, 0, 1, 0, 1),
    writes: Sequence[tuple[int, int]] = WRITES,
    appears: Sequence[tuple[int, int]] = APPEARS,
    cites: Sequence[tuple[int, int]] | None = None,
    is_sparse: bool = False,
    metapaths: Sequence[str] = ("paper-author-paper", "paper-venue-paper"),
) -> TypedGraph:
    """A graph of papers, authors and venues; paper v is called "pv" and has the features v and 1."""
    count = len(label)
    edges = {("paper", "author"): writes, ("paper", "venue"): appears}
    if cites is not None:
        edges["paper", "paper"] = cites
    ends = {pair: np.array(some, np.int64).reshape(-1, 2).T for pair, some in edges.items()}
    sizes = {"paper": count, "author": 4, "venue": 2}
    for pair, places in ends.items():
        for kind, numbers in zip(pair, places, strict=True):
            sizes[kind] = max(sizes[kind], int(numbers.max(initial=-1)) + 1)
    features = np.stack([np.arange(count), np.ones(count)], axis=1).astype(np.float32)
    return TypedGraph(
        name="toy",
        target="paper",
        ids={kind: np.array([f"{kind[0]}{k}" for k in range(size)], dtype=object) for kind, size in sizes.items()},
        features=sparse.csr_matrix(features) if is_sparse else features,
        label=np.array(label, np.int64),
        classes=("class 0", "class 1"),
        split=np.full(count, -1, np.int8),
        edges={pair: once(places, pair[0] == pair[1]) for pair, places in ends.items()},
        metapaths=tuple(metapaths),
    )


def named(graph: TypedGraph) -> dict[str, list[tuple[str, str]]]:
    """{"paper-author": every edge by ids, in order}."""
    found = {}
    for (one, other), ends in graph.edges.items():
        pairs = zip(graph.ids[one][ends[0]], graph.ids[other][ends[1]], strict=True)
        found[f"{one}-{other}"] = sorted((str(a), str(b)) for a, b in pairs)
    return found


def same(graphs: Sequence[TypedGraph], others: Sequence[TypedGraph]) -> None:
    """Raise unless graph after graph is the same."""
    for graph, other in zip(graphs, others, strict=True):
        for key, value in vars(other).items():
            _same(key, vars(graph)[key], value)


def _same(key: str, found: object, value: object) -> None:
    if isinstance(value, Mapping):
        assert isinstance(found, Mapping)
        assert [*found] == [*value], key
        for name in value:
            _same(f"{key} {name}", found[name], value[name])
    elif isinstance(value, np.ndarray):
        np.testing.assert_array_equal(found, value, key)
    elif sparse.issparse(value):
        assert (found != value).nnz == 0, key
    else:
        assert found == value, key


def own_tables(count: int = 40, clients: int = 4) -> dict[str, dict[str, pd.DataFrame]]:
    """A user's own tables: papers of two classes with two features, authors and venues, and their edges."""
    row = np.arange(count)
    papers_table = pd.DataFrame(
        {
            "node": [f"p{k}" for k in row],
            "label": np.where(row % 2, "art", "law"),
            "client": [f"org {k % clients}" for k in row],
            "pages": row % 2 + row / 100,
            "year": row % 7,
        }
    )
    return {
        "nodes": {
            "paper": papers_table,
            "author": pd.DataFrame({"node": [f"a{k}" for k in range(8)], "name": "someone"}),
            "venue": pd.DataFrame({"node": [1, 2]}),
        },
        "edges": {
            "paper-author": pd.DataFrame({"source": [f"p{k}" for k in row], "target": [f"a{k % 8}" for k in row]}),
            "venue-paper": pd.DataFrame({"source": row % 2 + 1, "target": [f"p{k}" for k in row]}),
        },
    }


def write_heco(folder: Path, papers_count: int = 60, features: bool = True) -> None:
    """A made-up ACM in HeCo's files: three classes, 20 authors, 6 subjects."""
    folder.mkdir(parents=True, exist_ok=True)
    row = np.arange(papers_count)
    joined = {
        "pa": [*zip(row, row % 20, strict=True), *zip(row, row // 3 % 20, strict=True)],
        "ps": [*zip(row, row % 6, strict=True)],
    }
    for name, pairs in joined.items():
        (folder / f"{name}.txt").write_text("".join(f"{one}\t{other}\n" for one, other in pairs))
    np.save(folder / "labels.npy", (row % 3).astype(np.float64))
    if features:
        words = np.random.default_rng(0).random((papers_count, 30)) < 0.1
        sparse.save_npz(folder / "p_feat.npz", sparse.csr_matrix(words.astype(np.float64)))
