"""GCFL: clusters of clients that split where their updates disagree, each with a model of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypedDict

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from fedgraft.contracts import Indices, MovableSharing, PersonalSharing, Update
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt, PositiveInt
from fedgraft.methods.one_model import moved
from fedgraft.wire.layouts import Arrays

Doubles = NDArray[np.float64]


class State(TypedDict):
    """Models by cluster, and by client: cluster, last update, last norms; and how often it was merged."""

    models: list[Arrays]
    clusters: Indices
    latest: list[NDArray[np.float32] | None]
    norms: list[Doubles]
    merges: int


@dataclass(frozen=True)
class GCFL(MovableSharing[State], PersonalSharing[State]):
    """GCFL: clusters of clients that split where their updates disagree, each with a model of its own.

    All clients start in one cluster. A cluster's model moves by its members' weighted mean update. It is split in two
    when it stands still as a whole while a member does not:

        ||mean_i dW_i|| < mean_norm   and   max_i ||dW_i|| > max_norm

    along the minimum cut (Stoer and Wagner 1997) of the graph in which clients are tied by cos(dW_i, dW_j) + 1. With
    `series` (GCFL+) they are tied by max D - D instead, D being the distances of the sequences of their last ||dW_i||
    under dynamic time warping. Both halves go on from the cluster's model; they never meet again.

    Source: Xie et al., "Federated Graph Classification over Non-IID Graphs", NeurIPS 2021, section 4; where its text
        leaves a choice, the authors' code (Oxfordblue7/GCFL: server.py, training.py, runnerfile; read, not copied).
    Differs:
        - GCFL+ watches norms of updates, which the server has anyway (the code's "GCFL+dWs"); the paper's are norms of
          gradients.
        - The server works with what it decodes, and counts rounds that were merged.
        - Where not everybody takes part, a client stands for its last update, as in the code, and one without any yet
          stays with the half that keeps the cluster's number: that of the lowest client. A cluster is looked at in
          rounds in which one of its members answered; with `series`, once all with an update have norms enough.
        - The result of a client is what was best on its own validation split, of all models that its cluster ever had
          (the engine's doing for every method with models of one's own); the code takes the best on test.

    Args:
        mean_norm: epsilon 1, >= 0; 0.07 (code, for the paper's groups "molecules" and "biochem"; its other settings:
            0.025 to 0.08). 0 never splits.
        max_norm: epsilon 2, >= 0; 0.28 (code, "molecules"; 0.045 to 0.4).
        smallest: clusters of more members than this may split, >= 1; 2 (code).
        after: no split in this many rounds at the start, >= 0; 20 (code).
        series: whether sequences of norms tell clients apart (GCFL+).
        length: norms in a sequence, >= 2; 5 (code, "molecules"; 5 or 10). Sequences start anew after a split.

    State:
        models: list of the clusters' arrays; clusters: int64 [N]; latest: list [N] of float32 [d] or None; norms: list
        [N] of float64 [up to `length`]; merges: int.
    Needs: nothing.
    Cost: a cluster's model down and its difference up, per selected client; nothing more for GCFL+. At the server N
        updates in memory.
    """

    mean_norm: NonNegativeFloat = 0.07
    max_norm: NonNegativeFloat = 0.28
    smallest: PositiveInt = 2
    after: NonNegativeInt = 20
    series: bool = False
    length: Annotated[int, Ge(2)] = 5

    def init(self, model: Arrays, clients: int) -> State:
        """One cluster, the drawn model."""
        return {
            "models": [model],
            "clusters": np.zeros(clients, dtype=np.int64),
            "latest": [None] * clients,
            "norms": [np.zeros(0)] * clients,
            "merges": 0,
        }

    def group(self, state: State, client: int) -> int:
        """Return the client's cluster."""
        return int(state["clusters"][client])

    def model(self, state: State, group: int = 0) -> Arrays:
        """Return the cluster's model."""
        return state["models"][group]

    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """Split what is to be split, then move every cluster by its own members' updates."""
        noted = self._noted(state, updates)
        clusters, models, norms = noted["clusters"].copy(), list(noted["models"]), noted["norms"]
        answered = {update.client for update in updates}
        for cluster in range(len(models) if noted["merges"] > self.after else 0):
            members = np.flatnonzero(clusters == cluster).tolist()
            if answered.isdisjoint(members):
                continue
            leaving = self._leaving(members, noted["latest"], norms)
            if leaving:
                clusters[leaving] = len(models)
                models.append(models[cluster])
                norms = [np.zeros(0)] * len(norms)
        for cluster, model in enumerate(models):
            models[cluster] = _moved(model, [u for u in updates if clusters[u.client] == cluster], len(updates))
        return {**noted, "models": models, "clusters": clusters, "norms": norms}

    def with_model(self, state: State, group: int, model: Arrays) -> State:
        """Put a model in place of a cluster's."""
        return {**state, "models": [*state["models"][:group], model, *state["models"][group + 1 :]]}

    def _noted(self, state: State, updates: Sequence[Update]) -> State:
        """The state with the clients' new updates and norms noted."""
        latest, norms = list(state["latest"]), list(state["norms"])
        for update in updates:
            flat = np.concatenate([update.arrays[name].ravel() for name in state["models"][0]])
            latest[update.client] = flat
            norm = np.linalg.norm(flat.astype(np.float64))
            norms[update.client] = np.append(norms[update.client], norm)[-self.length :]
        return {**state, "latest": latest, "norms": norms, "merges": state["merges"] + 1}

    def _leaving(
        self, members: Sequence[int], latest: Sequence[NDArray[np.float32] | None], norms: Sequence[Doubles]
    ) -> list[int]:
        """Members of a cluster that go into a new one; nobody if it holds together."""
        known = [(client, update) for client in members if (update := latest[client]) is not None]
        if len(known) <= self.smallest:
            return []
        clients = [client for client, _ in known]
        updates = np.stack([update for _, update in known]).astype(np.float64)
        still = np.linalg.norm(updates.mean(axis=0)) < self.mean_norm
        if not still or np.linalg.norm(updates, axis=1).max() <= self.max_norm:
            return []
        if not self.series:
            ties = _cosines(updates) + 1.0
        elif min(len(norms[client]) for client in clients) < self.length:
            return []
        else:
            distances = _warped_distances(np.stack([norms[client] for client in clients]))
            ties = distances.max() - distances
        side = {clients[place] for place in _minimum_cut(ties)}
        return [client for client in clients if (client in side) != (clients[0] in side)]


def _moved(model: Arrays, updates: Sequence[Update], of: int) -> Arrays:
    """A cluster's model moved by its members' updates, their weights scaled to sum to 1 where others answered too."""
    total = sum(update.weight for update in updates) if len(updates) < of else 1.0
    return moved(model, [replace(update, weight=update.weight / total) for update in updates]) if total > 0 else model


def _cosines(vectors: Doubles) -> Doubles:
    """Return the cosines of all pairs, [n, n]; 0 with a vector of zeros."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return np.asarray(np.clip(units @ units.T, -1.0, 1.0))


def _warped_distances(sequences: Doubles) -> Doubles:
    """Return distances of all pairs of sequences [n, length] under dynamic time warping, [n, n].

    The root of the least sum of squared differences over all ways to walk through both, one step in one or in both.
    """
    count, length = sequences.shape
    # least[j][a, b]: of a up to where the outer loop is and of b up to j - 1; nothing may start in the middle.
    least = [np.zeros((count, count)), *(np.full((count, count), np.inf) for _ in range(length))]
    for here in range(length):
        row = [np.full((count, count), np.inf)]
        for there in range(length):
            step = (sequences[:, None, here] - sequences[None, :, there]) ** 2
            row.append(step + np.minimum(np.minimum(least[there + 1], row[there]), least[there]))
        least = row
    return np.asarray(np.sqrt(least[length]))


def _minimum_cut(ties: Doubles) -> list[int]:
    """One side of the cut that severs the least."""
    import networkx  # a fifth of a second, which whoever only lists or checks methods need not wait

    graph = networkx.Graph()
    for one in range(len(ties)):
        for other in range(one):
            graph.add_edge(one, other, weight=float(ties[one, other]))
    _, (side, _) = networkx.stoer_wagner(graph)
    return list(side)
