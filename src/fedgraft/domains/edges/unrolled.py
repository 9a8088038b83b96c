"""A client's graph with a copy of each node per stage: who is scored at a stage hears from what that stage sees.

A node's copies are neighbours in number: that of node v at stage s is v x stages + s, at all clients alike, so that an
address tells which copy of a node elsewhere is meant.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.values import Indices
from fedgraft.domains.edges.order_of_time import EVER, sees, stage_of, stages
from fedgraft.domains.edges.shards import EdgeShard
from fedgraft.domains.examples import Features
from fedgraft.domains.nodes.base.shards import NodeShard

COUNTS = 2
"""Features that a copy has beside its node's: the logarithms of 1 + edges that come in, and that go out, at a stage."""


@dataclass(frozen=True, eq=False)
class Unrolled:
    """Copies of nodes, and the edges that are scored between them.

    Args:
        graph: own copies first, then those of nodes elsewhere that messages or scored edges touch.
        ends: int64 [2, examples], numbers of copies; -1 = a node that is not there.
        outward: bool [copies of own nodes], whether the node has an edge to another client, at any stage.
    """

    graph: NodeShard
    ends: Indices
    outward: NDArray[np.bool_]


def unrolled(shard: EdgeShard, windows: int) -> Unrolled:
    """Return a client's graph with copies; edges that train are in so many windows."""
    graph, count = shard.graph, stages(windows)
    rows = graph.edge_rows
    assert rows is not None and rows.order is not None, "a shard was checked"  # noqa: PT018
    receiver, stage = np.repeat(np.arange(graph.own), graph.degree), stage_of(rows.order, windows)
    seen = [np.flatnonzero(sees(each, stage, windows, shard.timed)) for each in range(count)]
    edge, at = np.concatenate(seen), np.repeat(np.arange(count), [len(each) for each in seen])
    needed = np.zeros((graph.halo, count), bool)
    sender = graph.senders[edge].astype(np.int64)
    outside = sender >= graph.own
    needed[sender[outside] - graph.own, at[outside]] = True
    of_example, target = stage_of(shard.order, windows), shard.ends[1]
    needed[:, count - 1] = True
    scored = target >= graph.own
    needed[target[scored] - graph.own, of_example[scored]] = True
    number = _numbers(graph.own, needed)
    copied = number[sender, at]
    copy = receiver[edge] * count + at
    order = np.lexsort((rows.number[edge], copied, copy))
    halo, place = np.nonzero(needed)
    carried, listed = rows.take(edge[order]), rows.order[edge] > EVER
    made = replace(
        graph,
        ids=np.repeat(graph.ids, count),
        features=_features(graph, count, copy[listed], rows.along[edge[listed]]),
        label=np.full(graph.own * count, -1),
        split=np.full(graph.own * count, -1, np.int8),
        classes=(),
        pointers=np.concatenate([[0], np.cumsum(np.bincount(copy, minlength=graph.own * count))]),
        senders=copied[order].astype(np.int32),
        edge_rows=carried,
        halo_owner=graph.halo_owner[halo],
        halo_place=(graph.halo_place[halo].astype(np.int64) * count + place).astype(np.int32),
    )
    outward = np.zeros(graph.own, bool)
    outward[receiver[graph.senders >= graph.own]] = True
    ends = np.where(shard.ends < 0, -1, number[shard.ends, of_example])
    return Unrolled(made, ends, np.repeat(outward, count))


def _numbers(own: int, needed: NDArray[np.bool_]) -> Indices:
    """int64 [nodes, stages], the number of each copy; -1 of a node elsewhere where it is not needed."""
    halo, count = needed.shape
    numbers = np.arange((own + halo) * count).reshape(own + halo, count)
    numbers[own:] = np.where(needed, own * count + np.cumsum(needed).reshape(needed.shape) - 1, -1)
    return numbers


def _features(graph: NodeShard, count: int, copy: Indices, along: NDArray[np.bool_]) -> Features:
    """Features of copies, float32 [own x stages, features + `COUNTS`]."""
    copies = graph.own * count
    counts = np.stack([np.bincount(copy[way], minlength=copies) for way in (along, ~along)], axis=1)
    columns = np.log1p(counts).astype(np.float32)
    repeated = graph.features[np.repeat(np.arange(graph.own), count)]
    if isinstance(repeated, np.ndarray):
        return np.concatenate([repeated, columns], axis=1)
    return sparse.csr_matrix(sparse.hstack([repeated, columns], format="csr"), dtype=np.float32)
