"""What came before an edge: of its two ends together, and of each of them, as the client that has the end counts it.

It is exact: an edge before another one counts, one of the same time does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.labels import Floats, Labels
from fedgraft.contracts.values import Indices
from fedgraft.domains.edges.order_of_time import EVER
from fedgraft.domains.edges.shards import EdgeShard
from fedgraft.domains.labels.constant import Answering
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.boosted import Boosted

NODE_PARTS: Final = 2
"""Parts of a node's history: edges that go out, and that come in."""
PARTS: Final = 3 * NODE_PARTS
"""Parts of an edge's history: of edges along and against it between its ends; of its source; of its target."""


def history_width(edge_width: int) -> int:
    """Return how many numbers `history_of` tells of an edge, where edges carry so many columns."""
    return PARTS * (1 + edge_width)


def history_of(shard: EdgeShard) -> NDArray[np.float32]:
    """Return what came before each scored edge, float32 [examples, `history_width`]; of a target elsewhere zeros.

    For each of `PARTS`: the logarithm of 1 + how many edges there are, and the means of their columns; zeros of none.
    """
    graph = shard.graph
    receiver, nodes = np.repeat(np.arange(graph.own), graph.degree), graph.own + graph.halo
    source, target = shard.ends
    pair = np.where((source >= 0) & (source < graph.own) & (target >= 0), source * nodes + target, -1)
    between = _before(graph, receiver * nodes + graph.senders, pair, shard.order)
    return np.concatenate([between, *(before_at(graph, end, shard.order) for end in (source, target))], axis=1)


def before_at(graph: NodeShard, asked: Indices, until: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return what came at nodes before places in the order, float32 [asked, `NODE_PARTS` x (1 + width)].

    `asked` are nodes, int64 [asked]; of those that are not own ones it is zeros.
    """
    receiver = np.repeat(np.arange(graph.own), graph.degree)
    return _before(graph, receiver, np.where(asked < graph.own, asked, -1), until)


def _before(graph: NodeShard, key: Indices, asked: Indices, until: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return counts and means of the stored edges of a key before a place, those that go out and those that come in.

    Keys of stored edges are int64 [stored], those that are asked for int64 [asked], below 0 for none.
    """
    rows = graph.edge_rows
    assert rows is not None and rows.order is not None, "a shard was checked"  # noqa: PT018
    parts = []
    for along in (False, True):  # an edge that is stored at its source goes back
        mine = np.flatnonzero((rows.along == along) & (rows.order > EVER))
        sums = _sums(key[mine], rows.order[mine], rows.values[mine], asked, until)
        parts += [np.log1p(sums[:, :1]), sums[:, 1:] / np.maximum(sums[:, :1], 1)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _sums(
    stored: Indices,
    order: NDArray[np.float64],
    values: NDArray[np.float32],
    asked: Indices,
    until: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return how many edges of a key are before a place, and sums of their columns, float64 [asked, 1 + width]."""
    key = np.unique(np.concatenate([stored, asked]), return_inverse=True)[1]
    rank = np.unique(np.concatenate([order, until]), return_inverse=True)[1]
    code, count = key * (int(rank.max(initial=0)) + 1) + rank, len(stored)
    sorting = np.argsort(code[:count], kind="stable")
    sums = np.zeros((count + 1, 1 + values.shape[1]))
    np.cumsum(np.column_stack([np.ones(count), values[sorting]]), axis=0, out=sums[1:])
    first = np.searchsorted(key[:count][sorting], key[count:], side="left")
    last = np.searchsorted(code[:count][sorting], code[count:], side="left")
    return np.where(asked[:, None] >= 0, sums[np.maximum(first, last)] - sums[first], 0)


@dataclass(frozen=True)
class BoostedEdges(Boosted, Answering[EdgeShard]):
    """As `Boosted`, on an edge's own columns, its history, and features of both ends; of unknown ones zeros."""

    def kind(self, shards: Sequence[EdgeShard]) -> Labels:
        """Return that of the edges: classes, or numbers."""
        return shards[0].labels

    def answers(self, shard: EdgeShard, labels: Labels) -> Floats:
        """Return probabilities of every edge, [edges, classes], or numbers, [edges]; there is one that trains."""
        graph = shard.graph
        features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
        features = np.concatenate([features, np.zeros((1, graph.width), np.float32)])
        ends = np.where((shard.ends >= 0) & (shard.ends < graph.own), shard.ends, graph.own)
        columns = np.hstack([shard.columns, history_of(shard), features[ends[0]], features[ends[1]]])
        train, chosen_on = shard.rows("train"), shard.rows("validation")
        chosen_on = chosen_on if len(chosen_on) else train
        if not shard.classes:
            return self.chosen_numbers(columns, shard.label, train, chosen_on, labels)
        return self.chosen(columns, shard.label, train, chosen_on, len(shard.classes), labels)
