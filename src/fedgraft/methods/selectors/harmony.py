"""Harmony-style: clients that together have balanced labels, and are fast."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Indices, Outcome, Selection, Selector, View
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt, PositiveInt, PositiveProportion
from fedgraft.contracts.selector import SCORE
from fedgraft.methods.cohorts import affordable, reachable, size

_LABELS = tuple(f"label_{bin}" for bin in range(5))


class HarmonyState(TypedDict):
    """State of Harmony between rounds."""

    labels: NDArray[np.float64]
    seconds: NDArray[np.float64]
    known: NDArray[np.bool_]
    tries: NDArray[np.int64]


@dataclass(frozen=True)
class Harmony(Selector[HarmonyState]):
    """Harmony-style selection: a greedy cohort whose joint label histogram is near uniform and whose clients are fast.

    Source: after Tian et al., MICRO 2022, whose full text and code are not public: only its abstract (select by
        training capability and data distribution, without raw data) was read. The score is ours:
        score(k) = -KL(P_{S+k} || uniform) + time_weight * min(1, T / t_k), added greedily to the cohort S.
        It reproduces no figure of the paper.
    Differs: the paper's reorganisation of each client's training samples and its on-device coordinator are left out.
        Histograms come from the replies of clients that have trained, so clients never seen go first, fastest first,
        and count nothing in P. Once all are known and nothing changes the cohort stays the same. Once the budget does
        not pay for all, the cohort is filled in the order of the greedy choice.

    Args:
        clients: how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        time_weight: lambda, >= 0; 1 (ours).
        deadline_share: T is the round time that this share of all clients keeps, in (0, 1]; 0.5 (ours).
        patience: a client that never answered goes first this often, and last from then on, >= 1; 3 (ours).

    State:
        labels: float64 [N, 5], reported shares of training labels per bin; 0 = unknown.
        seconds: float64 [N], last measured seconds of a round; 0 = none, then `view.seconds` stands in.
        known: bool [N], whether the client ever answered.
        tries: int64 [N], times selected.
    Needs: "label_0" ... "label_4": shares of training labels in five equal bins of their range, from a task that
        offers them in its `profile`.
    Cost: five scalars in each reply.
    """

    reports: ClassVar[frozenset[str]] = frozenset(_LABELS)

    clients: NonNegativeInt = 0
    time_weight: NonNegativeFloat = 1.0
    deadline_share: PositiveProportion = 0.5
    patience: PositiveInt = 3

    def init(self, view: View) -> HarmonyState:
        """Return the first state: nobody known."""
        size(self.clients, view, "Harmony.clients")
        return {
            "labels": np.zeros((view.clients, len(_LABELS))),
            "seconds": np.zeros(view.clients),
            "known": np.zeros(view.clients, dtype=np.bool_),
            "tries": np.zeros(view.clients, dtype=np.int64),
        }

    def select(self, state: HarmonyState, view: View, g: np.random.Generator) -> Selection:
        """Never seen clients, then greedily by score; ties: lowest index."""
        order, _ = self._order(state, view)
        return Selection(affordable(order, view))

    def explanation(self, state: HarmonyState, view: View) -> Mapping[str, NDArray[np.float64]]:
        """The score and its parts, float64 [N], as a client was taken, or as if it came next; nan if never seen."""
        return self._order(state, view)[1]

    def update(self, state: HarmonyState, view: View, outcome: Outcome) -> HarmonyState:
        """Histograms and seconds of those that answered."""
        new = copy.deepcopy(state)
        for k in outcome.selected:
            new["tries"][k] += 1
        for k, report in outcome.reports.items():
            shares = np.array([report[name] for name in _LABELS])
            new["labels"][k] = np.where(np.isfinite(shares) & (shares > 0), shares, 0.0)
            new["known"][k] = True
        for k, measured in outcome.seconds.items():
            new["seconds"][k] = measured
        return new

    def _order(self, state: HarmonyState, view: View) -> tuple[list[int], dict[str, NDArray[np.float64]]]:
        """The clients wanted, in the order in which they are taken, and what known ones scored."""
        pool = reachable(view)
        wanted = min(size(self.clients, view, "Harmony.clients"), len(pool))
        seconds = np.where(state["seconds"] > 0, state["seconds"], view.seconds)
        unknown = pool[~state["known"][pool]].tolist()
        unknown.sort(key=lambda k: (int(state["tries"][k]), float(seconds[k])))
        order = [k for k in unknown if state["tries"][k] < self.patience][:wanted]
        known = pool[state["known"][pool]]
        chosen, explanation = self._greedy(known, wanted - len(order), seconds, state, view)
        order += chosen
        order += [k for k in unknown if state["tries"][k] >= self.patience]
        return order[:wanted], explanation

    def _greedy(
        self, pool: Indices, count: int, seconds: NDArray[np.float64], state: HarmonyState, view: View
    ) -> tuple[list[int], dict[str, NDArray[np.float64]]]:
        deadline = float(np.quantile(seconds, self.deadline_share, method="inverted_cdf"))
        late = seconds > deadline
        speed = np.where(late, deadline / np.where(late, seconds, 1.0), 1.0)
        mass = state["labels"] * view.samples[:, None]
        chosen: list[int] = []
        mix = np.zeros(len(_LABELS))
        rest, imbalance = pool, np.full(view.clients, np.nan)
        imbalance[rest] = _divergence(mix + mass[rest])
        for _ in range(min(count, len(pool))):
            score = self.time_weight * speed[rest] - imbalance[rest]
            best = int(np.argmax(score))
            chosen.append(int(rest[best]))
            rest = np.delete(rest, best)
            mix += mass[chosen[-1]]
            imbalance[rest] = _divergence(mix + mass[rest])
        worth = np.where(np.isnan(imbalance), np.nan, self.time_weight * speed)
        return chosen, {"label imbalance": imbalance, "speed": worth, SCORE: worth - imbalance}


def _divergence(mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """KL(P || uniform) in nats of each row; an empty row says nothing and has 0."""
    total = mass.sum(axis=1, keepdims=True)
    share = mass / np.where(total > 0, total, 1.0)
    logs = np.log(np.where(share > 0, share, 1.0) * mass.shape[1])
    return np.asarray((share * logs).sum(axis=1), dtype=np.float64)
