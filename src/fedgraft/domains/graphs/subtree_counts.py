"""Counts of subtrees: what a Weisfeiler-Lehman kernel sees of a graph, as a vector of fixed width.

A node's colour is a hash of its own and its neighbours' colours one step before. A graph is told by how often each
colour of each step occurs in it; colours share buckets, so that graphs with any colours have vectors of one width.

Source: Shervashidze et al., "Weisfeiler-Lehman Graph Kernels", JMLR 2011, sec. 3.2 (the counts, the kernel); Shi et
    al., "Hash Kernels for Structured Data", JMLR 2009 (buckets).
"""

import numpy as np
import scipy.sparse

from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.graphs.weisfeiler_lehman import mixed, refined

STEP = 0xA0761D6478BD642F
"""An odd number that sets equal colours of different steps apart."""


def subtree_counts(shard: GraphShard, hops: int, width: int, root: bool) -> scipy.sparse.csr_matrix:
    """Return each graph's counts, float32 [graphs, width], scaled to length 1; there is at least one bucket.

    Colours are counted before the first hop and after each of 1 .. `hops`; at first they are nodes' kinds, or degrees
    where a set has no kinds. The dot product of two rows is the normalised kernel, but for colours that share a bucket.
    With `root`, counts are replaced by their square roots, so that frequent colours do not drown rare ones.
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
    if root:
        counts.data = np.sqrt(counts.data)
    lengths = np.sqrt(np.asarray(counts.multiply(counts).sum(1)).ravel())
    counts.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(counts.indptr))
    return counts.astype(np.float32)
