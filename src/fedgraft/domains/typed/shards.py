"""A typed graph, the whole or one client's part: nodes of several types, of which those of one are classified.

Rules, the same for every source:
    Types     a name without "-", which joins the types of an edge and of a metapath ("paper-author-paper").
    Edges     undirected, between two types or within one. All relations between the same two types are one. If they
              carry something, all do, as many numbers each.
    Target    the type whose nodes have features, a class or none, and a place in a split. Others have ids and edges.
    Ids       unique within a type over all clients: the same id at two clients is the same node.
    Clients   a part is an induced subgraph. A target node is one client's own; another node may be at several.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.edge_data.edge_rows import EdgeRows, stacked_edges
from fedgraft.domains.examples import Examples, Features, check_alike, check_below, check_features, stacked
from fedgraft.domains.keyed_split import Hashes, named
from fedgraft.errors import InputError, literal, nearest, require, require_one_of, unknown

JOIN = "-"
"""Joins names of types: "paper-author" are edges, "paper-author-paper" is a metapath."""

Ends: TypeAlias = NDArray[np.int32]
"""int32 [2, edges]: a node of the first type and one of the second, by their places within the types."""
EdgeType: TypeAlias = tuple[str, str]
"""The types that edges join."""


@dataclass(frozen=True, eq=False)
class TypedGraph(Examples):
    """A typed graph, the whole or one client's part; NumPy and SciPy only, so that it can be sent to a process.

    Args:
        name: of the graph, or of the client.
        target: the type whose nodes are classified.
        ids: {type: object [nodes], original ids}; every type that there is.
        features: float32 [targets, f], an array or a `scipy.sparse.csr_matrix`, of target nodes.
        label: int64 [targets], index into `classes`; -1 = unknown.
        classes: names of the classes, the same for all clients.
        split: int8 [targets], index into `SPLITS`; -1 = in none.
        edges: {(type, other type): int32 [2, edges]}, each edge once, in any order; of two types one order is there.
        metapaths: names of the metapaths that the data suggest, such as "paper-author-paper".
        scale_rows: whether a row of features may be brought to one length; not where columns were brought to one size.
        edge_rows: {(type, other type): what each of these edges carries, which goes along}; None = nothing.
    """

    name: str
    target: str
    ids: Mapping[str, NDArray[np.object_]]
    features: Features
    label: Indices
    classes: tuple[str, ...]
    split: NDArray[np.int8]
    edges: Mapping[EdgeType, Ends]
    metapaths: tuple[str, ...]
    scale_rows: bool = True
    edge_rows: Mapping[EdgeType, EdgeRows] | None = None

    def __post_init__(self) -> None:
        what = f"TypedGraph.{{}} of {literal(self.name)}"
        require_one_of(what.format("target"), self.target, tuple(self.ids))
        for key, shape, wanted in (
            ("features", self.features.shape, (self.targets, self.features.shape[-1])),
            ("split", self.split.shape, (self.targets,)),
            ("ids", self.ids[self.target].shape, (self.targets,)),
        ):
            require(shape == wanted, what.format(key), f"of shape {wanted}", shape)
        check_features(self.features, what.format("features"))
        check_below({"label": len(self.classes), "split": len(SPLITS)}, vars(self), what)
        if len(lost := np.flatnonzero((self.label < 0) & (self.split >= 0))):
            require(False, what.format("split"), "-1 where a node has no label", f"{self.split[lost[0]]} at {lost[0]}")
        for pair, ends in self.edges.items():
            _check_edges(what.format("edges"), pair, ends, {kind: len(ids) for kind, ids in self.ids.items()})
            if pair[0] != pair[1] and pair[::-1] in self.edges:
                raise InputError(f"{what.format('edges')}: {pair} and {pair[::-1]} are the same edges.")
        if self.edge_rows is not None:
            counts = {pair: ends.shape[1] for pair, ends in self.edges.items()}
            carried = {pair: len(rows) for pair, rows in self.edge_rows.items()}
            require(carried == counts, what.format("edge_rows"), f"a row for each edge, {counts}", carried)
            stacked_edges(list(self.edge_rows.values()))  # raises where they carry different things

    @property
    def targets(self) -> int:
        """int, the number of nodes of the target type."""
        return len(self.label)

    @property
    def nodes(self) -> int:
        """int, the number of nodes of all types."""
        return sum(len(ids) for ids in self.ids.values())

    @property
    def width(self) -> int:
        """int, the number of features."""
        return int(self.features.shape[1])

    @property
    def carried(self) -> EdgeRows | None:
        """What all edges carry, one pair of types after another; None for nothing."""
        return None if self.edge_rows is None else stacked_edges(list(self.edge_rows.values()))

    def adjacency(self, one: str, other: str) -> sparse.csr_matrix:
        """Return which nodes of a type have an edge to which of another, 1 or 0, float32 [one, other].

        Raises `InputError`, with the types that there are edges between, where there are none between these.
        """
        pair = self.pair_of(one, other)
        matrix = self.matrix(one, other, np.ones(self.edges[pair].shape[1], np.float32))
        matrix.sum_duplicates()
        matrix.data[:] = 1.0
        return matrix

    def matrix(self, one: str, other: str, data: NDArray[Any]) -> sparse.csr_matrix:
        """Return a matrix [one, other] with a number for each edge of the pair of types, [edges]; both ways in one."""
        pair = self.pair_of(one, other)
        ends = self.edges[pair] if pair == (one, other) else self.edges[pair][::-1]
        if one == other:
            ends, data = np.concatenate([ends, ends[::-1]], axis=1), np.concatenate([data, data])
        return sparse.csr_matrix((data, (ends[0], ends[1])), shape=(len(self.ids[one]), len(self.ids[other])))

    def pair_of(self, one: str, other: str) -> EdgeType:
        """Return two types in the order in which `edges` has them. Raises as `adjacency`."""
        if (pair := (one, other)) not in self.edges and (pair := (other, one)) not in self.edges:
            joined = ", ".join(JOIN.join(pair) for pair in self.edges)
            raise InputError(f"{self.name} has no edges {one}{JOIN}{other}; it has {joined}.")
        return pair

    def hashes(self) -> Hashes:
        """Return a hash of each target node's id, uint64 [targets]."""
        return named(self.ids[self.target])

    def induced(self, name: str, kept: Mapping[str, Indices]) -> "TypedGraph":
        """Return the subgraph over some nodes of each type, {type: int64 [kept], places}; all edges between them."""
        edges, edge_rows = {}, {}
        for (one, other), ends in self.edges.items():
            place = {kind: _places(len(self.ids[kind]), kept[kind]) for kind in (one, other)}
            moved = np.stack([place[one][ends[0]], place[other][ends[1]]])
            there = np.flatnonzero((moved >= 0).all(axis=0))
            edges[one, other] = moved[:, there]
            if self.edge_rows is not None:
                edge_rows[one, other] = self.edge_rows[one, other].take(there)
        rows = kept[self.target]
        return replace(
            self,
            name=name,
            ids={kind: ids[kept[kind]] for kind, ids in self.ids.items()},
            features=self.features[rows],
            label=self.label[rows],
            split=self.split[rows],
            edges=edges,
            edge_rows=None if self.edge_rows is None else edge_rows,
        )

    def tidy(self) -> "TypedGraph":
        """Return the graph with each edge once, the first that is listed, in the order of its ends."""
        found = {pair: distinct(ends, pair[0] == pair[1]) for pair, ends in self.edges.items()}
        carried = self.edge_rows
        return replace(
            self,
            edges={pair: ends for pair, (ends, _) in found.items()},
            edge_rows=carried and {pair: carried[pair].take(rows) for pair, (_, rows) in found.items()},
        )

    def carrying(self, values: NDArray[np.float32]) -> "TypedGraph":
        """Return the graph with what was made of rows of the table of edges, float32 [rows, width]."""
        assert self.edge_rows is not None, "it was read with the numbers of rows"
        rows = {pair: replace(rows, values=values[rows.number]) for pair, rows in self.edge_rows.items()}
        return replace(self, edge_rows=rows)


def metapath_types(metapath: str, graph: TypedGraph, option: str = "metapaths") -> tuple[str, ...]:
    """Return the types along a metapath, names of types of the graph joined by "-"; errors name the option.

    Raises `InputError`, with metapaths that there are, for one that does not begin and end at the target type, names a
    type that is none, or goes where there are no edges.
    """
    if not (why := _fault(metapath, graph)):
        return tuple(metapath.split(JOIN))
    suggested = [known for known in graph.metapaths if not _fault(known, graph)]
    there = list(dict.fromkeys((*suggested, *shortest_metapaths(graph.target, list(graph.edges)))))
    hint = "" if JOIN in metapath else nearest(metapath, there)
    raise InputError(f"{option}, {metapath!r}: {why}{hint} There are, for example: {', '.join(there)}.")


def _fault(metapath: str, graph: TypedGraph) -> str:
    """What is wrong with a metapath, a sentence; nothing where nothing is."""
    types = metapath.split(JOIN)
    lost = [kind for kind in types if kind not in graph.ids]
    if lost and len(types) == 1:
        return f"types must be joined by {JOIN!r}."
    if lost:
        return str(unknown("node type", lost[0], list(graph.ids)))
    joined = {*graph.edges, *(pair[::-1] for pair in graph.edges)}
    if missing := [JOIN.join(step) for step in itertools.pairwise(types) if step not in joined]:
        return f"there are no edges {missing[0]}."
    return "" if types[0] == types[-1] == graph.target else f"it must begin and end at {graph.target!r}."


def shortest_metapaths(target: str, edges: Sequence[EdgeType]) -> tuple[str, ...]:
    """Return the metapaths from target nodes to target nodes by one edge, or by way of one node of another type."""
    metapaths = []
    for one, other in edges:
        if one == other == target:
            metapaths.append(JOIN.join((target, target)))
        elif target in (one, other):
            metapaths.append(JOIN.join((target, other if one == target else one, target)))
    return tuple(dict.fromkeys(metapaths))


def merge_graphs(parts: Sequence[TypedGraph]) -> TypedGraph:
    """Return all parts as one graph: nodes with the same type and id are one, every edge is there once."""
    first = parts[0]
    check_alike(parts)
    kinds = tuple(dict.fromkeys(kind for part in parts for kind in part.ids))
    ids = {kind: list(dict.fromkeys(one for part in parts for one in part.ids.get(kind, ()))) for kind in kinds}
    place = {kind: {one: number for number, one in enumerate(known)} for kind, known in ids.items()}
    at = [
        {kind: np.array([place[kind][one] for one in known], np.int32) for kind, known in part.ids.items()}
        for part in parts
    ]
    pairs = dict.fromkeys(pair for part in parts for pair in part.edges)
    found = {pair: distinct(_moved(pair, parts, at), within=False) for pair in pairs}
    carried = None if first.edge_rows is None else {pair: _rows_of(pair, parts).take(found[pair][1]) for pair in pairs}
    order = np.concatenate([where[first.target] for where in at])
    if len(np.unique(order)) != len(order):
        raise InputError(f"A node of type {first.target!r} is at two clients; each must be at one.")
    return TypedGraph(
        name="all clients",
        target=first.target,
        ids={kind: np.array(known, dtype=object) for kind, known in ids.items()},
        features=stacked([part.features for part in parts]),
        label=np.concatenate([part.label for part in parts]),
        classes=first.classes,
        split=np.concatenate([part.split for part in parts]),
        edges={pair: ends for pair, (ends, _) in found.items()},
        metapaths=first.metapaths,
        scale_rows=first.scale_rows,
        edge_rows=carried,
    )


def apart(part: TypedGraph, number: int) -> TypedGraph:
    """Return a client's part with ids of its own for nodes of other types than the target: its number is in them."""
    ids = {
        kind: known if kind == part.target else np.array([(number, one) for one in known] + [None], dtype=object)[:-1]
        for kind, known in part.ids.items()
    }
    return replace(part, ids=ids)


def _moved(pair: EdgeType, parts: Sequence[TypedGraph], at: Sequence[Mapping[str, NDArray[np.int32]]]) -> Ends:
    """The edges of a pair of types, part after part; `at` says where the parts' nodes are in the whole."""
    one, other = pair
    ends = [
        np.stack([where[one][part.edges[pair][0]], where[other][part.edges[pair][1]]])
        for part, where in zip(parts, at, strict=True)
        if pair in part.edges
    ]
    return np.concatenate(ends, axis=1)


def _rows_of(pair: EdgeType, parts: Sequence[TypedGraph]) -> EdgeRows:
    """What these edges carry, likewise."""
    rows = stacked_edges([part.edge_rows[pair] if part.edge_rows else None for part in parts if pair in part.edges])
    assert rows is not None, "what one part's edges carry, all do"
    return rows


def _places(count: int, kept: Indices) -> NDArray[np.int32]:
    """int32 [count]: the place of each node among those that are kept, -1 for the others."""
    place = np.full(count, -1, np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    return place


def _check_edges(what: str, pair: EdgeType, ends: Ends, counts: Mapping[str, int]) -> None:
    """Raise `InputError` for edges of types that are none, or of nodes that are none."""
    for kind, numbers in zip(pair, ends, strict=True):
        if kind not in counts:
            raise InputError(f"{what}: {unknown('node type', kind, list(counts))}")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < counts[kind]:
            wrong = int(((numbers < 0) | (numbers >= counts[kind])).argmax())
            raise InputError(
                f"{what}: edge {wrong} of {JOIN.join(pair)} has node {numbers[wrong]} of type {kind!r}; "
                f"nodes are 0..{counts[kind] - 1}."
            )


Adjacencies = Mapping[str, Mapping[str, sparse.csr_matrix]]
"""{type: {type that it has edges to: which node to which, 1 or 0, float32}}, both ways."""


def once(ends: NDArray[np.integer], within: bool) -> Ends:
    """Return each edge once, int32 [2, edges]; `within` a type, where it may be listed either way, without loops."""
    return distinct(ends, within)[0]


def distinct(ends: NDArray[np.integer], within: bool) -> tuple[Ends, Indices]:
    """(`once`, the place where each edge is listed first, int64 [edges])."""
    places = np.arange(ends.shape[1])
    if within:
        places = np.flatnonzero(ends[0] != ends[1])
        ends = np.sort(ends[:, places], axis=0)
    edges, first = np.unique(ends, axis=1, return_index=True)
    return edges.astype(np.int32), places[first]


def adjacencies(graph: TypedGraph) -> Adjacencies:
    """Return which nodes have edges to which, for all types that have edges, both ways."""
    joined: dict[str, dict[str, sparse.csr_matrix]] = {kind: {} for kind in graph.ids}
    for one, other in graph.edges:
        joined[one][other] = graph.adjacency(one, other)
        if one != other:
            joined[other][one] = joined[one][other].T.tocsr()
    return joined
