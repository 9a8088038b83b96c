"""Oort: prefer clients whose data is useful and who are fast."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypedDict

import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from fedgraft.contracts import Outcome, Selection, Selector, View
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt, PositiveInt, PositiveProportion, Proportion
from fedgraft.contracts.selector import SCORE
from fedgraft.errors import require
from fedgraft.methods.cohorts import affordable, first_falling, reachable, size, weighted_order

STEP, FLAT, SHARP = 5.0, 0.1, 5.0
"""Of the pacer, as in the code: percentage points by which it moves, the relative change of utility between windows up
to which it relaxes, and the one from which it tightens."""


class OortState(TypedDict):
    """State of Oort between rounds."""

    utility: NDArray[np.float64]
    seconds: NDArray[np.float64]
    last_round: NDArray[np.int64]
    picks: NDArray[np.int64]
    history: NDArray[np.float64]
    percentile: float


@dataclass(frozen=True)
class Oort(Selector[OortState]):
    """Guided participant selection: exploit clients of high utility per second, explore the rest by size.

    Source: Lai et al., OSDI 2021 (arXiv 2010.06081), sec. 4.2-4.4, Alg. 1; where its text leaves a choice, the authors'
        code (thirdparty/oort/oort.py of SymbioticLab/FedScale, commit ce642665, read, not copied).
    Differs:
        - The pacer is the code's (both directions, percentile steps). It follows the mean utility of all clients that
          answered, where the code follows the exploited ones, which are none in the first rounds.
        - The cut-off is a share of the k-th best score for k exploited clients; the code reads one beyond it, and
          fails there when few clients are left.
        - The number explored is rounded up or down at random, so that its mean is the share; the code rounds down, and
          so never explores again after round 1 with cohorts of one.
        - A cohort is always filled: places for which no untried client is left are exploited, and blacklisted clients
          come back, fewest selections first, when nobody else is left. The code trains fewer clients.
        - A failed client counts as picked, with the utility it had before (0 if none), and is no longer untried; so
          does one whose loss is not finite.
        - The loss is taken over all training examples before local training, not over the last mini-batch.
        - Once the budget does not pay for all: exploited clients first, then explored ones, in the order drawn.

    Args:
        clients: how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        epsilon: share of the cohort explored in round 1, in [0, 1]; 0.9 (paper).
        epsilon_decay: its factor per round, in (0, 1]; 0.98 (paper).
        epsilon_min: its floor, in [0, epsilon]; 0.2 (paper; code 0.3).
        cutoff: clients scoring at least this share of the k-th best are exploited, in [0, 1]; 0.95 (paper; code 0.05).
        alpha: power of the penalty on slow clients, >= 0; 2 (paper).
        percentile: of all clients' seconds, is the round time preferred at first, in (0, 100]; 30 (code).
        pacer_rounds: W, rounds per window of the pacer, >= 1; 20 (paper, code).
        clip: utilities are clipped at this share of their ranking, in (0, 1]; 0.95 (paper; code 0.9).
        staleness: weight of the bonus sqrt(staleness ln R / last round), >= 0; 0.1 (paper, code).
        blacklist: more selections than this exclude a client, >= 0; 10 (paper); 0 never does (the code's default).
        blacklist_share: largest share of clients excluded, in [0, 1]; 0.3 (code).
        explore_window: untried clients are drawn from this many times as many largest ones, >= 1; 5 (code).

    State:
        utility: float64 [N], last |B| sqrt(mean squared loss); 0 = none.
        seconds: float64 [N], last measured seconds of a round; 0 = none, then `view.seconds` stands in.
        last_round: int64 [N], last round selected; 0 = never.
        picks: int64 [N], times selected.
        history: float64 [2 W], mean utility of the last rounds' clients, the newest last.
        percentile: where the pacer is.
    Needs: "loss_sq"; simulated seconds from the outcome.
    Cost: one scalar in each reply.
    """

    reports: ClassVar[frozenset[str]] = frozenset({"loss_sq"})

    clients: NonNegativeInt = 0
    epsilon: Proportion = 0.9
    epsilon_decay: PositiveProportion = 0.98
    epsilon_min: float = 0.2
    cutoff: Proportion = 0.95
    alpha: NonNegativeFloat = 2.0
    percentile: Annotated[float, Interval(gt=0, le=100)] = 30.0
    pacer_rounds: PositiveInt = 20
    clip: PositiveProportion = 0.95
    staleness: NonNegativeFloat = 0.1
    blacklist: NonNegativeInt = 10
    blacklist_share: Proportion = 0.3
    explore_window: Annotated[float, Ge(1)] = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        below = f"in [0, {self.epsilon}], up to epsilon"
        require(0 <= self.epsilon_min <= self.epsilon, "Oort.epsilon_min", below, self.epsilon_min)

    def init(self, view: View) -> OortState:
        """Return the first state: nobody tried."""
        size(self.clients, view, "Oort.clients")
        return {
            "utility": np.zeros(view.clients),
            "seconds": np.zeros(view.clients),
            "last_round": np.zeros(view.clients, dtype=np.int64),
            "picks": np.zeros(view.clients, dtype=np.int64),
            "history": np.zeros(2 * self.pacer_rounds),
            "percentile": self.percentile,
        }

    def select(self, state: OortState, view: View, g: np.random.Generator) -> Selection:
        """Exploited, then explored clients; blacklisted ones only where nobody else is left."""
        pool, excluded = reachable(view), self._blacklisted(state)
        tried, untried = self._parted(pool, excluded, state)
        wanted = min(size(self.clients, view, "Oort.clients"), len(pool))
        epsilon = max(self.epsilon * self.epsilon_decay ** (view.round - 1), self.epsilon_min)
        explored = min(int(epsilon * wanted + g.random()), len(untried))
        exploited = min(wanted - explored, len(tried))
        explored = min(wanted - exploited, len(untried))

        slowness = self._slowness(state, view)
        order = self._exploit(tried, exploited, slowness, state, view, g)
        order += self._explore(untried, explored, slowness, view, g)
        if len(order) < wanted:
            order += sorted(pool[excluded[pool]].tolist(), key=lambda k: int(state["picks"][k]))
        return Selection(affordable(order[:wanted], view))

    def explanation(self, state: OortState, view: View) -> Mapping[str, NDArray[np.float64]]:
        """What exploited clients are drawn by, and untried ones explored by, float64 [N]; nan of the blacklisted."""
        tried, untried = self._parted(reachable(view), self._blacklisted(state), state)
        gain, bonus = self._gained(tried, state, view)
        speed = self._slowness(state, view)
        parts = {
            "utility": (tried, gain),
            "staleness bonus": (tried, bonus),
            "speed factor": (tried, speed[tried]),
            SCORE: (tried, (gain + bonus) * speed[tried]),
            "exploration weight": (untried, view.samples[untried] * speed[untried]),
        }
        explanation = {name: np.full(view.clients, np.nan) for name in parts}
        for name, (who, values) in parts.items():
            explanation[name][who] = values
        return explanation

    def update(self, state: OortState, view: View, outcome: Outcome) -> OortState:
        """Utilities and seconds of those that answered; every W rounds the pacer."""
        new = copy.deepcopy(state)
        for k in outcome.selected:
            new["last_round"][k] = view.round
            new["picks"][k] += 1
        for k, report in outcome.reports.items():
            if math.isfinite(report["loss_sq"]):
                new["utility"][k] = view.samples[k] * math.sqrt(max(report["loss_sq"], 0.0))
        for k, measured in outcome.seconds.items():
            new["seconds"][k] = measured
        answered = list(outcome.reports)
        gained = float(new["utility"][answered].mean()) if answered else 0.0
        new["history"] = np.append(state["history"][1:], gained)
        new["percentile"] = self._pacer(state["percentile"], new["history"], view.round)
        return new

    def _parted(
        self, pool: NDArray[np.int64], excluded: NDArray[np.bool_], state: OortState
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Clients of a pool that were tried and are not blacklisted, and those that were never tried."""
        picked = state["picks"][pool] > 0
        return pool[picked & ~excluded[pool]], pool[~picked]

    def _pacer(self, percentile: float, history: NDArray[np.float64], round: int) -> float:
        window = self.pacer_rounds
        if round < 2 * window or round % window:
            return percentile
        before, now = float(history[:window].sum()), float(history[window:].sum())
        if abs(now - before) <= FLAT * before:
            return min(percentile + STEP, 100.0)
        if abs(now - before) >= SHARP * before:
            return max(percentile - STEP, min(STEP, percentile))
        return percentile

    def _blacklisted(self, state: OortState) -> NDArray[np.bool_]:
        """Whether each client is excluded, bool [N]."""
        picks = state["picks"]
        excluded = (picks > self.blacklist) & (self.blacklist > 0)
        most = int(self.blacklist_share * len(picks))
        if np.count_nonzero(excluded) > most:  # which is rare, and sorting takes long
            excluded[np.argsort(-picks, kind="stable")[most:]] = False
        return excluded

    def _slowness(self, state: OortState, view: View) -> NDArray[np.float64]:
        """(T / t)^alpha where a client's round takes longer than T, else 1."""
        seconds = np.where(state["seconds"] > 0, state["seconds"], view.seconds)
        if state["percentile"] >= 100:
            return np.ones(view.clients)
        preferred = _ranked(seconds, state["percentile"] / 100)
        ratio = preferred / np.maximum(seconds, preferred) if preferred > 0 else (seconds <= 0).astype(np.float64)
        return np.asarray(ratio**self.alpha, dtype=np.float64)

    def _exploit(
        self,
        tried: NDArray[np.int64],
        count: int,
        slowness: NDArray[np.float64],
        state: OortState,
        view: View,
        g: np.random.Generator,
    ) -> list[int]:
        if not count:
            return []
        gain, bonus = self._gained(tried, state, view)
        score = (gain + bonus) * slowness[tried]
        least = np.partition(score, len(score) - count)[len(score) - count]
        eligible = np.flatnonzero(score >= self.cutoff * least)
        return weighted_order(tried[eligible], score[eligible], g, count)

    def _gained(
        self, tried: NDArray[np.int64], state: OortState, view: View
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Utility in [0, 1] among these clients, and the bonus for those not selected for long, float64 [n] each."""
        utility = state["utility"][tried]
        useful = utility[utility > 0]
        gain = np.zeros(len(tried))
        if len(useful):
            lowest, spread = useful.min(), useful.max() - useful.min()
            clipped = np.clip(utility, lowest, _ranked(useful, self.clip))
            gain = np.where(utility > 0, (clipped - lowest) / spread if spread > 0 else 1.0, 0.0)
        return gain, np.sqrt(self.staleness * math.log(view.round) / state["last_round"][tried])

    def _explore(
        self, untried: NDArray[np.int64], count: int, slowness: NDArray[np.float64], view: View, g: np.random.Generator
    ) -> list[int]:
        reward = view.samples[untried] * slowness[untried]
        largest = first_falling(reward, int(self.explore_window * count))
        return weighted_order(untried[largest], reward[largest], g, count)


def _ranked(values: NDArray[np.float64], share: float) -> float:
    """The value that `share` of the values lie below, as the code picks it: sorted[min(int(n share), n - 1)]."""
    place = min(int(len(values) * share), len(values) - 1)
    return float(np.partition(values, place)[place])
