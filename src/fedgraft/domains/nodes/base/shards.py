"""One graph cut over clients: the values every node data set hands over, and the rules they share.

Rules, the same for every source:
    Edges     undirected: each is stored both ways; loops and repeats go, with a note. A node may have no edge. Where
              edges carry something (`EdgeRows`) they have directions, if the data say so, and repeats stay.
    Cut       a node is one client's own. An edge between two clients is kept, by both: each stores it at its own end,
              and of the other end it has an address, that client and a place among its nodes, and nothing else.
    Features  of one width for all clients, finite; sparse ones stay sparse.
    Labels    a node has one class or none (-1). Classes are numbered alike at all clients; a client may lack some. Or
              there are no classes, and a node has a number or none (nan).
    Split     of the whole graph, seeded, stratified by class or by fifth of the numbers: five equal folds, of which one
              is the test set; of the rest a fifth is for validation, so 64:16:20; or of the fold itself a half, so
              80:10:10. A node without a label is in no split (-1).
    Clients   a client needs a node, but no training node: one without is kept, since its nodes are neighbours of
              others'. It answers for them, its `rows("train")` are empty, and it must not be asked to train.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.edge_data.edge_rows import EdgeRows, stacked_edges, taken
from fedgraft.domains.examples import (
    Examples,
    Features,
    check_alike,
    check_below,
    check_ends,
    check_features,
    stacked,
)
from fedgraft.domains.keyed_split import Hashes, named
from fedgraft.domains.labels.known import is_known
from fedgraft.domains.notes import LOG
from fedgraft.errors import InputError, literal, require
from fedgraft.nn.sparse import ranges
from fedgraft.wire.layouts import Array

Numbers: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class LabelledNodes(Examples):
    """Nodes of a graph with features and labels, and the edges by which they hear from nodes.

    Args:
        name: of the graph, or of the client.
        ids: object [nodes], original ids.
        features: float32 [nodes, f], an array or a `scipy.sparse.csr_matrix`.
        label: int64 [nodes], index into `classes`; -1 = unknown. Or float64 [nodes], numbers; nan = unknown.
        classes: names of the classes, the same for all clients; none where labels are numbers.
        split: int8 [nodes], index into `SPLITS`; -1 = in none.
        pointers: int64 [nodes + 1]: node v hears from senders[pointers[v]] .. senders[pointers[v + 1] - 1].
        senders: int32 [edges], ascending for each receiver.
        edge_rows: what these edges carry; None where they carry nothing, and none is there twice.
        scale_rows: whether a row of features may be brought to one length, as that of a bag of words; not where columns
            were brought to one size.
    """

    name: str
    ids: NDArray[np.object_]
    features: Features
    label: Array
    classes: tuple[str, ...]
    split: NDArray[np.int8]
    pointers: Indices
    senders: Numbers
    edge_rows: EdgeRows | None = field(default=None, kw_only=True)
    scale_rows: bool = field(default=True, kw_only=True)

    @classmethod
    def unsplit(
        cls,
        name: str,
        ids: Array,
        features: Features,
        label: Array,
        edges: tuple[Indices, Numbers],
        classes: tuple[str, ...] = (),
        **more: Any,
    ) -> Self:
        """Return a graph whose nodes are in no split; `edges` are its pointers and senders, `more` other arguments."""
        return cls(name, ids.astype(object), features, label, classes, np.full(len(label), -1, np.int8), *edges, **more)

    @property
    def width(self) -> int:
        """int, the number of features."""
        return int(self.features.shape[1])

    @property
    def edge_width(self) -> int:
        """int, the number of columns of edges."""
        return 0 if self.edge_rows is None else self.edge_rows.width

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""
        return self.edge_rows is not None and self.edge_rows.weight is not None

    @property
    def edge_weight(self) -> NDArray[np.float32]:
        """float32 [edges], how many edges each stands for."""
        known = None if self.edge_rows is None else self.edge_rows.weight
        return np.ones(len(self.senders), np.float32) if known is None else known

    @property
    def degree(self) -> Indices:
        """int64 [nodes]: how many edges lead to each; of a client's, those from elsewhere, too."""
        return np.diff(self.pointers)

    @property
    def weighted_degree(self) -> NDArray[np.float32]:
        """float32 [nodes], the sum of the weights of these edges; their number where they have none."""
        if not self.weighted:
            return self.degree.astype(np.float32)
        receiver = np.repeat(np.arange(len(self.pointers) - 1), self.degree)
        return np.bincount(receiver, self.edge_weight, minlength=len(self.pointers) - 1).astype(np.float32)

    def hashes(self) -> Hashes:
        """Return a hash of each node's id, uint64 [nodes]."""
        return named(self.ids)


@dataclass(frozen=True, eq=False)
class NodeShard(LabelledNodes):
    """One client's own part of a graph; NumPy and SciPy only, so that it can be sent to a worker process.

    Args:
        senders: 0 .. own - 1 are own nodes, own .. own + halo - 1 are nodes of others (the halo), by owner, then place.
            An edge between own nodes is here twice, one to a node elsewhere once.
        halo_owner: int32 [halo], whose node it is: the number of a client.
        halo_place: int32 [halo], which of that client's nodes.
    """

    halo_owner: Numbers = field(default_factory=lambda: np.zeros(0, np.int32), kw_only=True)
    halo_place: Numbers = field(default_factory=lambda: np.zeros(0, np.int32), kw_only=True)

    def __post_init__(self) -> None:
        what = f"NodeShard.{{}} of {literal(self.name)}"
        _check(self, what, self.own + self.halo)
        sound = self.halo_owner.shape == self.halo_place.shape == (self.halo,)
        require(sound, what.format("halo_place"), f"of shape {(self.halo,)}", self.halo_place.shape)
        for key, numbers in (("halo_owner", self.halo_owner), ("halo_place", self.halo_place)):
            require(numbers.min(initial=0) >= 0, what.format(key), "at least 0", int(numbers.min(initial=0)))
        address = addresses(self)
        if len(again := np.flatnonzero(address[1:] <= address[:-1])):
            raise InputError(
                f"{what.format('halo_owner')} and halo_place must ascend, each node once; halo node {again[0] + 1} "
                "is not after the one before it."
            )

    @property
    def own(self) -> int:
        """int, the number of own nodes."""
        return len(self.label)

    @property
    def halo(self) -> int:
        """int, the number of nodes of others that are neighbours of own ones."""
        return len(self.halo_owner)


def addresses(shard: NodeShard) -> Indices:
    """int64 [halo], client << 32 | place of each node of the halo, ascending."""
    return np.asarray(shard.halo_owner.astype(np.int64) << 32 | shard.halo_place)


@dataclass(frozen=True, eq=False)
class WholeGraph(LabelledNodes):
    """A graph before it is cut; every edge both ways, no loops, no repeats, as `undirected` makes them."""

    def __post_init__(self) -> None:
        what = f"WholeGraph.{{}} of {literal(self.name)}"
        require(self.nodes >= 1, what.format("label"), "of at least one node", self.nodes)
        _check(self, what, self.nodes)
        stored = self.features if isinstance(self.features, np.ndarray) else self.features.data
        if not np.isfinite(stored).all():
            values = self.features if isinstance(self.features, np.ndarray) else self.features.toarray()
            node, column = (int(axis[0]) for axis in np.nonzero(~np.isfinite(values)))
            raise InputError(
                f"{self.name}: features must be finite numbers; got {values[node, column]:g} as feature {column} of "
                f"node {self.ids[node]!r} ({np.count_nonzero(~np.isfinite(stored))} such values)."
            )

    @property
    def nodes(self) -> int:
        """int, the number of nodes."""
        return len(self.label)

    @property
    def edges(self) -> int:
        """int, the number of undirected edges."""
        return len(self.senders) // 2


def _check(graph: LabelledNodes, what: str, senders: int) -> None:
    """Raise `InputError` for arrays that do not fit; `what` with a field's name is what errors call it."""
    nodes = len(graph.label)
    for key, shape, wanted in (
        ("ids", graph.ids.shape, (nodes,)),
        ("features", graph.features.shape, (nodes, graph.features.shape[-1])),
        ("split", graph.split.shape, (nodes,)),
        ("pointers", graph.pointers.shape, (nodes + 1,)),
        ("senders", graph.senders.shape, (int(graph.pointers[-1]) if len(graph.pointers) else 0,)),
    ):
        require(shape == wanted, what.format(key), f"of shape {wanted}", shape)
    check_features(graph.features, what.format("features"))
    if graph.edge_rows is not None:
        rows = len(graph.edge_rows)
        require(rows == len(graph.senders), what.format("edge_rows"), f"of {len(graph.senders)} edges", rows)
    falling = np.flatnonzero(np.diff(graph.pointers, prepend=0) < 0)
    if len(falling) or graph.pointers[0] != 0:
        place = int(falling[0]) if len(falling) else 0
        require(False, what.format("pointers"), "ascending from 0", f"{int(graph.pointers[place])} at {place}")
    if len(graph.senders) and not 0 <= graph.senders.min() <= graph.senders.max() < senders:
        edge = int(((graph.senders < 0) | (graph.senders >= senders)).argmax())
        receiver = int(np.searchsorted(graph.pointers, edge, side="right")) - 1
        raise InputError(
            f"{what.format('senders')}: edge {edge}, to node {receiver}, comes from node {graph.senders[edge]}; "
            f"nodes are 0..{senders - 1}."
        )
    counts = {"split": len(SPLITS)}
    if graph.label.dtype.kind != "f":
        counts = {"label": len(graph.classes), **counts}
    check_below(counts, vars(graph), what)
    lost = np.flatnonzero(~is_known(graph.label) & (graph.split >= 0))
    if len(lost):
        require(False, what.format("split"), "-1 where a node has no label", f"{graph.split[lost[0]]} at {lost[0]}")


# --- edges ------------------------------------------------------------------------------------------------------------


def undirected(ends: NDArray[np.integer], nodes: int, where: str) -> tuple[Indices, Numbers, tuple[str, ...]]:
    """(pointers, senders) as a `WholeGraph` holds them, and a note for each kind of edge that was left out.

    Args:
        ends: whole numbers [2, m], nodes; an edge may be listed one way or both.
        nodes: how many there are.
        where: what an edge is called in errors, such as "edges.csv, row"; its number, from 1, follows.
    """
    check_ends(ends, nodes, where, 0)
    loops = ends[0] == ends[1]
    if count := int(np.count_nonzero(loops)):
        ends = ends[:, ~loops]
    # Counting sorts of SciPy: linear in edges, and far from a matrix of 8-byte keys in memory.
    listed = sparse.coo_matrix((np.ones(ends.shape[1], bool), (ends[0], ends[1])), shape=(nodes, nodes)).tocsr()
    listed.sum_duplicates()
    counts = {"edges from a node to itself": count, "repeated edges": ends.shape[1] - listed.nnz}
    notes = tuple(f"{count:,} {what} left out." for what, count in counts.items() if count)
    both = listed + listed.T.tocsr()
    both.sort_indices()
    return both.indptr.astype(np.int64), both.indices.astype(np.int32, copy=False), notes


# --- cutting and putting together -------------------------------------------------------------------------------------


def cut(graph: WholeGraph, owner: NDArray[np.integer], names: Sequence[str]) -> list[NodeShard]:
    """Return a shard per client of `names`; `owner`, whole numbers [nodes], is the number of each node's client."""
    clients = len(names)
    require(owner.shape == (graph.nodes,), f"owner of {graph.name}", f"of shape {(graph.nodes,)}", owner.shape)
    if not 0 <= owner.min() <= owner.max() < clients:
        node = int(((owner < 0) | (owner >= clients)).argmax())
        require(False, f"owner of {graph.name}", f"0..{clients - 1}", f"{owner[node]} of node {graph.ids[node]!r}")
    counts = np.bincount(owner, minlength=clients)
    if len(empty := np.flatnonzero(counts == 0)):
        raise InputError(
            f"{graph.name}: client {names[empty[0]]!r} has no nodes ({len(empty)} such clients); every client needs "
            "one. Take fewer clients or another partition."
        )
    starts = np.concatenate([[0], np.cumsum(counts)])
    order = np.argsort(owner, kind="stable")
    # A node's rank is its number once nodes are in the order of their clients; addresses are read off it.
    rank = np.empty(graph.nodes, np.int32)
    rank[order] = np.arange(graph.nodes, dtype=np.int32)
    degree = graph.degree
    local = np.empty(graph.nodes, np.int32)
    shards = []
    for k, name in enumerate(names):
        rows = order[starts[k] : starts[k + 1]]
        pointers = np.concatenate([[0], np.cumsum(degree[rows])])
        stored = ranges(graph.pointers[rows], degree[rows])
        sending = rank[graph.senders[stored]]
        elsewhere = np.zeros(graph.nodes, bool)
        elsewhere[sending] = True
        elsewhere[starts[k] : starts[k + 1]] = False
        halo = np.flatnonzero(elsewhere)
        local[starts[k] : starts[k + 1]] = np.arange(len(rows))
        local[halo] = len(rows) + np.arange(len(halo))
        halo_owner = np.searchsorted(starts, halo, side="right") - 1
        carried = taken(graph.edge_rows, stored)
        senders, carried = _ascending(pointers, local[sending], len(rows) + len(halo), carried)
        shards.append(
            NodeShard(
                name=name,
                ids=graph.ids[rows],
                features=graph.features[rows],
                label=graph.label[rows],
                classes=graph.classes,
                split=graph.split[rows],
                pointers=pointers,
                senders=senders,
                edge_rows=carried,
                halo_owner=halo_owner.astype(np.int32),
                halo_place=(halo - starts[halo_owner]).astype(np.int32),
                scale_rows=graph.scale_rows,
            )
        )
    if graph.classes and (idle := sum(len(shard.rows("train")) == 0 for shard in shards)):
        LOG.warning(f"{graph.name}: {idle:,} of {clients:,} clients have no training nodes; they do not train.")
    return shards


def merge_shards(shards: Sequence[NodeShard]) -> NodeShard:
    """All shards as one client's: every node with its split, every edge inside it, no halo; nodes client by client."""
    check_alike(shards)
    counts = np.array([shard.own for shard in shards])
    starts = np.cumsum(counts) - counts
    parts = []
    for shard, start in zip(shards, starts, strict=True):
        lost = (shard.halo_owner >= len(shards)) | (shard.halo_place >= counts[shard.halo_owner % len(shards)])
        if lost.any():
            halo = int(lost.argmax())
            raise InputError(
                f"{shard.name}: halo node {halo} is node {shard.halo_place[halo]} of client {shard.halo_owner[halo]}, "
                "which is not among these shards."
            )
        at = np.concatenate([start + np.arange(shard.own), starts[shard.halo_owner] + shard.halo_place])
        parts.append(at.astype(np.int32)[shard.senders])
    pointers = np.concatenate([[0], np.cumsum(np.concatenate([shard.degree for shard in shards]))])
    carried = stacked_edges([shard.edge_rows for shard in shards])
    senders, carried = _ascending(pointers, np.concatenate(parts), int(counts.sum()), carried)
    return NodeShard(
        name="all clients",
        ids=np.concatenate([shard.ids for shard in shards]),
        features=stacked([shard.features for shard in shards]),
        label=np.concatenate([shard.label for shard in shards]),
        classes=shards[0].classes,
        split=np.concatenate([shard.split for shard in shards]),
        pointers=pointers,
        senders=senders,
        edge_rows=carried,
        scale_rows=shards[0].scale_rows,
    )


def each_once(shard: NodeShard) -> NodeShard:
    """The shard with each neighbour once: who is joined to whom, by the sum of the weights if edges have some."""
    if shard.edge_rows is None:
        return shard
    receiver = np.repeat(np.arange(shard.own), shard.degree)
    first = (np.diff(receiver, prepend=-1) > 0) | (np.diff(shard.senders, prepend=-1) != 0)
    pointers = np.concatenate([[0], np.cumsum(np.bincount(receiver[first], minlength=shard.own))])
    carried, count = None, int(first.sum())
    if shard.weighted:
        sums = np.add.reduceat(shard.edge_weight, np.flatnonzero(first), dtype=np.float64).astype(np.float32)
        carried = EdgeRows(np.zeros((count, 0), np.float32), np.ones(count, bool), np.arange(count), sums)
    return replace(shard, pointers=pointers, senders=shard.senders[first], edge_rows=carried)


def _ascending(
    pointers: Indices, senders: Numbers, width: int, carried: EdgeRows | None
) -> tuple[Numbers, EdgeRows | None]:
    """The senders, ascending for each receiver, and what their edges carry; repeats by the edge's number."""
    if carried is not None:
        receiver = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
        order = np.lexsort((carried.number, senders, receiver))
        return senders[order].astype(np.int32, copy=False), carried.take(order)
    matrix = sparse.csr_matrix((np.ones(len(senders), bool), senders, pointers), shape=(len(pointers) - 1, width))
    matrix.sort_indices()
    return matrix.indices.astype(np.int32, copy=False), None


def pooled(shards: Sequence[NodeShard]) -> NodeShard:
    """All clients' nodes as one client's. Raises `InputError` if none of them is for training."""
    graph = merge_shards(shards)
    if not len(graph.rows("train")):
        raise InputError(f"The {graph.own:,} nodes of {len(shards):,} clients have no training node among them.")
    return graph


def judges(graph: NodeShard) -> Indices:
    """int64 [n], the nodes on which settings are chosen: those for validation, without any those for training."""
    rows = graph.rows("validation")
    return rows if len(rows) else graph.rows("train")
