"""RPFL: clients are clustered by their updates, and every cluster takes part."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from fedgraft.contracts import Indices, NonNegativeInt, Outcome, Selection, Selector, View
from fedgraft.methods.cohorts import affordable, reachable, size
from fedgraft.methods.sketches import SKETCH, Sketches, seen, unknown

JUDGED = 256
"""Clients by whom a number of clusters is judged."""
PASSES = 10
"""Times, at most, that clients are told anew which cluster is theirs, for each number of clusters."""
RUNS = 8
"""Times, at most, that all is done with other first centres: with fewer clients more often."""
TRIALS = 8
"""Clients of whom the best becomes the next centre."""
Floats = NDArray[np.float64]


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
        Centres are chosen as in k-means++, and ten passes at most move them. Numbers of clusters above ten are a
        quarter apart. Of more than 256 clients so many, drawn at random, find the number, and all then the clusters;
        the centres of a number are then the first of the next one's.

    Args:
        clients: K, how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        components: principal components, in [1, 256]; 8, the most that the description names.

    State:
        sketches: float32 [N, 256], of each client's last update; known: bool [N], whether there was one.
    Needs: "update": the uploads.
    Cost: nothing beyond the model, down to and up from each selected client.
    """

    reports: ClassVar[frozenset[str]] = frozenset({"update"})

    clients: NonNegativeInt = 0
    components: Annotated[int, Interval(ge=1, le=SKETCH)] = 8

    def init(self, view: View) -> Sketches:
        """Return the first state: nobody known."""
        size(self.clients, view, "RPFL.clients")
        return unknown(view.clients)

    def select(self, state: Sketches, view: View, g: np.random.Generator) -> Selection:
        """Clients not known yet, then every cluster's share."""
        pool = g.permutation(reachable(view))
        wanted = min(size(self.clients, view, "RPFL.clients"), len(pool))
        known = state["known"][pool]
        new, members = pool[~known].tolist(), pool[known]
        order = new[:wanted]
        if len(members):
            clusters = self._clusters(state["sketches"][members], int(g.integers(2**31)))
            order += _interleaved(members, clusters, wanted - len(order))
        return Selection(affordable([*order, *new[wanted:]], view, most=max(wanted, 1)))

    def update(self, state: Sketches, view: View, outcome: Outcome) -> Sketches:
        """Keep a sketch of each update that came."""
        return seen(state, outcome.updates)

    def _clusters(self, sketches: NDArray[np.float32], seed: int) -> Indices:
        """Number of each client's cluster, int64 [n]."""
        count, g = len(sketches), np.random.default_rng(seed)
        others = sketches[(sketches != sketches[0]).any(1)]
        if not len(others) or not (others != others[0]).any():  # a silhouette needs more points than clusters
            return np.asarray((sketches != sketches[0]).any(1), np.int64)
        points = _principal(sketches.astype(np.float64), min(self.components, count - 1))
        judged = points if count <= JUDGED else points[g.choice(count, JUDGED, replace=False)]
        apart = cdist(judged, judged)
        best, kept = -math.inf, points[:1]
        for _ in range(min(RUNS, max(1, JUDGED // count))):
            centres = judged[:0]
            for clusters in _numbers(max(2, math.isqrt(count))):
                if count <= JUDGED or not len(centres):
                    centres = judged[[int(g.integers(len(judged)))]]
                centres, labels = _k_means(judged, centres, clusters, g)
                if not 2 <= labels.max() + 1 < len(judged):
                    continue
                quality = _silhouette(apart, labels)
                if quality > best:
                    best, kept = quality, centres
        return _k_means(points, kept, len(kept), g)[1]


def _numbers(most: int) -> list[int]:
    """Numbers of clusters that are tried, ascending, from 2 to `most`: each, above ten one for every quarter."""
    numbers = [2]
    while numbers[-1] < most:
        numbers.append(min(most, numbers[-1] + 1 if numbers[-1] < 10 else numbers[-1] * 5 // 4))
    return numbers


def _principal(rows: Floats, components: int) -> Floats:
    """Return principal components, float64 [n, components]."""
    centred = rows - rows.mean(0)
    axes = eigh(centred.T @ centred, subset_by_index=(rows.shape[1] - components, rows.shape[1] - 1))[1]
    return np.asarray(centred @ axes)


def _k_means(points: Floats, centres: Floats, clusters: int, g: np.random.Generator) -> tuple[Floats, Indices]:
    """Return so many centres, and the cluster of each point, int64 [n], of 0, 1, ...; fewer where points are alike.

    Args:
        points: float64 [n, width].
        centres: float64 [at most clusters, width], to begin with; to these others are added.
        clusters: >= 2.
        g: for who is tried as the next centre (Arthur and Vassilvitskii, "k-means++", 2007).
    """
    apart = cdist(points, centres, "sqeuclidean")
    near = apart.min(1)
    while len(centres) < clusters and near.any():
        tried = points[g.choice(len(points), TRIALS, p=near / near.sum())]
        left = np.minimum(near, cdist(tried, points, "sqeuclidean"))
        chosen = int(left.sum(1).argmin())
        centres, near = np.concatenate([centres, tried[chosen : chosen + 1]]), left[chosen]
    labels = np.full(len(points), -1)
    for _ in range(PASSES):
        before, labels = labels, cdist(points, centres, "sqeuclidean").argmin(1)
        if np.array_equal(before, labels):
            break
        belongs = (labels == np.arange(len(centres))[:, None]).astype(np.float64)
        counts = belongs.sum(1, keepdims=True)
        centres = np.where(counts > 0, belongs @ points / np.maximum(counts, 1), centres)
    return centres, np.unique(labels, return_inverse=True)[1]


def _silhouette(apart: Floats, labels: Indices) -> float:
    """Return the mean silhouette of points (Rousseeuw, 1987).

    Args:
        apart: float64 [n, n], their distances.
        labels: int64 [n], cluster of each, of 0, 1, ...
    """
    counts, here = np.bincount(labels), np.arange(len(labels))
    means = apart @ (labels[:, None] == np.arange(len(counts))).astype(np.float64) / counts
    size = counts[labels]
    within = means[here, labels] * size / np.maximum(size - 1, 1)  # a point is not its own neighbour
    means[here, labels] = np.inf
    between = means.min(1)
    widest = np.maximum(within, between)
    gain = np.divide(between - within, widest, out=np.zeros(len(labels)), where=widest > 0)
    return float(np.where(size > 1, gain, 0.0).mean())


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
