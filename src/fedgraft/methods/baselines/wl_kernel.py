"""A Weisfeiler-Lehman subtree kernel with a support vector machine inside each client: no network, no message."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse
from annotated_types import Ge, MinLen
from numpy.typing import NDArray

from fedgraft.contracts.labels import Labels
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import NonNegativeInt, PositiveFloat, PositiveInt
from fedgraft.contracts.values import Indices
from fedgraft.domains.graphs.shards import GraphShard, stratified
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import Answering
from fedgraft.wire.layouts import Array

CHUNK = 1 << 22
"""Edges (and entries of a kernel's rows) handled at a time, so that temporaries stay in tens of megabytes."""


@dataclass(frozen=True)
class WLKernel(Answering[GraphShard]):
    """Weisfeiler-Lehman subtree kernel, normalised, with an SVM; rounds and C tuned on each client's own validation.

    Source: Shervashidze et al., "Weisfeiler-Lehman Graph Kernels", JMLR 2011, sec. 3.2; grids after Morris et al.,
    "TUDataset", GRL+ 2020 (rounds 0..5, C 10^-3..10^3; here C from 0.1 on).
    Differs: a node's first label is its kind, its binned attributes, or both; a node's new label is a 64-bit sum of
    random codes over its old one and its neighbours', which sorting would give too, but for collisions (below 1e-6 for
    a million labels). Training graphs beyond `most` are left out, as the kernel is a dense matrix.

    Args:
        rounds: most rounds of relabelling, >= 0; all from 0 on are tried.
        penalties: grid of the SVM's C, each > 0.
        bins: into how many equally frequent bins an attribute is cut, >= 1; 1 ignores attributes. By training graphs.
        most: most training graphs of a client, >= 2, a random part stratified by class. Three arrays of
            8 bytes x graphs x training graphs are held: 500 MB for the 5,000 graphs of COLLAB.

    Needs: each client's own graphs and labels.
    Cost: none, as nothing is sent.
    """

    task: ClassVar[str] = "graph"
    labels: ClassVar[Labels] = Classes()
    default: ClassVar[bool] = True
    local: ClassVar[bool] = True

    rounds: NonNegativeInt = 5
    penalties: Annotated[tuple[PositiveFloat, ...], MinLen(1)] = (0.1, 1.0, 10.0, 100.0, 1000.0)
    bins: PositiveInt = 4
    most: Annotated[int, Ge(2)] = 5000

    def answers(self, shard: GraphShard, labels: Labels) -> Array:
        """Return classes, int64 [graphs], or, where another metric asks for them, their shares, float64 [graphs, 2]."""
        by_class = labels.metric == "accuracy" or labels.width != 2
        return self.predict(shard) if by_class else self.shares(shard, labels)

    def shares(self, shard: GraphShard, labels: Labels) -> NDArray[np.float64]:
        """Return shares of two classes, [graphs, 2]: distances from the boundary, through a logistic function."""
        validation = shard.rows("validation")
        best = np.eye(2)[np.full(shard.graphs, np.bincount(shard.label[shard.rows("train")]).argmax())]
        rating = -np.inf
        for _, _, decision in self._machines(shard):
            one = 1 / (1 + np.exp(-decision))
            shares = np.stack([1 - one, one], axis=1)
            own = labels.agreement(shares[validation], shard.label[validation])
            own = -own if labels.better == "lower" else own
            if own > rating:
                best, rating = shares, own
        return best

    def predict(self, shard: GraphShard) -> Indices:
        """The predicted class of every graph of a client, int64 [graphs]."""
        validation = shard.rows("validation")
        best, best_right = np.full(shard.graphs, np.bincount(shard.label[shard.rows("train")]).argmax()), -1
        for machine, kernel, _ in self._machines(shard, distances=False):
            predicted = machine.predict(kernel)
            right = int((predicted[validation] == shard.label[validation]).sum())
            if right > best_right:
                best, best_right = predicted, right
        return best

    def _machines(self, shard: GraphShard, distances: bool = True) -> Iterator[tuple[Any, NDArray[np.float64], Any]]:
        """Yield each fitted machine, the kernel it reads, and distances [graphs]; none where there is one class."""
        from sklearn.svm import SVC  # takes a second, which only those who want it should wait for

        train = shard.rows("train")
        if len(train) > self.most:
            train = train[stratified(shard.label[train], self.most, generator(0, "wl_kernel"))]
        label = shard.label[train]
        if len(np.unique(label)) < 2:
            return
        for kernel in self.kernels(shard, train):
            for penalty in self.penalties:
                machine = SVC(C=penalty, kernel="precomputed").fit(kernel[train], label)
                yield machine, kernel, machine.decision_function(kernel) if distances else None

    def kernels(self, shard: GraphShard, train: Indices) -> Iterator[NDArray[np.float64]]:
        """The normalised kernel [graphs, training graphs] after 0, 1 ... rounds; the same array each time."""
        graph = np.repeat(np.arange(shard.graphs), shard.sizes)
        total = np.zeros((shard.graphs, len(train)))
        own = np.zeros(shard.graphs)
        label = self._first(shard, train)
        for round in range(self.rounds + 1):
            if round:
                label = _relabelled(shard, label, generator(0, "wl_kernel", round))
            features = _counts(graph, label, shard.graphs)
            own += np.asarray(features.multiply(features).sum(axis=1)).ravel()
            columns = features[train].T.tocsc()
            step = max(1, CHUNK // len(train))
            for first in range(0, shard.graphs, step):
                total[first : first + step] += (features[first : first + step] @ columns).toarray()
            yield total / np.sqrt(own)[:, None] / np.sqrt(own[train])

    def _first(self, shard: GraphShard, train: Indices) -> Indices:
        """Labels before the first round: kinds and binned attributes, numbered from 0."""
        label: Array = shard.kind.astype(np.int64) + 1
        known = np.isin(np.repeat(np.arange(shard.graphs), shard.sizes), train)
        for values in shard.attributes.T:
            inner = np.arange(1, self.bins) / self.bins
            label = label * self.bins + np.searchsorted(np.quantile(values[known], inner), values)
            label = np.unique(label, return_inverse=True)[1]
        return np.unique(label, return_inverse=True)[1].astype(np.int64)


def _relabelled(shard: GraphShard, label: Indices, g: np.random.Generator) -> Indices:
    """Labels after a round, from 0: nodes share one if they did before and their neighbours did, as multisets."""
    own, neighbours = g.integers(0, 2**64, (2, int(label.max()) + 1), dtype=np.uint64)
    signature = own[label]
    starts = np.concatenate([[0], np.cumsum(shard.degree)])
    first = 0
    while first < shard.nodes:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + CHUNK, side="right")) - 1)
        nodes = np.arange(first, last)[np.diff(starts[first : last + 1]) > 0]
        if len(nodes):
            codes = neighbours[label[shard.edges[1, starts[first] : starts[last]]]]
            signature[nodes] += np.add.reduceat(codes, starts[nodes] - starts[first])
        first = last
    return np.unique(signature, return_inverse=True)[1].astype(np.int64)


def _counts(graph: Indices, label: Indices, graphs: int) -> scipy.sparse.csr_matrix:
    """Return how often each label occurs in each graph, [graphs, labels]."""
    shape = (graphs, int(label.max()) + 1)
    return scipy.sparse.csr_matrix((np.ones(len(label)), (graph, label)), shape)
