"""ACFL-style selection: in every cluster of clients, those train on whose data the model does worst."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts import Indices, NonNegativeInt, Outcome, PositiveInt, Probe, ProbingSelector, Selection, View
from fedgraft.methods.cohorts import affordable, check_candidates, probeable, probed_losses, reachable, size
from fedgraft.methods.rl.networks import one_thread
from fedgraft.methods.sketches import Sketches, seen, unknown

UNKNOWN = -1
"""Cluster of the clients of whom no update was seen."""
PASSES = 10
"""Times that clients are told anew which cluster is theirs."""


class ACFLState(Sketches):
    """State of ACFL: sketches of updates, whether there was one, and the cluster of each client."""

    cluster: Indices


@dataclass(frozen=True)
class ACFL(ProbingSelector[ACFLState]):
    """ACFL-style selection: of every cluster those clients train whose losses are the highest, equally many of each.

    Losses are of the current model. Clusters are those of k-means on the directions of the updates that were seen last.
    Clients of whom none was seen are a cluster of their own, so at first all are one. A cluster that has too few leaves
    its share to the others.

    Source: Huang et al., "Active client selection for clustered federated learning", IEEE TNNLS 2023, with the loss as
        the measure of what a client's data would teach.
    Differs: only the abstract was read. A model for each cluster, and who then belongs to which, are left to the
        sharing method; losses are of the model that a client would be sent. Entropy and disagreement of models are left
        out. Of what m leaves over, clusters of the highest losses get one more. Nobody is asked where no more can be
        reached than are to train, or where the budget pays for no probe: cohorts are then random within clusters.

    Args:
        clients: m, how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        clusters: C, of clients whose update is known, >= 1; 3 (ours).
        candidates: how many are asked for their losses, as many of each cluster, in [m, N]; 0 (default) = all that can
            be reached.

    State:
        sketches: float32 [N, 256], of each client's last update; known: bool [N], whether there was one; cluster: int64
        [N], -1 = not known.
    Needs: "update": the uploads; "loss" of probes.
    Cost: model down and two scalars up for each candidate (`bytes_per_probe`), in every round.
    """

    reports: ClassVar[frozenset[str]] = frozenset({"update"})

    clients: NonNegativeInt = 0
    clusters: PositiveInt = 3
    candidates: NonNegativeInt = 0

    def init(self, view: View) -> ACFLState:
        """Return the first state: nobody known."""
        check_candidates(self.candidates, size(self.clients, view, "ACFL.clients"), view, "ACFL.candidates")
        return {**unknown(view.clients), "cluster": np.full(view.clients, UNKNOWN)}

    def probe(self, state: ACFLState, view: View, g: np.random.Generator) -> Probe | None:
        """Ask candidates, drawn at random, equally many of each cluster; nobody where that could change nothing."""
        order = _in_turn(g.permutation(reachable(view)).tolist(), state["cluster"])
        drawn = order[: self.candidates or None]
        if len(drawn) <= size(self.clients, view, "ACFL.clients"):
            return None
        candidates = probeable(drawn, view)
        return Probe(candidates) if candidates else None

    def select(self, state: ACFLState, view: View, g: np.random.Generator) -> Selection:
        """Of each cluster those of the highest losses; then those whose loss is not known."""
        order, wanted = g.permutation(reachable(view)).tolist(), size(self.clients, view, "ACFL.clients")
        loss = {k: view.probed[k]["loss"] for k in order if k in view.probed}
        ranked = _in_turn(sorted(loss, key=lambda k: loss[k], reverse=True), state["cluster"])
        others = _in_turn([k for k in order if k not in loss], state["cluster"])
        return Selection(affordable([*ranked, *others], view, most=wanted))

    def explanation(self, state: ACFLState, view: View) -> Mapping[str, NDArray[np.float64]]:
        """The losses, float64 [N], that the clients of a cluster are ranked by; {} where nobody was asked."""
        return probed_losses(view)

    def update(self, state: ACFLState, view: View, outcome: Outcome) -> ACFLState:
        """Keep a sketch of each update that came, and cluster anew."""
        if not outcome.updates:
            return state
        kept = seen(state, outcome.updates)
        g = np.random.default_rng([view.seed, view.round])
        return {**kept, "cluster": self._clusters(kept["sketches"], kept["known"], g)}

    def _clusters(self, sketches: NDArray[np.float32], known: NDArray[np.bool_], g: np.random.Generator) -> Indices:
        """Return the cluster of each client, int64 [N]."""
        clusters = np.full(len(known), UNKNOWN)
        rows = sketches[known]
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        directions: NDArray[np.float32] = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        clusters[known] = k_means(directions, self.clusters, g)
        return clusters


def k_means(rows: NDArray[np.float32], clusters: int, g: np.random.Generator) -> Indices:
    """Return the number of the nearest of so many centres for each row, int64 [n]; equal rows have equal numbers.

    The first centres are rows, each with a chance that goes as its squared distance to those before (Arthur and
    Vassilvitskii, 2007); then `PASSES` passes move them to the means of their rows.
    """
    with one_thread():
        points = torch.from_numpy(rows).double()
        centres = points[[int(g.integers(len(rows)))]]
        while len(centres) < clusters:
            far = _distances(points, centres).amin(1).numpy()
            if not far.sum() > 0:  # no more different rows
                break
            centres = torch.cat([centres, points[[int(g.choice(len(rows), p=far / far.sum()))]]])
        for _ in range(PASSES):
            belongs = torch.nn.functional.one_hot(_distances(points, centres).argmin(1), len(centres)).double()
            counts = belongs.sum(0)[:, None]
            centres = torch.where(counts > 0, belongs.T @ points / counts.clamp(min=1), centres)
        nearest: Indices = _distances(points, centres).argmin(1).numpy()
    return nearest


def _distances(points: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    """Return squared distances, float64 [points, centres], >= 0."""
    squares = points.square().sum(1)[:, None] + centres.square().sum(1)
    return (squares - 2 * points @ centres.T).clamp(min=0)


def _in_turn(order: Sequence[int], cluster: Indices) -> list[int]:
    """Return all of an order, one of each cluster in turn; each cluster keeps its order."""
    members: dict[int, list[int]] = {}
    for k in order:
        members.setdefault(int(cluster[k]), []).append(k)
    return [k for turn in zip_longest(*members.values()) for k in turn if k is not None]
