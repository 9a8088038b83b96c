"""FedACS: one bandit picks how many clients train, a second one which."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Indices, NonNegativeInt, Outcome, PositiveFloat, PositiveInt, Selection, Selector, View
from fedgraft.contracts.selector import SCORE
from fedgraft.errors import require
from fedgraft.methods.cohorts import MANY, affordable, available, first_falling, random_first


class FedACSState(TypedDict):
    """State of FedACS: the two bandits, and the last score."""

    number_rewards: NDArray[np.float64]
    number_pulls: NDArray[np.int64]
    client_rewards: NDArray[np.float64]
    client_pulls: NDArray[np.int64]
    score: float | None


@dataclass(frozen=True)
class FedACS(Selector[FedACSState]):
    """Adaptive client selection: a two-level bandit under a communication budget.

    Round 1 takes all N clients; rounds 2..N try every other number once, with random clients; from then on the number
    M and the M clients of highest upper confidence bound train.

    Source: Xu et al., IEEE TMC 2025, Alg. 1: rewards (14) and (15), scores (16) and (17), constraints (13).
    Differs:
        - The paper rewards with the test score, which leaks the test set into training; the default here is the
          validation split. `score_split="test"` is the paper's.
        - B in (14) is the run's byte budget; the paper is silent about runs without one. Then B is `budget_rounds`
          rounds of full participation, each the sum of `bytes_per_client`. b_t is all that the round cost, with probes
          and evaluation.
        - (13) leaves open what to do at its bounds. Too little budget: the longest prefix of the ranking that fits
          trains, and is what (14) books as M; if that is fewer than `min_clients`, the best that fit together; if even
          the cheapest do not fit, nobody. Too few selections: M is at least (selections missing) / (rounds left),
          rounded up, where no more are called missing than the budget pays for at the average client's price.
        - Rounds 2..N draw only numbers that fit whole; a number that could not be tried then ranks first as soon as
          it fits, and so does a client that was never selected.
        - Fewer available clients than `min_clients`: all available ones train.
        - A client that fails has been pulled, and gets the round's reward only where it is negative: it earned nothing,
          and must not look better than those that answered.
        - A round without a score is rewarded with the last one; before any, with 0 minus its cost.

    Args:
        target: Tg in (14), (15), the score hoped for, > 0, in the metric's own units. The paper gives no value; 1.0
            (default) is near its RMSE on both data sets.
        budget_rounds: B in (14) of a run without a byte budget, in rounds of full participation, > 0; the smaller, the
            more a large cohort has to be worth. 0.35 (default, ours) was chosen on validation scores of Ciao.
        min_clients: L in (13), fewest clients per round, in [1, N]; 1 is the paper's example.
        min_selections: C in (13), fewest selections over all rounds, >= 0; 0 (default, ours) asks for none.
        number: "ucb" (default), or "random", the paper's ablation CS: after round N, M is uniform.
        clients: "ucb" (default), or "random", the paper's ablation ND: the M clients are uniform.
        score_split: "validation" (default) or "test", which leaks.

    State:
        number_rewards, number_pulls: float64, int64 [N], of the numbers 1..N.
        client_rewards, client_pulls: float64, int64 [N].
        score: the last score, None before the first.
    Needs: nothing from clients; the task's score after every round.
    Cost: nothing beyond the model, and the evaluation if the run charges it.
    """

    target: PositiveFloat = 1.0
    budget_rounds: PositiveFloat = 0.35
    min_clients: PositiveInt = 1
    min_selections: NonNegativeInt = 0
    number: Literal["ucb", "random"] = "ucb"
    learns_from_scores: ClassVar[bool] = True

    clients: Literal["ucb", "random"] = "ucb"
    score_split: Literal["validation", "test"] = "validation"

    @property
    def paced(self) -> bool:
        """True where so many selections are to be made by the last round."""
        return self.min_selections > 0

    def init(self, view: View) -> FedACSState:
        """Return the first state: nothing pulled."""
        n = view.clients
        require(self.min_clients <= n, "FedACS.min_clients", f"in [1, {n}], the number of clients", self.min_clients)
        return {
            "number_rewards": np.zeros(n),
            "number_pulls": np.zeros(n, dtype=np.int64),
            "client_rewards": np.zeros(n),
            "client_pulls": np.zeros(n, dtype=np.int64),
            "score": None,
        }

    def select(self, state: FedACSState, view: View, g: np.random.Generator) -> Selection:
        """Alg. 1: how many, then which."""
        reachable = available(view)
        draws, least = self._draws(view), min(self.min_clients, len(reachable))
        soon = _most(reachable, view)
        order = random_first(reachable, soon, g) if draws else reachable
        if not draws and view.bytes_left is not None:
            order = self._best(state, view, reachable, soon)
        fitting = len(order)
        if view.bytes_left is not None:
            prices = np.cumsum(view.bytes_per_client[order])
            fitting = int(np.searchsorted(prices, view.bytes_left, side="right"))
        if fitting < max(least, 1):
            rest = np.setdiff1d(reachable, order)
            rest = g.permutation(rest) if draws else self._best(state, view, rest, len(rest))
            return Selection(affordable([*order.tolist(), *rest.tolist()], view, least, most=least))
        lowest = min(max(least, self._pace(state, view)), fitting)
        number = min(self._number(state, view, lowest, fitting, g), fitting)
        if not draws and view.bytes_left is None:
            order = self._best(state, view, reachable, number)
        return Selection(tuple(np.sort(order[:number]).tolist()))

    def update(self, state: FedACSState, view: View, outcome: Outcome) -> FedACSState:
        """Rewards (14) and (15), booked on the number selected and on each client selected."""
        fresh = outcome.score is not None and math.isfinite(outcome.score)
        score = outcome.score if fresh else state["score"]
        gain = 0.0 if score is None else 1 - score / self.target
        reward = (gain if view.better == "lower" else -gain) * math.log(view.round)
        budget = view.bytes_budget or self.budget_rounds * float(view.bytes_per_client.sum())
        new = copy.deepcopy(state)
        new["score"] = score
        if outcome.selected:
            arm = len(outcome.selected) - 1
            new["number_rewards"][arm] += reward - outcome.bytes / max(budget, 1.0)
            new["number_pulls"][arm] += 1
        for k in outcome.selected:
            new["client_rewards"][k] += reward if k in outcome.reports else min(reward, 0.0)
            new["client_pulls"][k] += 1
        return new

    def explanation(self, state: FedACSState, view: View) -> Mapping[str, NDArray[np.float64]]:
        """(17) and its parts, float64 [N] each, nan for a client that was never selected; {} in rounds that draw."""
        if self._draws(view):
            return {}
        mean, bonus = _parts(state["client_rewards"], state["client_pulls"], view.round)
        pulled = state["client_pulls"] > 0
        explanation = {"mean reward": mean, "exploration bonus": bonus, SCORE: mean + bonus}
        return {name: np.where(pulled, values, np.nan) for name, values in explanation.items()}

    def _draws(self, view: View) -> bool:
        """Return whether the clients of the round are random."""
        return view.round <= view.clients or self.clients == "random"

    def _best(self, state: FedACSState, view: View, pool: Indices, count: int) -> Indices:
        """So many of a pool, int64, by falling (17)."""
        score = _upper_bounds(state["client_rewards"], state["client_pulls"], view.round)
        return pool[first_falling(score if len(pool) == len(score) else score[pool], count)]

    def _number(self, state: FedACSState, view: View, lowest: int, fitting: int, g: np.random.Generator) -> int:
        """M, at least `lowest`; what exceeds `fitting` is lowered to it by the caller."""
        n, pulls = view.clients, state["number_pulls"]
        if view.round == 1:
            return n
        untried = lowest + np.flatnonzero(pulls[lowest - 1 : min(fitting, n - 1)] == 0)
        if view.round <= n and len(untried):
            return int(g.choice(untried))
        if self.number == "random":
            return int(g.integers(lowest, n + 1))
        score = _upper_bounds(state["number_rewards"][lowest - 1 :], pulls[lowest - 1 :], view.round)  # (16)
        # Lowering an untried number would book the round on another one, so that it would rank first for ever.
        score[fitting - lowest + 1 :][pulls[fitting:] == 0] = -np.inf
        return lowest + int(np.argmax(score))

    def _pace(self, state: FedACSState, view: View) -> int:
        """The number per round that still reaches `min_selections`, or as near to it as the budget lets."""
        if not self.min_selections:
            return 0
        missing = self.min_selections - int(np.arange(1, view.clients + 1) @ state["number_pulls"])
        if view.bytes_left is not None:
            missing = min(missing, int(view.bytes_left // max(view.bytes_per_client.mean(), 1)))
        return math.ceil(max(missing, 0) / max(view.rounds - view.round + 1, 1))


def _most(pool: Indices, view: View) -> int:
    """Return of how many clients an order is wanted: of many the most that could be paid for, and one more."""
    if view.bytes_left is None or len(pool) <= MANY:
        return len(pool)
    cheapest = int(view.bytes_per_client[pool].min())
    return min(len(pool), view.bytes_left // cheapest + 1) if cheapest > 0 else len(pool)


def _upper_bounds(rewards: NDArray[np.float64], pulls: NDArray[np.int64], round: int) -> NDArray[np.float64]:
    """(16) and (17): mean reward + sqrt(2 ln t / pulls); infinite where never pulled."""
    mean, bonus = _parts(rewards, pulls, round)
    bounds: NDArray[np.float64] = mean + bonus
    bounds[pulls == 0] = np.inf
    return bounds


def _parts(
    rewards: NDArray[np.float64], pulls: NDArray[np.int64], round: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean reward and exploration bonus of (16) and (17), of what was pulled."""
    few = np.maximum(np.arange(pulls.max() + 1), 1)  # there are few different numbers of pulls
    return rewards / np.maximum(pulls, 1), np.sqrt(2 * math.log(round) / few)[pulls]
