"""Features of target nodes: those that there are, kept small; and where there are none, some of what a client holds."""

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.domains.typed.shards import Adjacencies, TypedGraph, adjacencies
from fedgraft.errors import require

WIDTH = 64
"""Features for each type of neighbours."""
SALT = b"fedgraft: signs"
"""Part of every hash, so that all clients give a node the same signs in every run."""
WIDEST = 512
"""Most signs that one hash gives."""


def with_features(graph: TypedGraph) -> TypedGraph:
    """Return a client's graph with features made of what it holds, unless it has some."""
    return graph if graph.width else replace(graph, features=structural_features(graph))


def structural_features(graph: TypedGraph, width: int = WIDTH) -> NDArray[np.float32]:
    """Return features float32 [targets, f] of the target nodes of a graph, such as a client's part.

    First, for each type that target nodes have edges to, log(1 + how many). Then, for each type within two steps,
    `width` numbers: every node of that type has a random sign for each of them, from a hash of its type and id, and a
    target node has the mean of the signs over the nodes of that type that it reaches, scaled to a mean square of 1.
    Each way to a type, such as by "paper" to other authors, counts alike, and on it each step is to a neighbour at
    random; a node does not reach itself. So target nodes with many neighbours in common have like features, whichever
    clients hold them, and clients agree on the signs without a word.

    The width f depends on the types and on `width`, 1..512, alone. Types are in the order of their names. Features that
    the graph has are not read.

    Source: Achlioptas, "Database-friendly random projections", JCSS 2003; Chen et al., "FastRP", CIKM 2019.
    """
    require(1 <= width <= WIDEST, "width", f"1..{WIDEST}", width)
    around = adjacencies(graph)
    near = sorted(around[graph.target])
    counts = [np.log1p(np.diff(around[graph.target][kind].indptr)) for kind in near]
    parts = [np.stack(counts, axis=1)] if counts else [np.zeros((graph.targets, 0))]
    behind = (kind for by in near for kind in around[by])
    parts += [_projected(graph, around, kind, width) for kind in sorted({*near, *behind})]
    return np.concatenate(parts, axis=1).astype(np.float32)


def structural_width(graph: TypedGraph) -> int:
    """Return how many features `structural_features` makes, which depends on types alone."""
    joined: dict[str, set[str]] = {}
    for one, other in graph.edges:
        joined.setdefault(one, set()).add(other)
        joined.setdefault(other, set()).add(one)
    near = joined.get(graph.target, set())
    return len(near) + WIDTH * len(near.union(*(joined[kind] for kind in near)))


def _projected(graph: TypedGraph, around: Adjacencies, kind: str, width: int) -> NDArray[np.float32]:
    """Float32 [targets, width]: mean signs of the nodes of a type within two steps, with a mean square of 1."""
    signs = _signs(kind, graph.ids[kind], width)
    first = around[graph.target]
    ways = [_mean(first[kind]) @ signs] if kind in first else []
    for by in sorted(first):
        if kind not in around[by]:
            continue
        step, then = _mean(first[by]), _mean(around[by][kind])
        reached = step @ (then @ signs)
        if kind == graph.target:
            itself = np.asarray(step.multiply(then.T).sum(axis=1)).ravel()[:, None]
            left = 1 - itself
            reached = np.where(left > 1e-6, (reached - itself * signs) / np.maximum(left, 1e-6), 0)
        ways.append(reached)
    mean = np.mean(ways, axis=0, dtype=np.float32)
    size = np.sqrt((mean**2).mean(axis=1, keepdims=True))
    return np.asarray(np.divide(mean, size, out=np.zeros_like(mean), where=size > 1e-6))


def _mean(joined: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return a matrix whose rows sum to 1, or to 0 where there is nothing."""
    degree = np.diff(joined.indptr)
    return sparse.csr_matrix(sparse.diags((1 / np.maximum(degree, 1)).astype(np.float32)) @ joined)


def _signs(kind: str, ids: NDArray[np.object_], width: int) -> NDArray[np.float32]:
    """Float32 [nodes, width], -1 or 1: the same for a type and an id, as text, everywhere."""
    size = -(-width // 8)
    drawn = b"".join(
        hashlib.blake2b(f"{kind}\0{one}".encode(errors="surrogatepass"), digest_size=size, key=SALT).digest()
        for one in ids
    )
    bits = np.unpackbits(np.frombuffer(drawn, np.uint8).reshape(len(ids), size), axis=1)[:, :width]
    return bits.astype(np.float32) * 2 - 1
