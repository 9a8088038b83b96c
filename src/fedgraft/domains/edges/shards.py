"""One client's own part of a graph whose edges have labels, and the edges that it answers for.

Rules:
    Owner     an edge is the client's whose its source is: that trains on it, scores it, answers for it. The client of
              its target has it in its graph, with its columns, too.
    Columns   an edge carries what messages read, `graph.edge_rows.values`; of an edge that is scored its own `columns`
              are known. Where an earlier label is a column of messages, it is none of these.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.labels import Floats
from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.boundary_columns import ENDS, SIDES
from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeLabels, Make, repeats_before
from fedgraft.domains.edges.order_of_time import EVER, sees, split_of, stage_of, stages
from fedgraft.domains.examples import Features
from fedgraft.domains.keyed_split import Hashes, joined, named, positions
from fedgraft.domains.labelled.labels_of_data import LabelledShard
from fedgraft.domains.labels.known import is_known
from fedgraft.domains.nodes.base.partitions import apart
from fedgraft.domains.nodes.base.shards import NodeShard, WholeGraph, cut, merge_shards
from fedgraft.domains.tables.labels import read_labels, without
from fedgraft.domains.tables.rows import Rows
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


# --- own edges --------------------------------------------------------------------------------------------------------


NUMBERS_HINT: Final = " Numbers are for data.labels = 'numbers'."


def read_edge_labels(
    rows: Rows, classes: Sequence[str], are_numbers: bool, na_labels: Sequence[str], hashed: bool
) -> EdgeLabels:
    """Return the labels of a table of edges; none is known where it has no column of them.

    Args:
        rows: of the table.
        classes: of the recipe; () = those that occur.
        are_numbers: whether labels are numbers.
        na_labels: labels that stand for unknown ones.
        hashed: whether edges are told apart by hashes, too.
    """
    hashes, names = _hashes(rows) if hashed else None, tuple(classes)
    label: Array = np.full(len(rows), np.nan if are_numbers else -1)
    if "edge_label" in rows and not (are_numbers and not len(without(rows["edge_label"], na_labels).filled)):
        label, names = read_labels(rows["edge_label"], names, na_labels, are_numbers, NUMBERS_HINT)
    return EdgeLabels(label, () if are_numbers else names, hashes)


def places_by_hash(carried: CarriedRows, seed: int) -> Floats:
    """Return the place of each edge in an order by the hash of its ends' ids, float64 [edges] in [0, 1)."""
    hashes = carried.edge_labels.hashes
    assert hashes is not None, "as it was read"
    return positions(hashes, seed)


def _hashes(rows: Rows) -> Hashes:
    """uint64 [rows], of the ids of both ends, and of how many rows of the same file before have the same ends.

    Ends of one id that are said to be of different clients are different ones.
    """
    if not len(rows):
        return np.zeros(0, np.uint64)
    ends = [rows[role].distinct() for role in ENDS]
    source, target = (named(names)[code] for code, names in ends)
    whose = [_codes(rows, side) for side in SIDES if side in rows]
    before = repeats_before(np.stack([rows.file, *(code for code, _ in ends), *whose]))
    return joined(joined(source, target), before.astype(np.uint64))


def _codes(rows: Rows, role: str) -> Indices:
    """int64 [rows], a number for each text of a column; -1 where it is empty."""
    cells = rows[role]
    code = np.full(len(rows), -1)
    if len(cells.filled):
        code[cells.filled] = cells.take(cells.filled).codes()[0]
    return code


def edges_of(
    graph: NodeShard,
    carried: CarriedRows,
    mine: Indices,
    place: Floats,
    make: Make,
    classes: tuple[str, ...],
    is_timed: bool,
) -> EdgeShard:
    """Return a client's shard: the edges whose sources are own nodes, in the order of sources, targets and rows.

    Behind these are those whose targets nobody else lists: of such a target nothing is known, and no message is sent.

    Args:
        graph: its nodes and the edges at them; the number of an edge is its row in the table.
        carried: rows of the table that are edges, with their labels.
        mine: int64 [n], which of these its own table lists.
        place: of each of these in the order of all, float64 [rows] in [0, 1).
        make: what a model reads of rows.
        classes: names of the classes; () for numbers.
        is_timed: whether the order is by time.
    """
    rows: Any = graph.edge_rows
    number = np.zeros(int(carried.number.max(initial=-1)) + 1, np.int64)
    number[carried.number] = np.arange(len(carried))
    row, own = number[rows.number], np.flatnonzero(~rows.along)
    receiver = np.repeat(np.arange(graph.own), graph.degree)
    alone, source = _alone(carried, mine, rows.number)
    label, order = carried.edge_labels.label[np.append(row[own], alone)], place[np.append(row[own], alone)]
    ends = np.stack([receiver[own], graph.senders[own].astype(np.int64)])
    return EdgeShard(
        name=graph.name,
        ids=graph.ids,
        ends=np.concatenate([ends, np.stack([source, np.full(len(source), -1)])], axis=1),
        label=label,
        split=np.where(is_known(label), split_of(order), -1).astype(np.int8),
        classes=classes,
        label_names=(),
        graph=replace(graph, edge_rows=replace(rows, order=np.where(rows.number < 0, EVER, place[row]))),
        columns=np.concatenate([rows.values[own], make(carried.take(alone))]),
        order=order,
        timed=is_timed,
    )


def _alone(carried: CarriedRows, mine: Indices, joined: Indices) -> tuple[Indices, Indices]:
    """(which of a client's rows go out and are none of the `joined`, by number; places of their sources)."""
    labels = carried.labels
    if labels is None or labels.source is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    alone = mine[(labels.source[mine] >= 0) & ~np.isin(carried.number[mine], joined)]
    alone = alone[np.argsort(labels.source[alone], kind="stable")]
    return alone, labels.source[alone]


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
