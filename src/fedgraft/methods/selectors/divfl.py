"""DivFL: the clients whose updates stand best for those of all."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Indices, NonNegativeInt, Outcome, Selection, Selector, View
from fedgraft.contracts.selector import SCORE
from fedgraft.methods.cohorts import affordable, reachable, size
from fedgraft.methods.sketches import Sketches, seen, unknown

TOGETHER = 16
"""Gains that are computed at once."""


@dataclass(frozen=True)
class DivFL(Selector[Sketches]):
    """Facility location over updates: every client is near one that trains.

    The cohort S makes the sum over all clients k of min over i in S of ||u_k - u_i|| small; u_k is the update of k that
    was seen last. It is found greedily, which is within 1 - 1/e of the best.

    Source: Balakrishnan, Li, Zhou, Himayat, Smith, Bilmes, ICLR 2022, eq. 3, the variant "no-overhead" of algorithm 1.
    Differs: clients whose update is not known go first, in random order, in place of a first round with everybody;
        until all that can be reached are known, weights are by training examples. The greedy search is the lazy one
        (Minoux, 1978), which finds the same. Distances are those of count sketches, 256 numbers each.

    Args:
        clients: m, how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        weights: "samples" (default, the authors' code): a client counts for its training examples; "represented"
            (eq. 4): for all clients that it is the nearest of.

    State:
        sketches: float32 [N, 256], of each client's last update; known: bool [N], whether there was one.
    Needs: "update": the uploads.
    Cost: nothing beyond the model, down to and up from each selected client.
    """

    reports: ClassVar[frozenset[str]] = frozenset({"update"})

    clients: NonNegativeInt = 0
    weights: Literal["represented", "samples"] = "samples"

    def init(self, view: View) -> Sketches:
        """Return the first state: nobody known."""
        size(self.clients, view, "DivFL.clients")
        return unknown(view.clients)

    def select(self, state: Sketches, view: View, g: np.random.Generator) -> Selection:
        """Clients not known yet; else those that stand best for all."""
        pool = g.permutation(reachable(view))
        wanted = size(self.clients, view, "DivFL.clients")
        new, members = pool[~state["known"][pool]], pool[state["known"][pool]]
        apart = distances(state["sketches"][members])
        need = max(wanted - len(new), 0)
        order = members[representatives(apart, need)]
        others = np.setdiff1d(members, order)
        cohort = affordable([*new.tolist(), *order.tolist(), *others.tolist()], view, most=wanted)
        if len(new) or self.weights == "samples" or not cohort:
            return Selection(cohort)
        places = np.array([int(np.flatnonzero(members == k)[0]) for k in cohort])
        nearest = _nearest(apart, places)
        return Selection(cohort, tuple((np.bincount(nearest, minlength=len(cohort)) / len(members)).tolist()))

    def explanation(self, state: Sketches, view: View) -> Mapping[str, NDArray[np.float64]]:
        """How many clients each stands for, and the score, what it took off the sum of distances then, float64 [N].

        The score of others is what they would take off it next. nan of clients whose update is not known.
        """
        pool = reachable(view)
        members = pool[state["known"][pool]]
        if not len(members):
            return {}
        apart = distances(state["sketches"][members])
        wanted = size(self.clients, view, "DivFL.clients")
        places = representatives(apart, max(wanted - (len(pool) - len(members)), 0))
        stands, score = np.full(view.clients, np.nan), np.full(view.clients, np.nan)
        nearest, gains = apart.max(1), np.zeros(len(places))
        for number, k in enumerate(places):
            gains[number] = np.maximum(nearest - apart[k], 0.0).sum()
            nearest = np.minimum(nearest, apart[k])
        score[members] = np.maximum(nearest[:, None] - apart, 0.0).sum(0)
        score[members[places]] = gains
        if len(places):
            stands[members] = 0.0
            stands[members[places]] = np.bincount(_nearest(apart, places), minlength=len(places))
        return {"clients it stands for": stands, SCORE: score}

    def update(self, state: Sketches, view: View, outcome: Outcome) -> Sketches:
        """Keep a sketch of each update that came."""
        return seen(state, outcome.updates)


def _nearest(apart: NDArray[np.float64], places: Indices) -> Indices:
    """Return which of some members is nearest to each, int64 [n]."""
    nearest: Indices = apart[:, places].argmin(1)
    nearest[places] = np.arange(len(places))  # of equal updates each stands for itself
    return nearest


def distances(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the Euclidean distances of all pairs of rows, float64 [n, n]."""
    squares = (rows.astype(np.float64) ** 2).sum(1)
    matrix: NDArray[np.float64] = squares[:, None] + squares
    matrix -= 2.0 * (rows @ rows.T)
    np.sqrt(np.maximum(matrix, 0.0, out=matrix), out=matrix)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def representatives(apart: NDArray[np.float64], count: int) -> Indices:
    """Return so many members, the greedy choice for the sum of distances to the nearest; int64, in that order.

    Args:
        apart: float64 [n, n], distances.
        count: >= 0; at most n are returned.
    """
    nearest = apart.max(1, initial=0.0)  # of a member to those that are chosen
    gains = [(-float(gain), k) for k, gain in enumerate((nearest[:, None] - apart).sum(0))]
    heapq.heapify(gains)
    chosen: list[int] = []
    fresh: dict[int, float] = {}
    while gains and len(chosen) < count:
        # A gain only falls as more are chosen: who is first with a fresh gain is the best.
        _, k = heapq.heappop(gains)
        if k not in fresh:  # those who may be next are looked at with it
            some = [k, *(other for _, other in gains[: TOGETHER - 1])]
            taken = apart[some]
            np.maximum(np.subtract(nearest, taken, out=taken), 0.0, out=taken)
            fresh.update(zip(some, (-taken.sum(1)).tolist(), strict=True))
        gain = fresh[k]
        if gains and gain > gains[0][0]:
            heapq.heappush(gains, (gain, k))
            continue
        chosen.append(k)
        nearest, fresh = np.minimum(nearest, apart[k]), {}
    return np.array(chosen, np.int64)
