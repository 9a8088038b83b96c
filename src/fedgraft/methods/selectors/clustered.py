"""Clustered sampling: as many distributions over clients as train, and one client drawn from each."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from fedgraft.contracts import Indices, NonNegativeInt, Outcome, Selection, Selector, View
from fedgraft.methods.cohorts import affordable, reachable, size
from fedgraft.methods.sketches import SKETCH, sketched

EDGE = 1e-9
"""Mass by which sums of masses may be wrong."""


class ClusteredState(TypedDict):
    """State of clustered sampling."""

    sketches: NDArray[np.float32]


@dataclass(frozen=True)
class Clustered(Selector[ClusteredState]):
    """Each of m distributions over clients has the same mass, and gives one client; each client has mass m n_k / n.

    Every client is thus drawn as often as its data are large, with less variance than by m draws from all. "size" fills
    the distributions with clients by falling size. "similarity" fills them with clusters of clients whose last updates
    point the same way. A client that is drawn twice counts twice.

    Source: Fraboni, Vidal, Kameni, Lorenzi, ICML 2021, algorithms 1 ("size") and 2 ("similarity", with the angle).
    Differs: distributions are made of the clients that can be reached in the round. A drawn client that the budget does
        not pay for is left out with its weight. The angle is that of count sketches of the updates, 256 numbers each;
        clients without an update are alike, and at a right angle to all others.

    Args:
        clients: m, draws in a round, in [0, N]; 0 (default, ours) means half, rounded up. Fewer clients train where one
            is drawn twice.
        by: "size" (default) or "similarity".

    State:
        sketches: float32 [N, 256], of each client's last update, 0 = none; [0, 256] by size.
    Needs: "update": the uploads; by size nobody looks at them.
    Cost: nothing beyond the model, down to and up from each selected client.
    """

    reports: ClassVar[frozenset[str]] = frozenset({"update"})

    clients: NonNegativeInt = 0
    by: Literal["size", "similarity"] = "size"

    def init(self, view: View) -> ClusteredState:
        """Return the first state: no updates."""
        size(self.clients, view, "Clustered.clients")
        return {"sketches": np.zeros((view.clients if self.by == "similarity" else 0, SKETCH), np.float32)}

    def select(self, state: ClusteredState, view: View, g: np.random.Generator) -> Selection:
        """One client of each distribution, weighted by how often it was drawn."""
        pool = reachable(view)
        if not len(pool):
            return Selection(())
        draws = size(self.clients, view, "Clustered.clients")
        mass = view.samples[pool] if view.samples[pool].any() else np.ones(len(pool))
        mass = draws * mass / mass.sum()
        if self.by == "size":
            who = np.argsort(-mass, kind="stable")
            parts = mass[who]
        else:
            who, parts = _filled(mass, state["sketches"][pool], g)
        # Distribution i is the mass between i and i + 1, so that one client is at a random place in it.
        places = np.searchsorted(np.cumsum(parts), np.arange(draws) + g.random(draws), side="right")
        drawn, first, times = np.unique(pool[who[places.clip(max=len(who) - 1)]], return_index=True, return_counts=True)
        cohort = affordable(drawn[np.argsort(first)].tolist(), view)
        often = dict(zip(drawn.tolist(), times.tolist(), strict=True))
        return Selection(cohort, tuple(often[k] / draws for k in cohort))

    def update(self, state: ClusteredState, view: View, outcome: Outcome) -> ClusteredState:
        """Keep a sketch of each update that came."""
        if self.by == "size":
            return state
        sketches = state["sketches"].copy()
        for k, vector in sketched(outcome.updates).items():
            sketches[k] = vector
        return {"sketches": sketches}


def _filled(
    mass: NDArray[np.float64], sketches: NDArray[np.float32], g: np.random.Generator
) -> tuple[Indices, NDArray[np.float64]]:
    """Fill distributions of mass 1 with clusters, and what is free in them with clients of other clusters.

    Args:
        mass: float64 [n], of each client; the sum is the number of distributions.
        sketches: float32 [n, 256].
        g: for the order of those clients.

    Returns:
        int64 and float64 [parts], client and mass of each part; distribution after distribution.
    """
    whole = np.floor(mass + EDGE).astype(np.int64)
    rest = np.where(mass - whole > EDGE, mass - whole, 0.0)
    bins: list[list[tuple[int, float]]] = [[(int(k), 1.0)] for k in np.repeat(np.arange(len(mass)), whole)]
    members = np.flatnonzero(rest)
    clusters = _clusters(sketches[members], rest[members])
    order = np.argsort(-np.bincount(clusters, rest[members]), kind="stable")
    kept = order[: round(float(rest.sum()))]
    bins += [[(int(k), float(rest[k])) for k in members[clusters == cluster]] for cluster in kept]
    left = g.permutation(members[~np.isin(clusters, kept)])
    at = int(whole.sum())
    room = [1.0 - sum(part for _, part in each) for each in bins]
    for k in left.tolist():
        todo = float(rest[k])
        while todo > EDGE and at < len(bins):
            part = min(todo, room[at])
            bins[at].append((k, part))
            room[at], todo = room[at] - part, todo - part
            at += room[at] <= EDGE
    parts = [part for each in bins for part in each]
    return np.array([k for k, _ in parts], np.int64), np.array([part for _, part in parts])


def _clusters(sketches: NDArray[np.float32], mass: NDArray[np.float64]) -> Indices:
    """Return the cluster of each client, int64 [n]: the largest of Ward's tree whose mass is at most 1."""
    if len(mass) < 2:
        return np.zeros(len(mass), np.int64)
    length = np.linalg.norm(sketches, axis=1, keepdims=True)
    known = length[:, 0] > 0
    directions = sketches / np.where(length > 0, length, 1)
    angle = np.arccos(np.clip(directions @ directions.T, -1, 1).astype(np.float64))
    angle[np.ix_(~known, ~known)] = 0.0
    np.fill_diagonal(angle, 0.0)
    tree = linkage(squareform((angle + angle.T) / 2, checks=False), "ward")
    weight = np.concatenate([mass, np.zeros(len(tree))])
    for number, (one, two) in enumerate(tree[:, :2].astype(np.int64), start=len(mass)):
        weight[number] = weight[one] + weight[two]
    tree[:, 2] = weight[len(mass) :]
    clusters: Indices = fcluster(tree, 1 + EDGE, "distance").astype(np.int64) - 1
    return clusters
