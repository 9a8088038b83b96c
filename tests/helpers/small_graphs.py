"""Shards of graphs written as matrices."""

import numpy as np

from fedgraft.domains.graphs.shards import GraphShard

TRIANGLE = np.ones((3, 3)) - np.eye(3)
PAIR = np.array([[0, 1], [1, 0]])
LONE = np.zeros((1, 1))
PATH = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def shard_of(adjacencies: list[np.ndarray], kinds: int = 3, attributes: bool = False) -> GraphShard:
    """A shard of graphs given as dense matrices; node k of the shard has kind k modulo `kinds`."""
    sizes = np.array([len(a) for a in adjacencies])
    firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    edges = np.concatenate([np.argwhere(a) + first for a, first in zip(adjacencies, firsts, strict=True)])
    nodes, graphs = int(sizes.sum()), len(sizes)
    return GraphShard(
        name="here",
        sizes=sizes,
        edges=edges.T.astype(np.int32).reshape(2, -1),
        kind=(np.arange(nodes) % kinds).astype(np.int32),
        kinds=kinds,
        attributes=np.linspace(0, 1, 2 * nodes, dtype=np.float32).reshape(nodes, 2)[:, : 2 * attributes],
        label=np.arange(graphs) % 2,
        classes=("a", "b"),
        split=(np.arange(graphs) % 3).astype(np.int8),
        ids=np.arange(graphs).astype(object),
    )


def random_graphs(g: np.random.Generator, count: int, largest: int = 8) -> list[np.ndarray]:
    """Adjacencies, some without any edge."""
    matrices = []
    for size in g.integers(1, largest + 1, count):
        upper = np.triu(g.random((size, size)) < 0.4, 1)
        matrices.append((upper | upper.T).astype(float))
    return matrices
