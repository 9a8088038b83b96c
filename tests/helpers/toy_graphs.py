"""Graph shards small enough to check by hand, and a TU set as text files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedgraft.domains.graphs.shards import GraphShard, tidy_edges


def shard(
    edges: Sequence[Sequence[tuple[int, int]]],
    sizes: Sequence[int],
    label: Sequence[int],
    split: Sequence[int] | None = None,
    kind: Sequence[int] | None = None,
    kinds: int = 0,
    attributes: Sequence[Sequence[float]] | None = None,
    name: str = "toy",
) -> GraphShard:
    """Edges of each graph, once each, in its own node numbers."""
    nodes = sum(sizes)
    starts = np.cumsum([0, *sizes])
    ends = [(a + starts[g], b + starts[g]) for g, own in enumerate(edges) for a, b in own]
    return GraphShard(
        name=name,
        sizes=np.array(sizes, np.int64),
        edges=tidy_edges(np.array(ends, np.int64).reshape(-1, 2).T, np.array(sizes, np.int64), "edge")[0],
        kind=np.full(nodes, -1, np.int32) if kind is None else np.array(kind, np.int32),
        kinds=kinds,
        attributes=np.zeros((nodes, 0), np.float32) if attributes is None else np.array(attributes, np.float32),
        label=np.array(label, np.int64),
        classes=tuple(f"class {each}" for each in range(max(label) + 1)),
        split=np.zeros(len(sizes), np.int8) if split is None else np.array(split, np.int8),
        ids=np.arange(len(sizes)).astype(object),
    )


TRIANGLE, PATH, STAR = [(0, 1), (1, 2), (2, 0)], [(0, 1), (1, 2)], [(0, 1), (0, 2), (0, 3)]


def write_tu(
    root: Path, name: str = "MUTAG", graphs: int = 40, labels: bool = True, attributes: bool = False, seed: int = 0
) -> Path:
    """A made-up TU set in `root`/`name`/raw: triangles are of class 1, paths of class -1. Returns the raw folder."""
    raw = root / name / "raw"
    raw.mkdir(parents=True)
    g = np.random.default_rng(seed)
    lines = [f"{3 * k + a + 1}, {3 * k + b + 1}" for k in range(graphs) for a, b in (TRIANGLE, PATH)[k % 2]]
    back = [", ".join(reversed(line.split(", "))) for line in lines]
    indicator = [str(1 + node // 3) for node in range(3 * graphs)]
    files = {
        "A": lines + back,
        "graph_indicator": indicator,
        "graph_labels": [str((1, -1)[k % 2]) for k in range(graphs)],
    }
    if labels:
        files["node_labels"] = [str(value) for value in g.integers(1, 4, 3 * graphs)]
    if attributes:
        files["node_attributes"] = [f"{x:.3f}, {y:.3f}" for x, y in g.normal(size=(3 * graphs, 2))]
    for part, content in files.items():
        (raw / f"{name}_{part}.txt").write_text("\n".join(content) + "\n")
    return raw
