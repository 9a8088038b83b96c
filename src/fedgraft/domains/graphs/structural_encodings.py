"""Describe a node's place in its graph without any feature."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.nn.sparse import ranges

Doubles = NDArray[np.float64]

ENTRIES = 1 << 22
"""Pairs of nodes of one graph that are looked at together: three matrices of 32 MB."""
FILLING = 4
"""Mean number of neighbours from which walks soon lead from everywhere to everywhere, so that zeros are not worth
leaving out (measured: molecules have 2 and proteins 4, where they are; residues of DD have 5)."""
GROWTH = 1.25
"""A graph's matrix has the size of the largest that is looked at together with it: at most so many times its own."""
LARGEST = 1000
"""Nodes of a graph that is looked at with its zeros."""


def places(shard: GraphShard, steps: int, degrees: int) -> NDArray[np.float32]:
    """Features of the nodes' places, float32 [nodes, steps + degrees].

    The chance that a random walk is back after 1 .. `steps` steps, diag((A D^-1)^k), and the node's degree as one of
    `degrees` columns, clipped to 1 .. `degrees`. A walk from a node without edges is never back.

    Source: Tan et al., "FedStar", AAAI 2023, section 4.1.
    """
    nodes, degree, first = shard.nodes, shard.degree, shard.node_starts
    receiver, sender = shard.edges
    inverse = 1.0 / np.maximum(degree, 1)
    one = scipy.sparse.csr_matrix((inverse[sender], (receiver, sender)), shape=(nodes, nodes))
    back = np.zeros((nodes, steps), np.float32)
    full = (shard.sizes <= LARGEST) & (len(sender) > FILLING * nodes)
    for graphs in _parts(np.flatnonzero(~full), shard.sizes):
        here = ranges(first[graphs], shard.sizes[graphs])
        back[here] = _sparse(one[here][:, here], steps)
    smallest_first = np.argsort(shard.sizes, kind="stable")
    for alike in _alike(smallest_first[full[smallest_first]], shard.sizes):
        for graphs in _parts(alike, shard.sizes):
            here = ranges(first[graphs], shard.sizes[graphs])
            back[here] = _dense(one[here][:, here], shard.sizes[graphs], steps)
    place = np.zeros((nodes, degrees), np.float32)
    place[np.arange(nodes), np.clip(degree, 1, degrees) - 1] = 1.0
    return np.concatenate([back, place], axis=1)


def _alike(graphs: Indices, sizes: Indices) -> Iterator[Indices]:
    """Graphs in ascending order of size, in groups of which the largest is at most so many times the smallest."""
    group = np.floor(np.log(sizes[graphs]) / np.log(GROWTH)).astype(np.int64)
    yield from np.split(graphs, np.flatnonzero(np.diff(group)) + 1)


def _parts(graphs: Indices, sizes: Indices) -> Iterator[Indices]:
    """The graphs, so many at a time that their pairs of nodes fit."""
    number = np.cumsum(np.square(sizes[graphs])) // ENTRIES
    yield from (part for part in np.split(graphs, np.flatnonzero(np.diff(number)) + 1) if len(part))


def _sparse(one: scipy.sparse.csr_matrix, steps: int) -> Doubles:
    """diag(one^k) for k = 1 .. steps, [nodes, steps]."""
    chances = _returns(one, steps, lambda left, right: np.asarray(left.multiply(right.T).sum(1)).ravel())
    return np.stack([one.diagonal(), *chances], 1)


def _dense(one: scipy.sparse.csr_matrix, sizes: Indices, steps: int) -> Doubles:
    """Return the same for graphs of about one size, side by side, each as a dense matrix."""
    graph = np.repeat(np.arange(len(sizes)), sizes)
    place = ranges(np.zeros(len(sizes), np.int64), sizes)
    entries = one.tocoo()
    single = np.zeros((len(sizes), sizes.max(), sizes.max()))
    single[graph[entries.row], place[entries.row], place[entries.col]] = entries.data
    chances = _returns(single, steps, lambda left, right: np.einsum("gij,gji->gi", left, right))
    return np.stack([each[graph, place] for each in (np.einsum("gii->gi", single), *chances)], 1)


def _returns(one: Any, steps: int, diagonal: Callable[[Any, Any], Doubles]) -> Iterator[Doubles]:
    """diag(one^k) for k = 2 .. steps, where `diagonal` tells that of a product.

    Powers are needed only half as far: diag(T^2a) is that of T^a T^a, and diag(T^(2a + 1)) that of T^a T^(a + 1).
    """
    half = longer = one
    for step in range(2, steps + 1):
        if step % 2 == 0:
            half = longer
        else:
            longer = half @ one
        yield diagonal(half, longer)
