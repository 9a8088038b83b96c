"""What a node's own edges tell of it, as one row of numbers: counts of edges and of others, and figures of columns."""

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.labels import Floats
from fedgraft.contracts.values import Indices
from fedgraft.domains.nodes.base.shards import LabelledNodes


def edge_aggregates(graph: LabelledNodes) -> Floats:
    """Return float64 [nodes, columns], of each direction that edges of the graph have, first those that come in.

    A direction has the number of edges, the number of others at them, and of each column that edges carry the sum,
    mean, least, largest and standard deviation; of no edge these are nan, but the sum, which is 0. A client's edges to
    nodes of others are among them. `edge_rows.weight` is not read: an edge is one edge.
    """
    nodes, rows = len(graph.label), graph.edge_rows
    receiver = np.repeat(np.arange(nodes), graph.degree)
    if rows is None:
        return _of_direction(receiver, graph.senders, np.zeros((len(receiver), 0)), nodes)
    directions = [rows.along] if rows.along.all() else [rows.along, ~rows.along]
    return np.hstack([_of_direction(receiver[way], graph.senders[way], rows.values[way], nodes) for way in directions])


def _of_direction(receiver: Indices, sender: NDArray[np.integer], values: NDArray[np.floating], nodes: int) -> Floats:
    """Figures of edges to receivers, which ascend, [nodes, 2 + 5 columns]."""
    count = np.bincount(receiver, minlength=nodes)
    pairs = np.unique(np.stack([receiver, sender], axis=1), axis=0)
    figures = [count, np.bincount(pairs[:, 0], minlength=nodes)]
    some = np.flatnonzero(count)
    starts = (np.cumsum(count) - count)[some]
    for column in values.T.astype(np.float64):
        total = np.bincount(receiver, column, nodes)
        mean, least, largest, spread = np.full((4, nodes), np.nan)
        mean[some] = total[some] / count[some]
        off = np.square(column - mean[receiver])
        spread[some] = np.sqrt(np.bincount(receiver, off, nodes)[some] / count[some])
        if len(some):
            least[some], largest[some] = (each.reduceat(column, starts) for each in (np.minimum, np.maximum))
        figures += [total, mean, least, largest, spread]
    return np.stack(figures, axis=1).astype(np.float64)
