"""A client's graph of users and items: ratings and trust links as edges, with what an encoder reads of them."""

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from fedgraft.domains.ratings.features import CLIP, Known, node_features
from fedgraft.domains.ratings.random_walks import Walks
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
