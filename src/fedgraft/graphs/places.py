"""What can be told of a node's place in its graph without looking at any feature."""

from collections.abc import Iterator

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fedgraft.graphs.sets import GraphShard
from fedgraft.values import Indices

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
    nodes = int(shard.sizes.sum())
    receiver, sender = shard.edges
    degree = np.bincount(receiver, minlength=nodes)
    inverse = 1.0 / np.maximum(degree, 1)
    one = scipy.sparse.csr_matrix((inverse[sender], (receiver, sender)), shape=(nodes, nodes))
    back = np.zeros((nodes, steps), np.float32)
    first = np.concatenate([[0], np.cumsum(shard.sizes)])
    full = (shard.sizes <= LARGEST) & (len(sender) > FILLING * nodes)
    for graphs in _parts(np.flatnonzero(~full), shard.sizes):
        here = _nodes(graphs, first)
        back[here] = _sparse(one[here][:, here], steps)
    smallest_first = np.argsort(shard.sizes, kind="stable")
    for alike in _alike(smallest_first[full[smallest_first]], shard.sizes):
        for graphs in _parts(alike, shard.sizes):
            here = _nodes(graphs, first)
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


def _nodes(graphs: Indices, first: Indices) -> Indices:
    return np.concatenate([np.arange(first[graph], first[graph + 1]) for graph in graphs])


def _sparse(one: scipy.sparse.csr_matrix, steps: int) -> Doubles:
    """diag(one^k) for k = 1 .. steps, [nodes, steps]."""
    back = np.zeros((one.shape[0], steps))
    half, longer = one, one
    # (T^2a)_ii is the product of row i and column i of T^a: powers are needed only half as far as walks go.
    for step in range(1, steps + 1):
        if step == 1:
            back[:, 0] = one.diagonal()
        elif step % 2 == 0:
            half = longer
            back[:, step - 1] = np.asarray(half.multiply(half.T).sum(1)).ravel()
        else:
            longer = (half @ one).tocsr()
            back[:, step - 1] = np.asarray(half.multiply(longer.T).sum(1)).ravel()
    return back


def _dense(one: scipy.sparse.csr_matrix, sizes: Indices, steps: int) -> Doubles:
    """The same for graphs of about one size, side by side, each as a matrix with its zeros."""
    graph = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(graph)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    entries = one.tocoo()
    single = np.zeros((len(sizes), sizes.max(), sizes.max()))
    single[graph[entries.row], place[entries.row], place[entries.col]] = entries.data
    back = np.zeros((len(graph), steps))
    half, longer = single, single
    for step in range(1, steps + 1):
        if step == 1:
            found = np.einsum("gii->gi", single)
        elif step % 2 == 0:
            half = longer
            found = np.einsum("gij,gji->gi", half, half)
        else:
            longer = half @ single
            found = np.einsum("gij,gji->gi", half, longer)
        back[:, step - 1] = found[graph, place]
    return back
