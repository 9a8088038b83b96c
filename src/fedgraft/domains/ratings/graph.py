"""A client's graph of users and items: ratings and trust links as edges, with what an encoder reads of them."""

from functools import cached_property

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from fedgraft.domains.ratings.features import CLIP, Known, node_features
from fedgraft.domains.ratings.shards import RatingShard
from fedgraft.nn.propagate import Graph, GraphView


class RatingGraph:
    """All edges that a client's training ratings and trust links make; fewer of them in each `view`.

    Nodes are the client's users and then its items. Both directions of a rating and of a trust link are edges; in a
    random walk a trust link weighs 1, a rating what it says on a scale from 1 to 5. The longest walk of the transition
    probabilities has `walk` steps, >= 1.
    """

    def __init__(self, shard: RatingShard, walk: int) -> None:
        self._walk = walk
        self._users, self._nodes = len(shard.users), len(shard.users) + len(shard.items)
        rows, (source, target) = shard.rows("train"), shard.trust
        ends = np.concatenate([source, shard.user[rows]]), np.concatenate([target, shard.item[rows] + self._users])
        one_way = scipy.sparse.csr_matrix((np.ones(len(ends[0])), ends), shape=(self._nodes, self._nodes))
        structure = (one_way + one_way.T).tocsr()
        structure.sort_indices()
        self.graph = Graph(structure)
        self._walks = Walks(structure)
        receivers, senders = self._walks.receivers, self._walks.senders
        self._scale = shard.scale
        self._trust = ((receivers < self._users) & (senders < self._users)).astype(np.float64)

    def view(self, known: Known) -> GraphView:
        """The graph of the known ratings and all trust links; other ratings are absent in every sense."""
        receivers, senders = self._walks.receivers, self._walks.senders
        wanted = known.user * self._nodes + known.item + self._users
        position = np.searchsorted(receivers * self._nodes + senders, wanted)
        both = np.concatenate([position, self._walks.reverse[position]])
        weight, residual = self._trust.copy(), np.zeros(self.graph.edges)
        low, high = self._scale
        weight[both] = np.tile(1.0 + 4.0 * (known.rating - low) / (high - low), 2)  # an edge weighs more than 0
        residual[both] = np.tile(known.residual, 2)
        present = weight > 0
        # Square roots spread probabilities that are mostly near 0; two steps are rarer than one.
        walks = 2.0 * np.sqrt(self._walks.probabilities(weight, self._walk))
        walks[:, 2:] *= 2.0
        edges = np.clip(np.column_stack([walks, residual, self._trust]), -CLIP, CLIP) * present[:, None]
        degree = np.bincount(receivers, present, self._nodes)
        norm = present / np.sqrt(np.maximum(degree[receivers] * degree[senders], 1.0))
        return GraphView(self.graph, torch.from_numpy(node_features(known)), _float32(edges), _float32(norm))


def edge_width(walk: int) -> int:
    """Columns of a view's edge features: transition probabilities, the rating's residual, whether it is trust."""
    return 2 * walk + 2


def _float32(array: NDArray[np.floating]) -> torch.Tensor:
    return torch.from_numpy(array.astype(np.float32))


# --- random walks -----------------------------------------------------------------------------------------------------


Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

CHUNK = 1 << 22
"""Candidate triangles, or products of rows, looked at at a time; bounds memory."""


class Walks:
    """Random walks over graphs that share one symmetric structure, with other weights each time.

    Two steps from one end of an edge to the other go round a triangle, and triangles are listed once for all weights.
    The structure is sorted and without loops; its stored entries are the edges.
    """

    def __init__(self, structure: scipy.sparse.csr_matrix) -> None:
        self._structure = structure
        self.receivers = np.repeat(np.arange(structure.shape[0]), np.diff(structure.indptr))
        self.senders = structure.indices.astype(np.int64)
        self.reverse = _reverse(structure)

    def probabilities(self, weights: Floats, length: int) -> Floats:
        """Probabilities of going from one end of an edge to the other in 1..length steps, both ways, by edges' weights.

        z_uv = [P_uv, P_vu, (P^2)_uv, (P^2)_vu, ...] with P = D^-1 A (FedACS, Xu et al., IEEE TMC 2025). Weights are
        float64 [edges], symmetric, not negative; an edge of weight 0 is absent. The length is at least 1. The result is
        float64 [edges, 2 * length], with rows of zeros for absent edges.
        """
        degree = np.bincount(self.receivers, weights, self._structure.shape[0])
        inverse = np.divide(1.0, degree, out=np.zeros(len(degree)), where=degree > 0)
        columns = []
        for steps in range(1, length + 1):
            if steps == 1:
                forward = weights * inverse[self.receivers]
            elif steps == 2:
                forward = self._two_steps(weights, inverse) * inverse[self.receivers] * (weights > 0)
            else:
                forward = self._many_steps(weights, inverse, steps) * (weights > 0)
            columns += [forward, forward[self.reverse]]
        return np.stack(columns, axis=1)

    def _two_steps(self, weights: Floats, inverse: Floats) -> Floats:
        """A D^-1 A on the edges: for each, the sum over its triangles."""
        (ab, ac, bc), (a, b, c) = self._triangles
        total = np.zeros(len(weights))
        for edge, first, second, over in ((ab, ac, bc, c), (ac, ab, bc, b), (bc, ab, ac, a)):
            total += np.bincount(edge, weights[first] * weights[second] * inverse[over], len(weights))
        return total + total[self.reverse]

    def _many_steps(self, weights: Floats, inverse: Floats, steps: int) -> Floats:
        """(P^steps) on the edges, rows in blocks."""
        matrix = self._structure.copy()
        matrix.data = weights
        step = (scipy.sparse.diags(inverse) @ matrix).tocsr()
        chances = np.zeros(len(weights))
        block = max(1, CHUNK // (matrix.shape[0] + 1))
        for start in range(0, matrix.shape[0], block):
            stop = min(start + block, matrix.shape[0])
            reached = step[start:stop]
            for _ in range(steps - 1):
                reached = reached @ step
            edges = slice(matrix.indptr[start], matrix.indptr[stop])
            chances[edges] = np.asarray(reached[self.receivers[edges] - start, self.senders[edges]]).ravel()
        return chances

    @cached_property
    def _triangles(self) -> tuple[tuple[Ids, Ids, Ids], tuple[Ids, Ids, Ids]]:
        """Every triangle once: positions of its edges (a, b), (a, c), (b, c), and its corners.

        Found at its corner of least degree, where few pairs of neighbours have to be tried.
        """
        nodes = self._structure.shape[0]
        degree = np.diff(self._structure.indptr)
        rank = np.empty(nodes, dtype=np.int64)
        rank[np.lexsort((np.arange(nodes), degree))] = np.arange(nodes)
        up = np.flatnonzero(rank[self.receivers] < rank[self.senders])
        keys = self.receivers * nodes + self.senders
        start = np.searchsorted(self.receivers[up], np.arange(nodes + 1))
        pairs_per_edge = start[self.receivers[up] + 1] - np.arange(len(up)) - 1  # later edges of the same corner
        parts = []
        for low, high in _blocks(pairs_per_edge):
            first = np.repeat(np.arange(low, high), pairs_per_edge[low:high])
            ends = np.cumsum(pairs_per_edge[low:high])
            offset = np.arange(len(first)) - np.repeat(ends - pairs_per_edge[low:high], pairs_per_edge[low:high])
            second = first + 1 + offset
            wanted = self.senders[up[first]] * nodes + self.senders[up[second]]
            at = np.searchsorted(keys, wanted)
            closed = np.flatnonzero(keys[np.minimum(at, len(keys) - 1)] == wanted)
            parts.append(np.stack([up[first[closed]], up[second[closed]], at[closed]]))
        ab, ac, bc = np.concatenate(parts, axis=1) if parts else np.zeros((3, 0), dtype=np.int64)
        return (ab, ac, bc), (self.receivers[ab], self.senders[ab], self.senders[ac])


def _blocks(counts: Ids) -> list[tuple[int, int]]:
    """Ranges of positions whose counts sum to about `CHUNK` at most."""
    total = np.cumsum(counts)
    steps = np.arange(CHUNK, int(total[-1]) + CHUNK, CHUNK) if len(counts) else np.zeros(0, dtype=np.int64)
    cuts = np.searchsorted(total, steps, side="left") + 1
    bounds = np.unique(np.concatenate([[0], np.minimum(cuts, len(counts))]).astype(np.int64))
    return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))


def _reverse(symmetric: scipy.sparse.csr_matrix) -> Ids:
    """For each stored entry (u, v), in CSR order, the position of (v, u)."""
    numbered = scipy.sparse.csr_matrix(
        (np.arange(1, symmetric.nnz + 1, dtype=np.int64), symmetric.indices, symmetric.indptr), shape=symmetric.shape
    )
    reverse = numbered.T.tocsr()
    reverse.sort_indices()
    return np.asarray(reverse.data - 1)
