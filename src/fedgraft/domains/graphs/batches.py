"""Batches of small graphs: many graphs side by side, one row per colour, put together from a client's own.

For a whole network, of which nobody knows what it tells apart, every node is a colour of its own. Where edges carry
something, one colour may have several kinds of edges from another; each kind is there once, with how often.
Nodes' places are features of their graph alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.graphs.weisfeiler_lehman import Colours, hashes_of, refine
from fedgraft.nn.propagate import SMALL, Block, EdgeValues, Sparse
from fedgraft.nn.sparse import ranges
from fedgraft.nn.whole_networks import Subgraph

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Layer:
    """The matrices between two layers' states, by colour, and those that read off the later one.

    `share` is float32 [colours], of the batch's nodes that have each; `counts` is [graphs, colours], how many of each.
    """

    block: Block
    share: Tensor
    counts: Sparse


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Some graphs side by side; instead of nodes it has the colours that occur in them, which are fewer.

    Args:
        kind: int64 [colours], the one-hot column of each, in [0, kinds); the column `kinds` stands for none.
        attributes: float32 [colours, a].
        structure: float32 [colours, s], where the model looks at it, else s = 0.
        counts: [graphs, colours], how many nodes of each.
        layers: one for each of the network's.
        label: int64 [graphs].
        subtrees: float32 [graphs, buckets], counts of subtrees, where the model looks at them.
    """

    kind: Tensor
    attributes: Tensor
    structure: Tensor
    counts: Sparse
    layers: tuple[Layer, ...]
    label: Tensor
    subtrees: Sparse | None = None

    def to(self, device: torch.device) -> "GraphBatch":
        """Return the batch on another device."""
        if device == self.label.device:
            return self
        layers = tuple(
            Layer(layer.block.to(device), layer.share.to(device), layer.counts.to(device)) for layer in self.layers
        )
        first = self.kind.to(device), self.attributes.to(device), self.structure.to(device), self.counts.to(device)
        subtrees = None if self.subtrees is None else self.subtrees.to(device)
        return GraphBatch(*first, layers, self.label.to(device), subtrees)


class Collator:
    """A client's graphs, ready to be put together in any choice; `sizes` is int64 [graphs], how many nodes each has.

    Colours are numbered through, those before the first layer first, so that one table serves all layers.

    The network has at least one layer; None stands for a whole network, which is one. `degrees` says whether what a
    node sends depends on its degree. `structure` is float32 [nodes, s], features of the nodes' places, and `subtrees`
    float32 [graphs, buckets], the graphs' counts of subtrees; or none. The shard's edges carry what the network reads.
    """

    def __init__(
        self,
        shard: GraphShard,
        layers: int | None,
        degrees: bool,
        structure: Floats | None = None,
        subtrees: scipy.sparse.csr_matrix | None = None,
    ) -> None:
        structure = np.zeros((shard.nodes, 0), np.float32) if structure is None else structure
        self._graph = None if layers is not None else np.repeat(np.arange(shard.graphs), shard.sizes)
        if layers is None:
            levels = [Colours(np.arange(shard.nodes), np.arange(shard.nodes))] * 2
        else:
            levels = refine(shard, np.concatenate([shard.attributes, structure], 1), layers, degrees)
        example = np.concatenate([level.example for level in levels])
        self._first = np.cumsum([0, *(len(level.example) for level in levels)])
        of = np.stack([level.of + first for level, first in zip(levels, self._first, strict=False)])
        graph = np.tile(np.repeat(np.arange(shard.graphs), shard.sizes), len(levels))
        self._counts = _Table.of(graph, of.ravel(), (shard.graphs, len(example)))
        pairs = [_received(shard, before, after.example) for before, after in zip(of, levels[1:], strict=False)]
        pairs.append((np.zeros(0, np.int64),) * 3)  # there may be no layer
        rows = np.concatenate([first + row for first, (row, _, _) in zip(self._first[1:], pairs, strict=True)])
        columns = np.concatenate([column for _, column, _ in pairs])
        self._sent = None
        if shard.edge_rows is not None:
            self._sent, columns = _Sent.of(shard.edge_rows, columns, np.concatenate([edge for _, _, edge in pairs]))
        width = len(example) if self._sent is None else len(self._sent.sender)
        self._received = _Table.of(rows, columns, (len(example), width))
        self._before = np.concatenate([of[max(0, k - 1)][level.example] for k, level in enumerate(levels)])
        self._degree = shard.weighted_degree[example]
        self._kind = np.where(shard.kind < 0, shard.kinds, shard.kind).astype(np.int64)[levels[0].example]
        self._attributes, self._structure = shard.attributes[levels[0].example], structure[levels[0].example]
        self._subtrees = None if subtrees is None else _Table.of_matrix(subtrees)
        self._buckets = 0 if subtrees is None else int(subtrees.shape[1])
        self._label, self.sizes = shard.label, shard.sizes
        self._number, self._here = np.zeros(len(example), np.int64), np.zeros(len(example), bool)

    def batch(self, graphs: Indices) -> GraphBatch:
        """These graphs, in this order."""
        graph, colour, count = self._counts.take(graphs)
        number = self._number  # of a colour in the batch; what other batches left there is never read
        self._here[colour] = True
        present = np.flatnonzero(self._here)
        self._here[present] = False
        number[present] = np.arange(len(present))
        colour = number[colour]
        ends = np.searchsorted(present, self._first).tolist()
        level = np.searchsorted(ends, colour, "right") - 1
        pools = []
        for number_of_level, (first, last) in enumerate(pairwise(ends)):
            here = level == number_of_level
            pools.append(Sparse(graph[here], colour[here] - first, count[here], (len(graphs), last - first)))
        share = np.bincount(colour, count, len(present)).astype(np.float32)
        share /= share[: ends[1]].sum()
        shares, start = torch.from_numpy(share).tensor_split(ends[1:-1]), present[: ends[1]]
        return GraphBatch(
            kind=torch.from_numpy(self._kind[start]),
            attributes=torch.from_numpy(self._attributes[start]),
            structure=torch.from_numpy(self._structure[start]),
            counts=pools[0],
            layers=tuple(map(Layer, self._blocks(present, ends, graphs), shares[1:], pools[1:])),
            label=torch.from_numpy(self._label[graphs]),
            subtrees=None
            if self._subtrees is None
            else Sparse(*self._subtrees.take(graphs), (len(graphs), self._buckets)),
        )

    def counted(self, graphs: Indices) -> Floats:
        """Return the counts of subtrees of some graphs, zeros and all, float32 [graphs, buckets]."""
        assert self._subtrees is not None, "the collator counts subtrees where the model looks at them"
        made = np.zeros((len(graphs), self._buckets), np.float32)
        rows, columns, values = self._subtrees.take(graphs)
        made[rows, columns] = values
        return made

    def _blocks(self, present: Indices, ends: Sequence[int], graphs: Indices) -> Iterator[Block]:
        """Between one level's colours in a batch of graphs and the next one's."""
        receiver, entry, count = self._received.take(present)
        sender, told = (entry, None) if self._sent is None else self._sent.of_entries(entry)
        if told is not None and told.weight is not None:
            count = count * told.weight
        sender, place = self._number[sender], self._number[self._before[present]]
        degree = torch.from_numpy(self._degree[present])
        entries = np.searchsorted(receiver, ends).tolist()
        for level in range(1, len(ends) - 1):
            (start, first, last), here = ends[level - 1 : level + 2], slice(*entries[level : level + 2])
            shape = last - first, first - start
            own = torch.from_numpy(place[first:last] - start)
            edges = None if told is None else _values_of(told.take(np.arange(here.start, here.stop)))
            small = SMALL if edges is None else 0  # where two colours have several entries, which are not to be one
            matrix = Sparse(receiver[here] - first, sender[here] - start, count[here], shape, small=small)
            if self._graph is None:
                yield Block(matrix, own, degree[first:last], degree[start:first], edges)
            else:
                of, asked = self._graph[present[start:first]], torch.from_numpy(graphs)
                yield Subgraph(
                    *(matrix, own, degree[first:last], degree[start:first], edges),
                    graph=torch.from_numpy(of),
                    graphs=asked,
                )


class _Table(NamedTuple):
    """A sparse table by rows: where each row's entries begin, their columns and values."""

    pointers: Indices
    columns: Indices
    values: Floats

    @classmethod
    def of(cls, rows: Indices, columns: Indices, shape: tuple[int, int]) -> "_Table":
        """Count how often each pair of row and column occurs."""
        return cls.of_matrix(scipy.sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=shape))

    @classmethod
    def of_matrix(cls, matrix: scipy.sparse.csr_matrix) -> "_Table":
        """Take the entries of a matrix."""
        return cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)

    def take(self, rows: Indices) -> tuple[Indices, Indices, Floats]:
        """Entries of some rows, numbered from 0 in this order: rows, columns, values, [entries] each."""
        first = self.pointers[rows]
        lengths = self.pointers[rows + 1] - first
        places = ranges(first, lengths)
        return np.repeat(np.arange(len(rows)), lengths), self.columns[places], self.values[places]


class _Sent(NamedTuple):
    """What colours send along edges that carry something, each with its `sender`, int64 [sent], and kind of edge.

    `kind` is int64 [sent], a row of `rows`.
    """

    sender: Indices
    kind: Indices
    rows: EdgeRows

    @classmethod
    def of(cls, rows: EdgeRows, sender: Indices, edge: Indices) -> tuple["_Sent", Indices]:
        """Return what is sent, and which of it each edge brings, int64 [edges], by its sender and its number."""
        _, first, kind = np.unique(hashes_of(rows), return_index=True, return_inverse=True)
        sent, which = np.unique(sender * len(first) + kind[edge], return_inverse=True)
        return cls(*np.divmod(sent, max(1, len(first))), rows.take(first)), which

    def of_entries(self, sent: Indices) -> tuple[Indices, EdgeRows]:
        """Return senders, and what their edges carry, of some of it."""
        return self.sender[sent], self.rows.take(self.kind[sent])


def _values_of(rows: EdgeRows) -> EdgeValues:
    """Return what edges carry as a layer reads it."""
    weight = None if rows.weight is None else torch.from_numpy(rows.weight)
    return EdgeValues(torch.from_numpy(rows.values), torch.from_numpy(rows.along), weight)


def _received(shard: GraphShard, before: Indices, example: Indices) -> tuple[Indices, Indices, Indices]:
    """For each neighbour of each colour's example: the colour, the neighbour's colour one layer before, the edge."""
    number = np.full(len(before), -1)
    number[example] = np.arange(len(example))
    receiver, sender = shard.edges
    known = np.flatnonzero(number[receiver] >= 0)
    return number[receiver[known]], before[sender[known]], known


# --- nodes' places ----------------------------------------------------------------------------------------------------

Doubles = NDArray[np.float64]

ENTRIES = 1 << 22
"""Pairs of nodes of one graph that are looked at together: three matrices of 32 MB."""
FILLING = 4
"""Mean number of neighbours from which walks soon lead from everywhere to everywhere, so that zeros are not worth
leaving out (measured: molecules have 2 and proteins 4, where they are; residues of DD have 5)."""
GROWTH = 1.25
"""A graph's matrix has the size of the largest that is looked at together with it: at most so many times its own."""
LARGEST = 1000
"""Nodes of a graph that is looked at with its zeros."""


def places(shard: GraphShard, steps: int, degrees: int) -> NDArray[np.float32]:
    """Features of the nodes' places, float32 [nodes, steps + degrees].

    The chance that a random walk is back after 1 .. `steps` steps, diag((A D^-1)^k), and the node's degree as one of
    `degrees` columns, clipped to 1 .. `degrees`. A walk from a node without edges is never back.

    Source: Tan et al., "FedStar", AAAI 2023, section 4.1.
    """
    nodes, degree, first = shard.nodes, shard.degree, shard.node_starts
    receiver, sender = shard.edges
    inverse = 1.0 / np.maximum(degree, 1)
    one = scipy.sparse.csr_matrix((inverse[sender], (receiver, sender)), shape=(nodes, nodes))
    back = np.zeros((nodes, steps), np.float32)
    full = (shard.sizes <= LARGEST) & (len(sender) > FILLING * nodes)
    for graphs in _parts(np.flatnonzero(~full), shard.sizes):
        here = ranges(first[graphs], shard.sizes[graphs])
        back[here] = _sparse(one[here][:, here], steps)
    smallest_first = np.argsort(shard.sizes, kind="stable")
    for alike in _alike(smallest_first[full[smallest_first]], shard.sizes):
        for graphs in _parts(alike, shard.sizes):
            here = ranges(first[graphs], shard.sizes[graphs])
            back[here] = _dense(one[here][:, here], shard.sizes[graphs], steps)
    place = np.zeros((nodes, degrees), np.float32)
    place[np.arange(nodes), np.clip(degree, 1, degrees) - 1] = 1.0
    return np.concatenate([back, place], axis=1)


def _alike(graphs: Indices, sizes: Indices) -> Iterator[Indices]:
    """Graphs in ascending order of size, in groups of which the largest is at most so many times the smallest."""
    group = np.floor(np.log(sizes[graphs]) / np.log(GROWTH)).astype(np.int64)
    yield from np.split(graphs, np.flatnonzero(np.diff(group)) + 1)


def _parts(graphs: Indices, sizes: Indices) -> Iterator[Indices]:
    """The graphs, so many at a time that their pairs of nodes fit."""
    number = np.cumsum(np.square(sizes[graphs])) // ENTRIES
    yield from (part for part in np.split(graphs, np.flatnonzero(np.diff(number)) + 1) if len(part))


def _sparse(one: scipy.sparse.csr_matrix, steps: int) -> Doubles:
    """diag(one^k) for k = 1 .. steps, [nodes, steps]."""
    chances = _returns(one, steps, lambda left, right: np.asarray(left.multiply(right.T).sum(1)).ravel())
    return np.stack([one.diagonal(), *chances], 1)


def _dense(one: scipy.sparse.csr_matrix, sizes: Indices, steps: int) -> Doubles:
    """Return the same for graphs of about one size, side by side, each as a dense matrix."""
    graph = np.repeat(np.arange(len(sizes)), sizes)
    place = ranges(np.zeros(len(sizes), np.int64), sizes)
    entries = one.tocoo()
    single = np.zeros((len(sizes), sizes.max(), sizes.max()))
    single[graph[entries.row], place[entries.row], place[entries.col]] = entries.data
    chances = _returns(single, steps, lambda left, right: np.einsum("gij,gji->gi", left, right))
    return np.stack([each[graph, place] for each in (np.einsum("gii->gi", single), *chances)], 1)


def _returns(one: Any, steps: int, diagonal: Callable[[Any, Any], Doubles]) -> Iterator[Doubles]:
    """diag(one^k) for k = 2 .. steps, where `diagonal` tells that of a product.

    Powers are needed only half as far: diag(T^2a) is that of T^a T^a, and diag(T^(2a + 1)) that of T^a T^(a + 1).
    """
    half = longer = one
    for step in range(2, steps + 1):
        if step % 2 == 0:
            half = longer
        else:
            longer = half @ one
        yield diagonal(half, longer)
