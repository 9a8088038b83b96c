"""Sets of labelled graphs: the values every graph data set hands over, and the rules they share.

Rules, the same for every source:
    Edges     undirected: each is stored both ways; loops and repeats go, with a note. A graph may have no edge. Edges
              that carry something may repeat, and have a direction: each is stored at both of its ends.
    Features  a node has a kind (a one-hot column, kept as its number), attributes, both, or neither. Where a set has
              neither, a node's kind is its degree. That a node or a degree occurs is no label: what kinds there are
              comes from all of a set's graphs.
    Labels    classes or, where there are none, numbers. A client needs graphs of at least two classes, and at least
              three graphs.
    Split     per client, seeded, 8:1:1, stratified by class or by fifth of the numbers; each part keeps a graph, and
              each class a training graph unless a part would be left empty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_rows import EdgeRows, stacked_edges, taken
from fedgraft.domains.examples import Examples, check_ends
from fedgraft.domains.keyed_split import Hashes, named
from fedgraft.domains.labels.known import groups_of
from fedgraft.errors import InputError, require
from fedgraft.nn.sparse import ranges
from fedgraft.wire.layouts import Array

HELD_OUT = 0.1
"""Share of a client's graphs in each of validation and test; 8:1:1 as in Xie et al., "FedStar", AAAI 2023."""
FEWEST = 3
"""Graphs of a client: one to train on, one for validation, one for test."""
DRAWS = 1000
"""Draws of a partition before it is given up; a draw costs little, and most are good where a good one is likely."""
FEW_SHOWN = 3
"""Names in an error before it says how many more there are."""

Edges = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class GraphShard(Examples):
    """One client's own graphs; NumPy only, so that it can be sent to a worker process.

    Args:
        name: the client's name.
        sizes: int64 [graphs], nodes of each graph; a graph's nodes are contiguous.
        edges: int32 [2, edges], receiver over sender, node numbers within the shard; every edge both ways, no loops, no
            repeats unless they carry something, ascending by receiver, then sender: a graph's part of it is a slice,
            and a CSR but for the counts.
        kind: int32 [nodes], the one-hot column of each node; -1 = none.
        kinds: how many one-hot columns there are; 0 = none.
        attributes: float32 [nodes, a], unscaled.
        label: int64 [graphs], index into `classes`; -1 = unknown. Or float64 [graphs], numbers; nan = unknown.
        classes: names of the classes; none where labels are numbers.
        split: int8 [graphs], index into `SPLITS`.
        ids: object [graphs], the graphs' original ids.
        kind_names: one per kind, or none at all.
        attribute_names: one per attribute, or none at all.
        degrees: whether a node's kind is its degree, for want of anything else.
        edge_rows: what edges carry, in their order; None where they carry nothing.
        edge_names: one per column of edges, or none at all; "NAME=VALUE" is 1 where column NAME has that value.
    """

    name: str
    sizes: Indices
    edges: Edges
    kind: NDArray[np.int32]
    kinds: int
    attributes: NDArray[np.float32]
    label: Array
    classes: tuple[str, ...]
    split: NDArray[np.int8]
    ids: NDArray[np.object_]
    kind_names: tuple[str, ...] = ()
    attribute_names: tuple[str, ...] = ()
    degrees: bool = False
    edge_rows: EdgeRows | None = None
    edge_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        nodes, graphs = int(self.sizes.sum()), len(self.sizes)
        for key, array, shape in (
            ("kind", self.kind, (nodes,)),
            ("attributes", self.attributes, (nodes, self.attributes.shape[-1])),
            ("edges", self.edges, (2, self.edges.shape[-1])),
            ("label", self.label, (graphs,)),
            ("split", self.split, (graphs,)),
            ("ids", self.ids, (graphs,)),
        ):
            require(array.shape == shape, f"GraphShard.{key} of {self.name}", f"of shape {shape}", array.shape)
        for key, names, count in (
            ("kind_names", self.kind_names, self.kinds),
            ("attribute_names", self.attribute_names, self.attributes.shape[1]),
            ("edge_names", self.edge_names, 0 if self.edge_rows is None else self.edge_rows.width),
        ):
            sound = len(names) in (0, count)
            require(sound, f"GraphShard.{key} of {self.name}", f"{count} names, or none", len(names))
        if (rows := self.edge_rows) is not None:
            edges = self.edges.shape[1]
            require(len(rows) == edges, f"GraphShard.edge_rows of {self.name}", f"of {edges} edges", len(rows))

    @property
    def graphs(self) -> int:
        """int, the number of graphs."""
        return len(self.sizes)

    @property
    def nodes(self) -> int:
        """int, the number of nodes of all graphs."""
        return len(self.kind)

    @property
    def node_starts(self) -> Indices:
        """int64 [graphs + 1]: graph g has the nodes node_starts[g] .. node_starts[g + 1] - 1."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def edge_starts(self) -> Indices:
        """int64 [graphs + 1]: the same for the columns of `edges`."""
        return np.searchsorted(self.edges[0], self.node_starts.astype(np.int32)).astype(np.int64)

    @property
    def degree(self) -> Indices:
        """int64 [nodes]: how many neighbours; its running sum is the row pointer of a CSR whose columns are senders."""
        return np.bincount(self.edges[0], minlength=self.nodes).astype(np.int64)

    @property
    def weighted_degree(self) -> NDArray[np.float32]:
        """float32 [nodes], the sum of the weights of these edges; their number where they have none."""
        weight = None if self.edge_rows is None else self.edge_rows.weight
        return np.bincount(self.edges[0], weight, minlength=self.nodes).astype(np.float32)

    def hashes(self) -> Hashes:
        """Return a hash of each graph's id, uint64 [graphs]."""
        return named(self.ids)

    def take(self, graphs: Indices) -> "GraphShard":
        """The shard of these graphs, in this order; the vocabularies stay."""
        sizes = self.sizes[graphs]
        old_starts, edge_starts = self.node_starts, self.edge_starts
        counts = edge_starts[graphs + 1] - edge_starts[graphs]
        node, edge = ranges(old_starts[graphs], sizes), ranges(edge_starts[graphs], counts)
        moved = (np.cumsum(sizes) - sizes - old_starts[graphs]).astype(np.int32)
        return replace(
            self,
            sizes=sizes,
            edges=self.edges[:, edge] + np.repeat(moved, counts),
            kind=self.kind[node],
            attributes=self.attributes[node],
            label=self.label[graphs],
            split=self.split[graphs],
            ids=self.ids[graphs],
            edge_rows=taken(self.edge_rows, edge),
        )


def tidy_edges(ends: Indices, sizes: Indices, where: str, base: int = 0) -> tuple[Edges, tuple[str, ...]]:
    """Edges as a `GraphShard` holds them, and a note for each kind of edge that was left out.

    `ends` is int64 [2, m], node numbers over all graphs; an edge may be listed one way or both. `sizes` is int64
    [graphs], nodes of each. Errors call an edge by `where`, such as "A.txt, line", and its number from 1, and the first
    node by the number `base`.
    """
    nodes = int(sizes.sum())
    check_inside(ends, sizes, where, base)
    loops = ends[0] == ends[1]
    listed = (ends[0] * nodes + ends[1])[~loops]
    listed.sort()
    first = np.concatenate([[True], listed[1:] != listed[:-1]])[: len(listed)]
    counts = {"edges from a node to itself": int(loops.sum()), "repeated edges": len(listed) - int(first.sum())}
    notes = tuple(f"{count:,} {what} left out." for what, count in counts.items() if count)
    listed = listed[first]
    receiver, sender = np.divmod(listed, max(nodes, 1))
    turned = np.sort(sender * nodes + receiver)
    if not np.array_equal(listed, turned):
        receiver, sender = np.divmod(np.union1d(listed, turned), nodes)
    return np.stack([receiver.astype(np.int32), sender.astype(np.int32)]), notes


def check_inside(ends: Indices, sizes: Indices, where: str, base: int = 0) -> None:
    """Raise `InputError` for an edge to no node, or between two graphs; arguments as of `tidy_edges`."""
    check_ends(ends, int(sizes.sum()), where, base)
    graph = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    across = graph[ends[0]] != graph[ends[1]]
    if across.any():
        row = int(across.argmax())
        raise InputError(
            f"{where} {row + 1}: nodes {ends[0, row] + base} and {ends[1, row] + base} belong to different graphs; "
            f"an edge must stay inside one ({int(across.sum())} such edges)."
        )


def with_degrees(shard: GraphShard, kinds: int | None = None) -> GraphShard:
    """The shard with every node's degree as its kind; `kinds` of them, or as many as occur."""
    degree = shard.degree
    kinds = int(degree.max(initial=0)) + 1 if kinds is None else kinds
    return replace(
        shard,
        kind=np.where(degree < kinds, degree, -1).astype(np.int32),
        kinds=kinds,
        kind_names=tuple(map(str, range(kinds))),
        degrees=True,
    )


def check_graphs(shard: GraphShard, source: str = "") -> None:
    """Raise `InputError` for an empty graph or an attribute that is no finite number; `source` names what was read."""
    where = source or shard.name
    empty = np.flatnonzero(shard.sizes == 0)
    if len(empty):
        raise InputError(
            f"{where}: graph {shard.ids[empty[0]]!r} has no nodes; every graph needs one ({len(empty)} such graphs)."
        )
    broken = ~np.isfinite(shard.attributes)
    if broken.any():
        node, column = (int(axis[0]) for axis in np.nonzero(broken))
        graph = int(np.searchsorted(shard.node_starts, node, side="right")) - 1
        name = shard.attribute_names[column] if shard.attribute_names else str(column)
        raise InputError(
            f"{where}: attribute {name!r} must be a finite number; got {shard.attributes[node, column]:g} at node "
            f"{node - int(shard.node_starts[graph])} of graph {shard.ids[graph]!r} ({int(broken.sum())} such values)."
        )


def check_labels(shard: GraphShard, source: str = "") -> None:
    """Raise `InputError` unless a client can train on these graphs, be validated and tested; `source` as above."""
    where = source or shard.name
    if shard.graphs < FEWEST:
        raise InputError(
            f"{where}: at least {FEWEST} graphs are needed, for training, validation and test; got {shard.graphs}."
        )
    present = np.unique(shard.label)
    if shard.classes and len(present) < 2:
        raise InputError(
            f"{where}: all {shard.graphs} graphs have the class {shard.classes[present[0]]!r}; "
            "graphs of at least two classes are needed."
        )


def split_graphs(label: Array, g: np.random.Generator) -> NDArray[np.int8]:
    """int8 [graphs]: to which of `SPLITS` each of a client's graphs belongs; 8:1:1, stratified by `label`.

    Validation and test get a tenth each, rounded, at least one graph; training gets the rest. Of each class they get a
    tenth of its graphs, rounded up or down, and one graph of each class is set apart for training before; the rarest
    classes lose this right where too few graphs would be left for validation and test.
    """
    n, label = len(label), groups_of(label)
    require(n >= FEWEST, "split_graphs: the number of a client's graphs", f"at least {FEWEST}", n)
    held = max(1, round(HELD_OUT * n))
    order = g.permutation(n)
    _, first, count = np.unique(label[order], return_index=True, return_counts=True)
    first = first[np.argsort(-count, kind="stable")][: n - 2 * held]
    rest = np.delete(order, first)
    parts = np.zeros(n, np.int8)
    for part in (2, 1):
        chosen = stratified(label[rest], held, g)
        parts[rest[chosen]] = part
        rest = np.delete(rest, chosen)
    return parts


def stratified(label: Array, count: int, g: np.random.Generator) -> Indices:
    """int64 [count], positions, ascending: of each class its share, rounded up or down; which ones is drawn."""
    order = g.permutation(len(label))
    order = order[np.argsort(label[order], kind="stable")]
    steps = (g.random() + np.arange(count)) * (len(label) / max(count, 1))
    return np.sort(order[np.minimum(steps.astype(np.int64), len(label) - 1)])


def deal(label: Array, clients: int, alpha: float | None, g: np.random.Generator, name: str) -> list[Indices]:
    """int64 [graphs] for each client, positions, ascending: equal random shares, or shares that differ by class.

    With `alpha` every class is dealt by proportions drawn from a symmetric Dirichlet distribution (Hsu et al.,
    arXiv:1909.06335); without, at random in equal numbers. What leaves a client with fewer than `FEWEST` graphs or with
    one class is drawn again, as a whole; after `DRAWS` draws that is an error.
    """
    label = groups_of(label)
    for _ in range(DRAWS):
        if alpha is None:
            dealt = np.array_split(g.permutation(len(label)), clients)
        else:
            dealt = _dirichlet(label, clients, alpha, g)
        if all(len(rows) >= FEWEST and len(np.unique(label[rows])) > 1 for rows in dealt):
            return [np.sort(rows) for rows in dealt]
    spread = "in equal shares" if alpha is None else f"with alpha = {alpha:g}"
    raise InputError(
        f"{name}: {len(label)} graphs of {len(np.unique(label))} classes dealt to {clients} clients {spread} left one "
        f"with fewer than {FEWEST} graphs or a single class, {DRAWS} times; take fewer clients"
        f"{'' if alpha is None else ' or a larger alpha'}."
    )


def _dirichlet(label: Indices, clients: int, alpha: float, g: np.random.Generator) -> list[Indices]:
    parts: list[list[Indices]] = [[] for _ in range(clients)]
    for each in np.unique(label):
        rows = g.permutation(np.flatnonzero(label == each))
        cuts = np.rint(np.cumsum(g.dirichlet(np.full(clients, alpha)))[:-1] * len(rows)).astype(np.int64)
        for part, dealt in zip(parts, np.split(rows, cuts), strict=True):
            part.append(dealt)
    return [np.concatenate(part) for part in parts]


def merge_shards(shards: Sequence[GraphShard]) -> GraphShard:
    """All shards as one client's: the same graphs in the same splits. They must share kinds, attributes and classes."""
    first = shards[0]
    for other in shards[1:]:
        for what, mine, its in (
            ("kinds", first.kind_names or first.kinds, other.kind_names or other.kinds),
            (
                "attributes",
                first.attribute_names or first.attributes.shape[1],
                other.attribute_names or other.attributes.shape[1],
            ),
            ("classes", first.classes, other.classes),
            ("columns of edges", first.edge_names, other.edge_names),
        ):
            if mine != its:
                raise InputError(
                    f"The graphs of {first.name} and {other.name} cannot be put in one place: their {what} differ "
                    f"({_shown(mine)} against {_shown(its)}), and one model fits only one of them."
                )
    moved = np.cumsum([0, *(shard.nodes for shard in shards[:-1])])
    return replace(
        first,
        name="all clients",
        sizes=np.concatenate([shard.sizes for shard in shards]),
        edges=np.concatenate([shard.edges + np.int32(move) for shard, move in zip(shards, moved, strict=True)], axis=1),
        kind=np.concatenate([shard.kind for shard in shards]),
        attributes=np.concatenate([shard.attributes for shard in shards]),
        label=np.concatenate([shard.label for shard in shards]),
        split=np.concatenate([shard.split for shard in shards]),
        ids=np.concatenate([shard.ids for shard in shards]),
        edge_rows=stacked_edges([shard.edge_rows for shard in shards]),
    )


def _shown(names: tuple[str, ...] | int) -> str:
    if isinstance(names, int):
        return str(names)
    more = [f"and {len(names) - FEW_SHOWN} more"] if len(names) > FEW_SHOWN else []
    return " ".join([", ".join(names[:FEW_SHOWN]) or "none", *more])
