"""Colours: which nodes no network of so many layers can tell apart.

What a network makes of a node in l layers depends on the node's features and on its surroundings up to l steps away and
on nothing else; nodes that agree in these have the same state. It is therefore enough to compute one state per colour,
exactly: sets of molecules have a few hundred where they have a hundred thousand nodes.

How often each colour of each step occurs in a graph is what a Weisfeiler-Lehman kernel sees of it; colours share
buckets, so that graphs with any colours have vectors of one width.

Source: Weisfeiler and Lehman 1968 (the refinement); Bollen et al., "Learning Graph Neural Networks using Exact
    Compression", GRADES-NDA 2023; Shervashidze et al., "Weisfeiler-Lehman Graph Kernels", JMLR 2011, sec. 3.2 (the
    counts, the kernel); Shi et al., "Hash Kernels for Structured Data", JMLR 2009 (buckets).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.graphs.shards import GraphShard

Hashes = NDArray[np.uint64]
OWN, NEIGHBOUR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
"""Odd numbers that set a node's own colour apart from its neighbours' (golden and silver ratio, times 2^64)."""


class Colours(NamedTuple):
    """The colours of a shard's nodes after so many layers, int64 [nodes], and a node that has each, int64 [colours]."""

    of: Indices
    example: Indices


def refine(shard: GraphShard, features: NDArray[np.float32], layers: int, degrees: bool) -> list[Colours]:
    """Colours before the first layer, behind it, and so on: [layers + 1], each a refinement of the one before it.

    Nodes differ at first by kind and by their rows of `features` [nodes, f], and if they need to by their degrees; then
    by what their edges carry, too.
    Colours are told apart by hashes of 64 bits: of half a million, two are taken for one with a chance below 1e-7.
    They are numbered by their hashes, so that their order does not depend on what else there is.
    """
    hashes = mixed(shard.kind.astype(np.int64).view(np.uint64))
    if degrees:
        weighted = shard.edge_rows is not None and shard.edge_rows.weight is not None
        degree = shard.weighted_degree.view(np.uint32) if weighted else shard.degree
        hashes = mixed(hashes + degree.astype(np.uint64))
    for column in (features + np.float32(0)).T:  # which makes a zero of minus zero
        hashes = mixed(hashes + column.view(np.uint32))
    told = None if shard.edge_rows is None else hashes_of(shard.edge_rows)
    steps = (np.unique(step, return_index=True, return_inverse=True) for step in refined(shard, hashes, layers, told))
    return [Colours(of, example) for _, example, of in steps]


def hashes_of(rows: EdgeRows) -> Hashes:
    """Return a hash of what each edge carries, uint64 [edges]: columns, weight, direction."""
    hashes = mixed(rows.along.astype(np.uint64))
    columns = [*rows.values.T, *([] if rows.weight is None else [rows.weight])]
    for column in columns:
        hashes = mixed(hashes + (column + np.float32(0)).view(np.uint32))
    return hashes


def refined(shard: GraphShard, hashes: Hashes, layers: int, told: Hashes | None = None) -> Iterator[Hashes]:
    """Colours as hashes, uint64 [nodes]: the given ones, then those after 1 .. `layers` steps.

    `told`, uint64 [edges], are hashes of what edges carry; None where that does not matter.
    They depend on a node's surroundings alone: equal ones have equal hashes in every graph, process and machine.
    """
    sender = shard.edges[1]
    ends = np.concatenate([[0], np.cumsum(shard.degree)])
    yield hashes
    for _ in range(layers):
        # Unsigned sums wrap around, and so do their differences.
        sent = mixed(hashes * NEIGHBOUR)[sender]
        sent = sent if told is None else mixed(sent + told)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(sent, dtype=np.uint64)])
        hashes = mixed(mixed(hashes * OWN) + sums[ends[1:]] - sums[ends[:-1]])
        yield hashes


def mixed(hashes: Hashes) -> Hashes:
    """Every bit of the result depends on every bit (Steele et al., "SplitMix64", OOPSLA 2014)."""
    bits = hashes + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


# --- counts of subtrees -----------------------------------------------------------------------------------------------

STEP = 0xA0761D6478BD642F
"""An odd number that sets equal colours of different steps apart."""


def subtree_counts(shard: GraphShard, hops: int, width: int) -> scipy.sparse.csr_matrix:
    """Return each graph's counts, float32 [graphs, width], scaled to length 1; there is at least one bucket.

    Colours are counted before the first hop and after each of 1 .. `hops`; at first they are nodes' kinds, or degrees
    where a set has no kinds.
    Counts are replaced by their square roots, so that frequent colours do not drown rare ones. Without, the dot product
    of two rows would be the normalised kernel, but for colours that share a bucket.
    """
    graph = np.repeat(np.arange(shard.graphs), shard.sizes)
    first = mixed((shard.kind if shard.kinds else shard.degree).astype(np.int64).view(np.uint64))
    buckets = [
        (mixed(hashes + np.uint64(hop * STEP % 2**64)) % np.uint64(width)).astype(np.int64)
        for hop, hashes in enumerate(refined(shard, first, hops))
    ]
    rows, columns = np.tile(graph, hops + 1), np.concatenate(buckets)
    counts = scipy.sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(shard.graphs, width))
    counts.sum_duplicates()
    counts.data = np.sqrt(counts.data)
    lengths = np.sqrt(np.asarray(counts.multiply(counts).sum(1)).ravel())
    counts.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(counts.indptr))
    return counts.astype(np.float32)
