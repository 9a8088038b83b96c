"""ReputationUCB: a bandit whose reward weighs what a client's updates are worth against the time that they take."""

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import ClassVar, Literal, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Indices, Outcome, Selection, Selector, View
from fedgraft.contracts.ranges import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PositiveProportion,
    ProperFraction,
    Proportion,
)
from fedgraft.contracts.selector import SCORE
from fedgraft.errors import require
from fedgraft.methods.cohorts import MANY, affordable, falling, first_falling, reachable, size

LOG = logging.getLogger("fedgraft.selectors.reputation_ucb")
Floats = NDArray[np.float64]

Times = TypeVar("Times", float, Floats)
OBSERVED = ("reputation", "gain", "relevance", "quality", "training", "communication")
"""Columns of an observation (19)."""


class ReputationState(TypedDict):
    """State of reputation-UCB, see `ReputationUCB`."""

    pulls: NDArray[np.int64]
    tries: NDArray[np.int64]
    mean: Floats
    weight: Floats
    recent: Floats
    observations: Floats
    contribution: Floats
    seconds: Floats
    contexts: Floats
    gram: Floats
    moment: Floats
    score: float
    rose: bool
    round_reward: float


@dataclass(frozen=True)
class ReputationUCB(Selector[ReputationState]):
    """Reputation-UCB: reputation, relevance and data quality of a client against the seconds of its round.

    Of a client i whose answer has arrived in round t:
        gain         Delta_i = Q_i - Q: score of its trained model less the global model's last one; signs such that
                     better is positive
        reputation   R_i <- reputation_rate Delta_i + (1 - reputation_rate) R_i, 0 at first (9)
        relevance    U_i = exp(-delta_i) if the global score rose, else 1 - exp(-delta_i); delta_i is the mean size of
                     the entries of its update (10, 11)
        quality      D_i = examples x root mean squared sample loss (12), min-max normalised over clients known
        contribution S_i = alpha U_i R_i + beta D_i (13)
        reward       r_i = S_i - kappa (T_train + T_comm) / T_semi; T_semi is the clock's deadline (14, 15, Alg. 1)
    The index is mu_i + rho sqrt(ln t / (n_i + 1)) (28), with mu_i the mean of its n_i rewards (27); the K clients of
    highest index train.

    Source: Liu, Goudarzi, Toosi, "Multi-objective bandit participant selection for a federated recommender", equations
        (9) to (28).
    Differs:
        - The paper does not say what a client that fails earns: here -kappa T / T_semi, or -kappa where T is unknown.
        - Ties are broken at random. Where all known qualities are equal, they count as 1.
        - In a round without a score the last verdict on whether the score rose stands.
        - Q_i is scored by the client on its own validation split, Q by all clients on theirs.
        - Contextual: one ridge regression for all clients, on what was last observed of each, standardised over the
          clients observed; a client not observed yet counts as their mean.
        - Greedy (16): the paper names the heuristic only. Clients not tried yet go first. Then the client of highest
          marginal S_i - kappa dT / T_semi is added while that is positive; one that takes longer than T_semi is not.

    Args:
        clients: K, how many train, in [0, N]; 0 (default, ours) means half, rounded up. With "greedy" the most.
        reputation_rate: gamma in (9), in [0, 1]; 0.5.
        reputation: what Q is in (9): "printed", the score over all clients' users, or "paired" (ours), the client's own
            score of the model that it was sent. Scores of different clients' users differ by far more than a round
            changes them.
        alpha: weight of relevance x reputation, >= 0; 0.5.
        beta: of data quality, >= 0; 0.5.
        kappa: of time, >= 0; 0.5.
        rho: of exploration, >= 0; 0.5. These five are specified with no other source.
        prior: mu_i before a client's first reward: "none" is 0 (the paper); "device" is beta D_i - kappa T_i / T_semi,
            with the number of examples for D_i and the most seconds that its device is expected to take for T_i (ours).
        estimate: of mu_i: "mean" (27), "discounted" (20) or "window" (21).
        discount: of a reward for every later round, in (0, 1]; 0.95 (ours).
        window: last rewards that count, >= 1; 10 (ours).
        context: whether mu_i is a ridge regression on observations (19, 24) instead.
        ridge: its penalty, > 0; 1 (ours).
        policy: "ucb"; "greedy" solves (16); "stochastic" draws from the softmax of the indices.
        temperature: of that softmax, > 0; 1.
        least_share: a client that took part in fewer than this share of rounds goes first, in [0, 1); 0 = none.
        most_share: one that took part in more goes last, in (0, 1]; 1 = none.

    State:
        pulls: int64 [N], rewards booked, n_i; tries: int64 [N], times selected.
        mean: float64 [N], mu_i; weight: float64 [N], sum of discounts behind it ("discounted").
        recent: float64 [N, window], last rewards, nan where none ("window"; else [N, 0]).
        observations: float64 [N, 6], last (19), data quality not normalised, nan before.
        contribution: float64 [N], last S_i; seconds: float64 [N], last T_i; nan before.
        contexts: float64 [N, 7], standardised observation and 1 as last selected; gram: float64 [7, 7], moment: float64
            [7] of the regression (with `context`; else empty).
        score: Q, nan before the first; rose: whether it rose last; round_reward: (25) of the last round.
    Needs: "update", "loss_sq", "score": uploads, squared losses and the trained model's score at the client.
        With "paired" also "score_before".
    Cost: two scalars in each reply, and an evaluation at each client of the cohort; with "paired" one more of each.
    """

    learns_from_scores: ClassVar[bool] = True

    clients: NonNegativeInt = 0
    reputation_rate: Proportion = 0.5
    reputation: Literal["printed", "paired"] = "printed"
    alpha: NonNegativeFloat = 0.5
    beta: NonNegativeFloat = 0.5
    kappa: NonNegativeFloat = 0.5
    rho: NonNegativeFloat = 0.5
    prior: Literal["none", "device"] = "none"
    estimate: Literal["mean", "discounted", "window"] = "mean"
    discount: PositiveProportion = 0.95
    window: PositiveInt = 10
    context: bool = False
    ridge: PositiveFloat = 1.0
    policy: Literal["ucb", "greedy", "stochastic"] = "ucb"
    temperature: PositiveFloat = 1.0
    least_share: ProperFraction = 0.0
    most_share: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        above = f"in (0, 1], above least_share = {self.least_share}"
        require(self.least_share < self.most_share <= 1, "ReputationUCB.most_share", above, self.most_share)

    @cached_property
    def reports(self) -> frozenset[str]:  # type: ignore[override]
        """Uploads, squared losses, and scores at the client."""
        more = {"score_before"} if self.reputation == "paired" else set()
        return frozenset({"update", "loss_sq", "score", *more})

    def init(self, view: View) -> ReputationState:
        """Return the first state: nobody known."""
        size(self.clients, view, "ReputationUCB.clients")
        n, width = view.clients, (len(OBSERVED) + 1) * self.context
        return {
            "pulls": np.zeros(n, np.int64),
            "tries": np.zeros(n, np.int64),
            "mean": np.zeros(n),
            "weight": np.zeros(n),
            "recent": np.full((n, self.window if self.estimate == "window" else 0), np.nan),
            "observations": np.full((len(OBSERVED), n), np.nan).T,  # its columns are looked through
            "contribution": np.full(n, np.nan),
            "seconds": np.full(n, np.nan),
            "contexts": np.zeros((n, width)),
            "gram": self.ridge * np.eye(width),
            "moment": np.zeros(width),
            "score": math.nan,
            "rose": True,
            "round_reward": 0.0,
        }

    # --- selection ---------------------------------------------------------------------------------------------------

    def select(self, state: ReputationState, view: View, g: np.random.Generator) -> Selection:
        """Those behind their quota, then by the policy, then those beyond their quota."""
        wanted, pool = size(self.clients, view, "ReputationUCB.clients"), reachable(view)
        # Ties fall at random: all are shuffled; of many those alone that tie where it matters.
        ties = g if len(pool) > MANY and self.policy != "greedy" else None
        pool = pool if ties else g.permutation(pool)
        chosen, within, beyond = self._parted(pool, wanted, state, view, ties)
        if self.policy == "greedy":
            chosen = self._greedy(chosen, within, wanted, state, view)
            wanted, within = max(len(chosen), 1), within[:0]
        ranked = (self._ranked(part, wanted, state, view, g, ties) for part in (within, beyond))
        return Selection(affordable(chain(chosen, *ranked), view, most=wanted))

    def _parted(
        self, pool: Indices, wanted: int, state: ReputationState, view: View, ties: np.random.Generator | None
    ) -> tuple[list[int], Indices, Indices]:
        """The first of a pool that are behind their quota, those within theirs, and those beyond."""
        tries, rounds = state["tries"], max(view.round - 1, 1)
        if tries.min() / rounds >= self.least_share and tries.max() / rounds <= self.most_share:
            return [], pool, pool[:0]
        share = tries[pool] / rounds
        first, last = share < self.least_share, share > self.most_share
        behind = first_falling(-share[first], wanted, ties)
        return pool[first][behind].tolist(), pool[~first & ~last], pool[last]

    def _ranked(
        self,
        pool: Indices,
        soon: int,
        state: ReputationState,
        view: View,
        g: np.random.Generator,
        ties: np.random.Generator | None,
    ) -> Iterator[int]:
        """Some clients by falling index; or in the order of a draw from the softmax of the indices."""
        if not len(pool):
            return
        index = self.index(state, view)
        index = index if len(pool) == len(index) and ties else index[pool]
        if self.policy == "stochastic":  # the order of Gumbel-perturbed logits is that of successive draws
            index = index / self.temperature + g.gumbel(size=len(pool))
        yield from (int(pool[place]) for place in falling(index, soon, ties))

    def index(self, state: ReputationState, view: View) -> Floats:
        """Return the index of each client in a round, float64 [N]: (28), with the estimate that the options ask for."""
        estimates, bonus = self._index_parts(state, view)
        return np.asarray(estimates + bonus)

    def explanation(self, state: ReputationState, view: View) -> Mapping[str, Floats]:
        """The index and its parts, float64 [N], and what was last seen of each client: (9), (11), (13) and (15).

        With "greedy" there is no score: what a client adds depends on those before it.
        """
        mean, bonus = self._index_parts(state, view)
        seen = {name: state["observations"][:, place] for place, name in enumerate(OBSERVED)}
        explanation = {
            "reputation": seen["reputation"],
            "relevance": seen["relevance"],
            "contribution": state["contribution"],
            "time cost": self.kappa * _share(state["seconds"], view.deadline),
        }
        if self.least_share > 0 or self.most_share < 1:
            explanation["share of rounds"] = state["tries"] / max(view.round - 1, 1)
        if self.policy == "greedy":
            return explanation
        return {**explanation, "mean reward": mean, "exploration bonus": bonus, SCORE: mean + bonus}

    def _index_parts(self, state: ReputationState, view: View) -> tuple[Floats, Floats]:
        """mu_i, with the estimate that the options ask for, and the bonus for exploration; float64 [N] each."""
        estimates, pulls = self._estimates(state), state["pulls"]
        if self.prior == "device":
            samples = np.where(view.samples > 0, view.samples.astype(np.float64), np.nan)
            expected = self.beta * np.nan_to_num(_normalised(samples, samples)) - self.kappa * _share(
                view.seconds, view.deadline
            )
            estimates = np.where(pulls > 0, estimates, expected)
        bonuses = self.rho * np.sqrt(math.log(view.round) / (np.arange(pulls.max() + 1) + 1))  # of few different pulls
        return estimates, bonuses[pulls]

    def _estimates(self, state: ReputationState) -> Floats:
        if self.context:
            return np.asarray(self._contexts(state) @ np.linalg.solve(state["gram"], state["moment"]))
        if self.estimate == "window":
            counts = np.isfinite(state["recent"]).sum(axis=1)
            return np.asarray(np.nansum(state["recent"], axis=1) / np.maximum(counts, 1))
        return state["mean"]

    def _greedy(
        self, chosen: list[int], pool: NDArray[np.int64], wanted: int, state: ReputationState, view: View
    ) -> list[int]:
        """Extend a cohort by clients not tried yet, then by what adds most to (16)."""
        untried = pool[state["pulls"][pool] == 0]
        chosen = [*chosen, *untried.tolist()][:wanted]
        seconds = np.where(np.isfinite(state["seconds"]), state["seconds"], view.seconds) / view.deadline
        rest = pool[(state["pulls"][pool] > 0) & (seconds[pool] <= 1)]
        worth = np.nan_to_num(state["contribution"])
        longest = max((float(seconds[k]) for k in chosen), default=0.0)
        while len(rest) and len(chosen) < wanted:
            gains = worth[rest] - self.kappa * np.maximum(seconds[rest] - longest, 0.0)
            best = int(np.argmax(gains))
            if gains[best] <= 0 and chosen:
                break
            longest = max(longest, float(seconds[rest[best]]))
            chosen.append(int(rest[best]))
            rest = np.delete(rest, best)
        return chosen

    # --- what a round brought ----------------------------------------------------------------------------------------

    def update(self, state: ReputationState, view: View, outcome: Outcome) -> ReputationState:
        """Observations (9) to (14) of those that answered, and the rewards of those that did or failed."""
        before = state["score"] if view.score is None else view.score
        score = before if outcome.score is None or not math.isfinite(outcome.score) else outcome.score
        sign = 1.0 if view.better == "higher" else -1.0
        rose = state["rose"] if outcome.score is None or math.isnan(before) else sign * (score - before) > 0
        new = self._copied(state, outcome)
        new["score"], new["rose"] = score, bool(rose)
        for k in outcome.selected:
            new["tries"][k] += 1
        for k in outcome.reports:
            self._observe(new, k, view, outcome, sign, before)
        quality = new["observations"][:, OBSERVED.index("quality")]
        for k, share in zip(outcome.reports, _normalised(quality[list(outcome.reports)], quality), strict=True):
            reputation, _, relevance = new["observations"][k, :3]
            new["contribution"][k] = self.alpha * relevance * reputation + self.beta * share
        rewards = self._rewards(new, view, outcome)
        if self.estimate == "discounted":
            new["weight"] *= self.discount
        for k, reward in rewards.items():
            self._book(new, k, reward)
        longest = max((outcome.timings[k].total for k in outcome.reports), default=0.0)
        worth = sum(float(new["contribution"][k]) for k in outcome.reports)
        new["round_reward"] = worth - self.kappa * _share(longest, view.deadline)  # (25)
        LOG.debug("round %d: reward %.4f", view.round, new["round_reward"])
        return new

    def _observe(self, new: ReputationState, k: int, view: View, outcome: Outcome, sign: float, before: float) -> None:
        """Write what is seen of a client that answered: (9) to (12), and its times."""
        report, timing, seen = outcome.reports[k], outcome.timings[k], new["observations"][k]
        gain = sign * (report["score"] - (report["score_before"] if self.reputation == "paired" else before))
        gain = gain if math.isfinite(gain) else 0.0
        last = 0.0 if math.isnan(seen[0]) else float(seen[0])
        reputation = self.reputation_rate * gain + (1 - self.reputation_rate) * last
        close = math.exp(-_mean_size(outcome.updates[k]))
        quality = float(view.samples[k]) * math.sqrt(max(report["loss_sq"], 0.0))
        relevance = close if new["rose"] else 1 - close
        new["observations"][k] = reputation, gain, relevance, quality, timing.training, timing.communication
        new["seconds"][k] = timing.total

    def _rewards(self, new: ReputationState, view: View, outcome: Outcome) -> dict[int, float]:
        """{client: reward} of those that answered or failed."""
        rewards = {}
        for k in sorted({*outcome.reports, *outcome.failed}):
            timing = outcome.timings.get(k)
            taken = 1.0 if timing is None else _share(timing.total, view.deadline)
            worth = float(new["contribution"][k]) if k in outcome.reports else 0.0
            rewards[k] = worth - self.kappa * taken
        return rewards

    def _book(self, new: ReputationState, k: int, reward: float) -> None:
        new["pulls"][k] += 1
        if self.estimate == "discounted":  # (20): sum of discounted rewards over the sum of discounts
            new["weight"][k] += 1
            new["mean"][k] += (reward - new["mean"][k]) / new["weight"][k]
        else:  # (27)
            new["mean"][k] += (reward - new["mean"][k]) / new["pulls"][k]
        if self.estimate == "window":
            new["recent"][k] = [*new["recent"][k, 1:], reward]
        if self.context:
            seen = new["contexts"][k]
            new["gram"] += np.outer(seen, seen)
            new["moment"] += reward * seen

    def _copied(self, state: ReputationState, outcome: Outcome) -> ReputationState:
        """A copy of the state that knows what was seen of each selected client when it was selected.

        What `update` does not change is shared.
        """
        new = ReputationState(**state)
        for name, value in state.items():
            if isinstance(value, np.ndarray) and (name != "weight" or self.estimate == "discounted"):
                new[name] = value.copy(order="K")  # type: ignore[literal-required]
        if self.context and outcome.selected:
            new["contexts"][list(outcome.selected)] = self._contexts(state)[list(outcome.selected)]
        return new

    def _contexts(self, state: ReputationState) -> Floats:
        """float64 [N, 7]: observations standardised over the clients observed, 0 for others, and a column of ones."""
        seen = state["observations"].copy()
        known = np.isfinite(seen).all(axis=1)
        if known.any():
            deviation = seen[known].std(axis=0)
            seen = (seen - seen[known].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        seen[~known] = 0.0
        return np.column_stack([seen, np.ones(len(seen))])


def _mean_size(update: Mapping[str, NDArray[np.generic]]) -> float:
    """(10): the mean absolute value over all parameters of an update."""
    count = sum(array.size for array in update.values())
    return sum(float(np.abs(array).sum(dtype=np.float64)) for array in update.values()) / max(count, 1)


def _normalised(values: Floats, among: Floats) -> Floats:
    """Min-max normalised by what is known `among` all; 1 where all known are equal."""
    known = among[np.isfinite(among)]
    if not len(known):
        return values
    low, high = known.min(), known.max()
    return (values - low) / (high - low) if high > low else np.ones_like(values)


def _share(seconds: Times, deadline: float) -> Times:
    """(15): seconds as a share of the deadline; 0 where there is none."""
    return seconds / (deadline if deadline > 0 else math.inf)
