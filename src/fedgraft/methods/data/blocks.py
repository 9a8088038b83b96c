"""A made-up graph of classes that keep to themselves, for demonstrations, tests and measurements of scale."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.labels import Floats
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import NonNegativeFloat, PositiveFloat, PositiveInt, PositiveProportion, Proportion
from fedgraft.contracts.values import Indices
from fedgraft.domains.dealing import Fold
from fedgraft.domains.examples import Features
from fedgraft.domains.nodes.base.partitions import DealtNodes
from fedgraft.domains.nodes.base.shards import NodeShard, Numbers, WholeGraph, undirected
from fedgraft.domains.nodes.reading.client_tables import OwnNodes
from fedgraft.errors import require

WORDS = 20
"""Words of a node where features are sparse, repeats included; order of magnitude of titles."""
DENSEST = 0.5
"""Most of all possible edges, inside classes and between them: what is denser takes many draws and is no real graph."""
MEAN, SPREAD, NOISE = 50.0, 10.0, 0.1
"""Of numbers: their mean, standard deviation, and the share of their variance that nothing tells."""
AT_ONCE = 1 << 22
"""Edges drawn at a time, and features times nodes: arrays of some 30 MB."""


@dataclass(frozen=True)
class Blocks(DealtNodes[NodeShard], OwnNodes):
    """A generator of a graph with a class or number a node: a stochastic block model with features, cut over clients.

    Nodes are of classes of equal size. An edge is inside a class with probability `homophily`, else between two, its
    ends drawn at random. A node's features tell something of its class and its neighbours' tell more, so edges help.

    Source: Holland et al., "Stochastic blockmodels: first steps", Social Networks 1983; features are ours.
    Differs: as many edges of each kind as are expected, give or take one in a thousand, instead of a draw per pair.

    Args:
        nodes: of the whole graph, >= 5 * classes.
        classes: how many, >= 2.
        clients: over how many the nodes are dealt, >= 1.
        features: how many, >= 1; with `sparse` at least one for each class.
        degree: mean number of neighbours, >= 0; at most half of all possible edges exist.
        homophily: share of edges inside a class, in [0, 1]; 1 / classes is none.
        signal: how much a node's own features tell, >= 0. Dense: the length of a class's centre, where nodes of the
            class are spread around it by 1 in each feature. Sparse: how many of a node's 20 words are drawn from its
            class's own part of the words and not from all, on average; at most 20.
        sparse: whether features are sparse: 1 for each word that a node has.
        partition: "iid", "dirichlet" or "louvain", as of the data set `pyg_nodes`.
        alpha: of "dirichlet", > 0.
        edges: share of undirected edges that are kept, in (0, 1].
        fold: which of five folds is the test set, 0..4.
        labels: "classes", for the task `node`; or "numbers", for `node_regression`, which sets it: of mean 50 and
            standard deviation 10, in equal parts of its class and features and of its neighbours', and a tenth noise.
    """

    task: ClassVar[str] = "node"
    other_tasks: ClassVar[Mapping[str, Mapping[str, Any]]] = {"node_regression": {"labels": "numbers"}}

    nodes: int = 2000
    classes: Annotated[int, Ge(2)] = 5
    clients: PositiveInt = 10
    features: int = 64
    degree: NonNegativeFloat = 6.0
    homophily: Proportion = 0.7
    signal: float = 1.5
    sparse: bool = False
    partition: Literal["iid", "dirichlet", "louvain"] = "iid"
    alpha: PositiveFloat = 0.5
    edges: PositiveProportion = 1.0
    fold: Fold = 0
    labels: Literal["classes", "numbers"] = "classes"

    def __post_init__(self) -> None:
        super().__post_init__()
        fewest = 5 * self.classes
        fits = fewest <= self.nodes < 2**31
        require(fits, "Blocks.nodes", f"in [{fewest} (5 per class), 2^31 - 1]", self.nodes)
        require(self.clients <= self.nodes, "Blocks.clients", f"at most {self.nodes} (nodes)", self.clients)
        fewest = self.classes if self.sparse else 1
        require(self.features >= fewest, "Blocks.features", f">= {fewest}", self.features)
        most = float(WORDS) if self.sparse else np.inf
        allowed = f"in [0, {WORDS}]" if self.sparse else ">= 0"
        require(0 <= self.signal <= most and self.signal < np.inf, "Blocks.signal", allowed, self.signal)
        possible = {kind: DENSEST * pairs for kind, pairs in self._pairs().items()}
        shares = {"inside": self.homophily, "between": 1 - self.homophily}
        most = min(2 * possible[kind] / (self.nodes * share) for kind, share in shares.items() if share)
        allowed = f"at most {most:.4g}, or half of the edges {self.homophily:g} of which are inside classes would exist"
        require(self.degree <= most, "Blocks.degree", allowed, self.degree)

    def load(self, seed: int) -> list[NodeShard]:
        """Load one shard per client; `seed` makes the graph as well as its partition and split."""
        return self.dealing.deal(self.graph(seed), seed)

    def graph(self, seed: int) -> WholeGraph:
        """Make the whole, before it is dealt, without a split."""
        g = generator(seed, "blocks")
        # Node `number[p]` is the p-th when nodes are in the order of their classes.
        number = g.permutation(self.nodes).astype(np.int32)
        label = np.empty(self.nodes, np.int64)
        label[number] = np.repeat(np.arange(self.classes), np.diff(self._starts()))
        edges = self._edges(g, number)
        features = self._words(g, label) if self.sparse else self._points(g, label)
        classes = tuple(f"class {each}" for each in range(self.classes))
        graph = WholeGraph.unsplit("blocks", np.arange(self.nodes), features, label, edges, classes)
        return replace(graph, label=self._numbers(g, graph), classes=()) if self.labels == "numbers" else graph

    def _numbers(self, g: np.random.Generator, graph: WholeGraph) -> Floats:
        """A number of each node, float64 [nodes]: of its own class and features, its neighbours' and noise."""
        weights = g.standard_normal(self.features)
        signal = np.asarray(graph.features @ weights).ravel()
        own = g.standard_normal(self.classes)[graph.label] + signal / max(float(signal.std()), 1e-12)
        edges = sparse.csr_matrix(
            (np.ones(len(graph.senders)), graph.senders, graph.pointers), (self.nodes, self.nodes)
        )
        around = (edges @ own) / np.maximum(graph.degree, 1)
        clear = own / own.std() + around / max(float(around.std()), 1e-12)
        signal = np.sqrt(1 - NOISE) * (clear - clear.mean()) / clear.std()
        return np.asarray(MEAN + SPREAD * (signal + np.sqrt(NOISE) * g.standard_normal(self.nodes)))

    def _starts(self) -> Indices:
        """Return where each class begins in the order of classes, and the end."""
        return np.arange(self.classes + 1) * self.nodes // self.classes

    def _pairs(self) -> dict[str, float]:
        sizes = np.diff(self._starts()).astype(np.float64)
        inside = float((sizes * (sizes - 1) / 2).sum())
        return {"inside": inside, "between": self.nodes * (self.nodes - 1) / 2 - inside}

    def _edges(self, g: np.random.Generator, number: Numbers) -> tuple[Indices, Numbers]:
        wanted = round(self.nodes * self.degree / 2)
        counts = {"inside": round(self.homophily * wanted)}
        counts["between"] = wanted - counts["inside"]
        # So many draws bring as many different edges on average.
        draws = {
            kind: int(np.rint(-pairs * np.log1p(-counts[kind] / pairs))) if counts[kind] else 0
            for kind, pairs in self._pairs().items()
        }
        keys = np.empty(sum(draws.values()), np.int64)
        at = 0
        for a, b in self._draws(g, draws):
            one, other = number[a], number[b]
            keys[at : at + len(a)] = np.minimum(one, other).astype(np.int64) * self.nodes + np.maximum(one, other)
            at += len(a)
        keys.sort()
        keys = keys[np.diff(keys, prepend=-1) > 0]
        ends = np.empty((2, len(keys)), np.int32)
        ends[0] = keys // self.nodes
        keys -= ends[0].astype(np.int64) * self.nodes
        ends[1] = keys
        del keys  # half a gigabyte in a graph of the size of Reddit
        pointers, senders, _ = undirected(ends, self.nodes, "edge")
        return pointers, senders

    def _draws(self, g: np.random.Generator, draws: dict[str, int]) -> Iterator[tuple[Indices, Indices]]:
        """Ends of edges, some at a time, as places in the order of classes; no end twice."""
        starts = self._starts()
        sizes = np.repeat(np.diff(starts), np.diff(starts))
        firsts = np.repeat(starts[:-1], np.diff(starts))
        for kind, count in draws.items():
            for begin in range(0, count, AT_ONCE):
                a = g.integers(0, self.nodes, min(AT_ONCE, count - begin))
                first, size = firsts[a], sizes[a]
                if kind == "inside":  # so many places after a, counted round within its class
                    b = a - first + 1 + (g.random(len(a)) * (size - 1)).astype(np.int64)
                    b = first + np.where(b < size, b, b - size)
                else:  # so many places after the end of a's class, counted round
                    b = first + size + (g.random(len(a)) * (self.nodes - size)).astype(np.int64)
                    b = np.where(b < self.nodes, b, b - self.nodes)
                yield a, b

    def _points(self, g: np.random.Generator, label: Indices) -> Features:
        centre = g.standard_normal((self.classes, self.features), np.float32)
        centre *= np.float32(self.signal) / np.linalg.norm(centre, axis=1, keepdims=True)
        points: NDArray[np.float32] = g.standard_normal((self.nodes, self.features), np.float32)
        step = max(1, AT_ONCE // self.features)
        for begin in range(0, self.nodes, step):
            points[begin : begin + step] += centre[label[begin : begin + step]]
        return points

    def _words(self, g: np.random.Generator, label: Indices) -> Features:
        bounds = np.arange(self.classes + 1) * self.features // self.classes
        own = g.random((self.nodes, WORDS)) < self.signal / WORDS
        low = np.where(own, bounds[label][:, None], 0)
        high = np.where(own, bounds[label + 1][:, None], self.features)
        words = np.sort(g.integers(low, high), axis=1).astype(np.int32)
        new = np.diff(words, axis=1, prepend=-1) > 0
        pointers = np.concatenate([[0], np.cumsum(new.sum(axis=1))])
        ones = np.ones(int(pointers[-1]), np.float32)
        return sparse.csr_matrix((ones, words[new], pointers), shape=(self.nodes, self.features))
