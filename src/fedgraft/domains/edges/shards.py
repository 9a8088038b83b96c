"""One client's own part of a graph whose edges have labels, and the edges that it answers for.

Rules:
    Owner     an edge is the client's whose its source is: that trains on it, scores it, answers for it. The client of
              its target has it in its graph, with its columns, too.
    Columns   an edge carries what messages read, `graph.edge_rows.values`; of an edge that is scored its own `columns`
              are known. Where an earlier label is a column of messages, it is none of these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.edges.stages import split_of
from fedgraft.domains.labelled.shard import LabelledShard
from fedgraft.domains.labels.known import is_known
from fedgraft.domains.nodes.base.partitions import apart
from fedgraft.domains.nodes.base.shards import NodeShard, WholeGraph, cut, merge_shards
from fedgraft.errors import InputError, literal, require
from fedgraft.wire.layouts import Array


@dataclass(frozen=True, eq=False)
class EdgeShard(LabelledShard):
    """One client's own part of a graph, and the edges that it answers for.

    Args:
        ids: object [own], of own nodes.
        ends: int64 [2, examples], source and target, numbers of nodes of `graph`; -1 = a node that is not there.
        graph: own nodes, the edges at them, and of each its place in the order of all.
        columns: float32 [examples, width], what is known of an edge when it is scored.
        order: float64 [examples], places of these edges.
        timed: whether places are by time.
    """

    graph: NodeShard
    columns: NDArray[np.float32]
    order: NDArray[np.float64]
    timed: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        what, count, graph = f"EdgeShard.{{}} of {literal(self.name)}", self.ends.shape[1], self.graph
        for key, shape, wanted in (
            ("ends", self.ends.shape, (2, count)),
            ("columns", self.columns.shape, (count, self.columns.shape[-1])),
            ("order", self.order.shape, (count,)),
        ):
            require(shape == wanted, what.format(key), f"of shape {wanted}", shape)
        nodes = graph.own + graph.halo
        sound = not count or (self.ends.min() >= -1 and self.ends.max() < nodes)
        require(sound, what.format("ends"), f"-1..{nodes - 1}", int(self.ends.max(initial=0)))
        require(graph.edge_rows is not None, what.format("graph"), "of edges that carry something", None)
        rows: Any = graph.edge_rows
        require(rows.order is not None, what.format("graph"), "of edges with places in an order", None)

    @property
    def width(self) -> int:
        """int, the number of features of a node."""
        return self.graph.width


def deal_edges(
    graph: WholeGraph,
    ends: Indices,
    columns: NDArray[np.float32],
    label: Array,
    classes: tuple[str, ...],
    owner: NDArray[np.integer],
    names: Sequence[str],
    timed: bool,
    between: bool = True,
) -> list[EdgeShard]:
    """Return a shard per client of `names`; `owner`, whole numbers [nodes], is the number of each node's client.

    Args:
        graph: of all nodes and edges; `number` of its edges is their place in the arrays that follow.
        ends: int64 [2, edges], source and target.
        columns: float32 [edges, width], what is known of an edge when it is scored.
        label: int64 [edges], classes, -1 = unknown; or float64, numbers, nan = unknown.
        classes: names of the classes; () for numbers.
        owner: the number of each node's client.
        names: of the clients.
        timed: whether the order of edges is by time.
        between: whether edges between clients carry messages. Their sources' clients score them in any case, and
            without messages their targets are nodes of which nothing is known.
    """
    order = _order_by_number(graph, ends.shape[1])
    shards = cut(graph if between else apart(graph, owner), owner, names)
    place = np.empty(graph.nodes, np.int64)
    for k in range(len(names)):
        mine = owner == k
        place[mine] = np.arange(int(mine.sum()))
    made = []
    for k, shard in enumerate(shards):
        rows = np.flatnonzero(owner[ends[0]] == k)
        target = ends[1][rows]
        local = np.where(owner[target] == k, place[target], _in_halo(shard, owner[target], place[target]))
        known = is_known(label[rows])
        made.append(
            EdgeShard(
                name=shard.name,
                ids=shard.ids,
                ends=np.stack([place[ends[0][rows]], local]),
                label=label[rows],
                split=np.where(known, split_of(order[rows]), -1).astype(np.int8),
                classes=classes,
                label_names=(),
                graph=shard,
                columns=columns[rows],
                order=order[rows],
                timed=timed,
            )
        )
    return made


def merge_edges(shards: Sequence[EdgeShard]) -> EdgeShard:
    """All shards as one client's: nodes and edges client by client."""
    graph = merge_shards([shard.graph for shard in shards])
    starts = np.cumsum([0, *(shard.graph.own for shard in shards)])
    ends = []
    for shard, start in zip(shards, starts, strict=False):
        of = shard.graph
        at = np.concatenate([start + np.arange(of.own), starts[of.halo_owner] + of.halo_place, [-1]])
        ends.append(at[shard.ends])
    first = shards[0]
    for shard in shards[1:]:
        if (shard.columns.shape[1], shard.timed) != (first.columns.shape[1], first.timed):
            raise InputError(f"The edges of {first.name} and {shard.name} must have the same columns.")
    return EdgeShard(
        name=graph.name,
        ids=graph.ids,
        ends=np.concatenate(ends, axis=1),
        label=np.concatenate([shard.label for shard in shards]),
        split=np.concatenate([shard.split for shard in shards]),
        classes=first.classes,
        label_names=(),
        graph=graph,
        columns=np.concatenate([shard.columns for shard in shards]),
        order=np.concatenate([shard.order for shard in shards]),
        timed=first.timed,
    )


def _order_by_number(graph: WholeGraph, edges: int) -> NDArray[np.float64]:
    """float64 [edges], the place of each edge of a graph."""
    rows = graph.edge_rows
    if rows is None or rows.order is None:
        raise InputError(f"{graph.name}: edges need places in an order.")
    order = np.zeros(edges)
    order[rows.number] = rows.order
    return order


def _in_halo(shard: NodeShard, owner: NDArray[np.integer], place: Indices) -> Indices:
    """int64 [n], numbers of nodes of others, by their addresses, as a shard has them; -1 where it has them not."""
    if not shard.halo:
        return np.full(len(owner), -1)
    known = shard.halo_owner.astype(np.int64) << 32 | shard.halo_place
    wanted = owner.astype(np.int64) << 32 | place
    at = np.minimum(np.searchsorted(known, wanted), shard.halo - 1)
    return np.where(known[at] == wanted, shard.own + at, -1)
