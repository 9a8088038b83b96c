"""RPFL: clients are clustered by their updates, and every cluster takes part."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score

from fedgraft.contracts import Outcome, Selection, Selector, View
from fedgraft.errors import require
from fedgraft.methods.cohorts import affordable, candidates, size
from fedgraft.methods.sketches import SKETCH, Sketches, seen, unknown


@dataclass(frozen=True)
class RPFL(Selector[Sketches]):
    """RPFL-style selection: PCA of updates, k-means, and clusters represented in proportion to their sizes.

    Clients whose updates are not known yet go first. Then the updates that were last seen of all clients are reduced to
    principal components and clustered; the number of clusters is that of the best silhouette. A cluster of n_c of
    n clients sends K n_c / n of the K participants, at least one where K suffices, drawn at random within it.

    Source: after Feng et al., IEEE TNNLS 2025, as described by Liu et al. (reputation-UCB), section V-C. The full paper
        was not read: it reproduces no figure of it.
    Differs: the description says that as many participants train as the budget allows; here they are `clients`, as far
        as the byte budget pays for them. The server keeps 256 numbers of an update: sums of its entries with random
        signs (a count sketch), of which the components are taken; distances are kept in expectation.

    Args:
        clients: K, how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        components: principal components, in [1, 256]; 8, the most that the description names.

    State:
        sketches: float32 [N, 256], of each client's last update; known: bool [N], whether there was one.
    Needs: "update": the uploads.
    Cost: nothing beyond the model, down to and up from each selected client.
    """

    reports: ClassVar[frozenset[str]] = frozenset({"update"})

    clients: int = 0
    components: int = 8

    def __post_init__(self) -> None:
        require(self.clients >= 0, "RPFL.clients", ">= 0", self.clients)
        require(1 <= self.components <= SKETCH, "RPFL.components", f"in [1, {SKETCH}]", self.components)

    def init(self, view: View) -> Sketches:
        """Return the first state: nobody known."""
        size(self.clients, view, "RPFL.clients")
        return unknown(view.clients)

    def select(self, state: Sketches, view: View, g: np.random.Generator) -> Selection:
        """Clients not known yet, then every cluster's share."""
        pool = g.permutation(candidates(view))
        wanted = min(size(self.clients, view, "RPFL.clients"), len(pool))
        known = state["known"][pool.astype(np.int64)] if len(pool) else np.zeros(0, np.bool_)
        new, members = pool[~known].tolist(), pool[known]
        order = new[:wanted]
        if len(members):
            clusters = self._clusters(state["sketches"][members], int(g.integers(2**31)))
            order += _interleaved(members, clusters, wanted - len(order))
        return Selection(affordable([*order, *new[wanted:]], view, most=max(wanted, 1)))

    def update(self, state: Sketches, view: View, outcome: Outcome) -> Sketches:
        """Keep a sketch of each update that came."""
        return seen(state, outcome.updates)

    def _clusters(self, sketches: NDArray[np.float32], seed: int) -> NDArray[np.int64]:
        """Number of each client's cluster, int64 [n]."""
        count = len(sketches)
        distinct = len(np.unique(sketches, axis=0))
        if count < 3 or distinct < 3:  # a silhouette needs two clusters and more points than clusters
            return np.unique(sketches, axis=0, return_inverse=True)[1].astype(np.int64)
        reduced = PCA(min(self.components, count - 1), svd_solver="full").fit_transform(sketches.astype(np.float64))
        best, found = -math.inf, np.zeros(count, np.int64)
        for clusters in range(2, max(2, math.isqrt(count)) + 1):
            labels = KMeans(clusters, n_init=3, random_state=seed).fit_predict(reduced)
            if not 2 <= len(np.unique(labels)) < count:
                continue
            quality = float(silhouette_score(reduced, labels))
            if quality > best:
                best, found = quality, labels.astype(np.int64)
        return found


def _interleaved(members: NDArray[np.int64], clusters: NDArray[np.int64], wanted: int) -> list[int]:
    """All members, ordered so that of the first `wanted` every cluster has its share, at least one where they suffice.

    Shares are rounded by largest remainders.
    """
    labels, sizes = np.unique(clusters, return_counts=True)
    exact = wanted * sizes / len(members)
    least = int(wanted >= len(labels))
    shares = np.maximum(np.floor(exact).astype(np.int64), least)
    while shares.sum() > max(wanted, 0):
        shares[int(np.argmax(np.where(shares > least, shares - exact, -np.inf)))] -= 1
    while shares.sum() < min(wanted, len(members)):
        room = np.where(shares < sizes, exact - shares, -np.inf)
        shares[int(np.argmax(room))] += 1
    chosen: list[int] = []
    for label, share in zip(labels, shares, strict=True):
        chosen += members[clusters == label][:share].tolist()
    return [*chosen, *(k for k in members.tolist() if k not in set(chosen))]
