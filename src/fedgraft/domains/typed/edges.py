"""Edges of typed graphs: each once, and which nodes they join."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.domains.typed.shards import Ends, TypedGraph

Adjacencies = Mapping[str, Mapping[str, sparse.csr_matrix]]
"""{type: {type that it has edges to: which node to which, 1 or 0, float32}}, both ways."""


def once(ends: NDArray[np.integer], within: bool) -> Ends:
    """Return each edge once, int32 [2, edges]; `within` a type, where it may be listed either way, without loops."""
    if within:
        ends = np.sort(ends[:, ends[0] != ends[1]], axis=0)
    unique: Ends = np.unique(ends, axis=1).astype(np.int32)
    return unique


def adjacencies(graph: TypedGraph) -> Adjacencies:
    """Return which nodes have edges to which, for all types that have edges, both ways."""
    found: dict[str, dict[str, sparse.csr_matrix]] = {kind: {} for kind in graph.ids}
    for one, other in graph.edges:
        found[one][other] = graph.adjacency(one, other)
        if one != other:
            found[other][one] = found[one][other].T.tocsr()
    return found
