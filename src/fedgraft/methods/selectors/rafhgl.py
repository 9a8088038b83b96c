"""RAFHGL: an agent at the server learns which clients to choose from quantiles of their active scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, TypedDict

import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from fedgraft.contracts import Outcome, Selection, Selector, View
from fedgraft.contracts.ranges import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PositiveProportion,
    ProperFraction,
    Proportion,
)
from fedgraft.contracts.selector import AGENT
from fedgraft.methods.cohorts import affordable, filled, reachable, size, softmax_draw
from fedgraft.methods.rl.q_learning import AgentState, QLearning

NUMBERS = 1 << 23
"""Numbers that all transitions of the replay memory see at most (ours), so with many clients it holds fewer."""


class RAFHGLState(TypedDict):
    """State of RAFHGL.

    quantiles: float32 [N, quantiles], the last known of each client's scores; worth: float64 [N], their means, nan =
    never trained; agent: see `q_learning.AgentState`, None before the first round; score: the last of the global model,
    nan before.
    """

    quantiles: NDArray[np.float32]
    worth: NDArray[np.float64]
    agent: AgentState | None
    score: float
    rewards: NDArray[np.float64]
    trained: NDArray[np.int64]


@dataclass(frozen=True)
class RAFHGL(Selector[RAFHGLState]):
    """RAFHGL: an agent at the server learns which clients to choose from quantiles of their active scores.

    The agent, a double deep Q-network, sees the last known quantiles of every client's active scores and says what each
    client is worth; those are chosen for whom Q(s, k) + prior * mean score + turn * age is largest. The age of a client
    is how many rounds ago it trained, as a share of the rounds in which all could take a turn, N / M. With a
    probability that falls from `explore` to `least`, the cohort is drawn as AFL does, from mean score and age alone.
    After a round every client of the cohort stands for one transition, with the reward

        base^(score - target) - 1

    less its mean over the last `relative` rounds.

    Source: Wang et al., "RAFHGL", AAAI 2025, "Client Selection Agent on Global Server", Eq. (2).
    Differs:
        - The paper says both that the agent chooses with probability epsilon and that AFL does while epsilon is large;
          here it is AFL's draw that has the probability that falls.
        - The reward of Eq. (2) rises as the model learns, whoever trains: an agent takes those who trained last for the
          best, and chooses them again. So it is taken relative to the last rounds' (`relative`).
        - An agent that has learnt nothing chooses the same clients again and again, and clients whose examples stay
          uncertain have high scores for ever. The prior and the turns are ours.
        - AFL's constants are ours: its own leave three clients of four out and tell the others hardly apart.
        - The paper does not give the target, nor how epsilon falls, nor how many steps the agent makes.
        - The score is validation's. With very many clients the replay memory holds fewer transitions.

    Args:
        clients: M, how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        quantiles: n_q, numbers that describe a client, >= 2, as many as the sampler reports (paper: 5).
        explore: probability of AFL's draw in the first round, in [0, 1] (paper: 1 and 0.8).
        decay: factor of that probability from one round to the next, in (0, 1].
        least: smallest probability, in [0, 1].
        prior: what a client's mean active score weighs beside the agent's value, >= 0; 0.3 (ours), 0 as printed.
        turn: what an age of 1 weighs, >= 0; 3 (ours), 0 as printed.
        relative: rounds whose mean reward is taken off, >= 0; 0 as printed.
        target: Acc_T, score that is hoped for, in [-100, 100].
        base: B_G of the reward, in (1, 1000]; 64.
        steps: of the agent after each round, >= 1.
        discarded: share of clients that AFL's draw leaves out, those with the lowest mean scores, in [0, 1].
        temperature: factor of mean scores in AFL's exponent, >= 0.
        uniform: share of AFL's draw that is uniform, in [0, 1].
        hidden: width of the agent's hidden layer, >= 1 (paper: 256).
        rate: of the agent's Adam, > 0 (paper: 0.001).
        gamma: discount, in [0, 1).
        batch: transitions of a step, >= 1.
        memory: transitions kept, >= 1.
        copy_every: steps of the agent until its target network follows, >= 1.

    State: see `RAFHGLState`; in the replay memory 2 N `quantiles` numbers a round, and three a transition.
    Needs: "score_mean" and the quantiles "score_0" ..., which the sampler `active` reports; the score after every
        round, else the last one counts.
    Cost: `quantiles` + 1 scalars in each reply.
    """

    learns_from_scores: ClassVar[bool] = True

    clients: NonNegativeInt = 0
    quantiles: Annotated[int, Ge(2)] = 5
    explore: Proportion = 1.0
    decay: PositiveProportion = 0.97
    least: Proportion = 0.05
    prior: NonNegativeFloat = 0.3
    turn: NonNegativeFloat = 3.0
    relative: NonNegativeInt = 10
    target: Annotated[float, Interval(ge=-100, le=100)] = 1.0
    base: Annotated[float, Interval(gt=1, le=1000)] = 64.0
    steps: PositiveInt = 1
    discarded: Proportion = 0.25
    temperature: NonNegativeFloat = 5.0
    uniform: Proportion = 0.1
    hidden: PositiveInt = 256
    rate: PositiveFloat = 1e-3
    gamma: ProperFraction = 0.9
    batch: PositiveInt = 64
    memory: PositiveInt = 10_000
    copy_every: PositiveInt = 10

    @cached_property
    def reports(self) -> frozenset[str]:  # type: ignore[override]
        """Quantiles of a client's active scores, and their mean."""
        return frozenset({"score_mean", *self._names})

    def init(self, view: View) -> RAFHGLState:
        """Nobody has trained."""
        size(self.clients, view, "RAFHGL.clients")
        quantiles = np.zeros((view.clients, self.quantiles), np.float32)
        return {
            "quantiles": quantiles,
            "worth": np.full(view.clients, np.nan),
            "agent": None,
            "score": float("nan"),
            "rewards": np.zeros(0),
            "trained": np.zeros(view.clients, np.int64),
        }

    def select(self, state: RAFHGLState, view: View, g: np.random.Generator) -> Selection:
        """Choose by the agent's values, or as AFL does."""
        pool, wanted = reachable(view), size(self.clients, view, "RAFHGL.clients")
        if not len(pool):
            return Selection(())
        if g.random() >= self.exploration(view.round):
            order = pool[np.argsort(-self.values(state, view)[pool], kind="stable")]
            return Selection(affordable(order, view, most=wanted))
        count = int((1 - self.uniform) * wanted)
        first = pool[softmax_draw(self.worth(state, view)[pool], count, self.discarded, self.temperature, g)].tolist()
        return Selection(filled(first, pool, wanted, view, g))

    def explanation(self, state: RAFHGLState, view: View) -> Mapping[str, NDArray[np.float64]]:
        """What the agent ranks clients by, float64 [N], in two parts: what AFL's draw goes by, and what it learnt."""
        worth, values = self.worth(state, view), self.values(state, view)
        return {"mean active score": state["worth"], "score and turn": worth, "learnt": values - worth, AGENT: values}

    def update(self, state: RAFHGLState, view: View, outcome: Outcome) -> RAFHGLState:
        """Note new scores, remember what came of the choice, and learn from what is remembered."""
        quantiles, worth = state["quantiles"].copy(), state["worth"].copy()
        heard = [
            k for k, report in outcome.reports.items() if np.isfinite([report[name] for name in self._names]).all()
        ]
        for k in heard:
            quantiles[k] = [outcome.reports[k][name] for name in self._names]
            worth[k] = outcome.reports[k]["score_mean"]
        scored = outcome.score is not None and np.isfinite(outcome.score)
        score = float(outcome.score) if scored and outcome.score is not None else state["score"]
        g = np.random.default_rng([view.seed, view.round])
        agent, learner = self._agent(state, view), self.agent(view.clients)
        cohort = [k for k in outcome.selected if k in outcome.reports]
        rewards = state["rewards"]
        if cohort and np.isfinite(score):
            reward = self.reward(score, view.better)
            own = np.full(len(cohort), reward - (rewards.mean() if len(rewards) else 0.0), np.float32)
            agent = learner.remember(agent, state["quantiles"].ravel(), cohort, own, quantiles.ravel())
            for _ in range(self.steps):
                agent = learner.learn(agent, g)
            rewards = np.append(rewards, reward)[-self.relative :] if self.relative else rewards
        trained = state["trained"].copy()
        trained[cohort] = view.round
        return {
            "quantiles": quantiles,
            "worth": worth,
            "agent": agent,
            "score": score,
            "rewards": rewards,
            "trained": trained,
        }

    def exploration(self, round: int) -> float:
        """Return the probability of AFL's draw in a round, counted from 1."""
        return max(self.least, self.explore * self.decay ** (round - 1))

    def reward(self, score: float, better: str) -> float:
        """Return base^(score - target) - 1, Eq. (2)."""
        return float(self.base ** (score - self.target if better == "higher" else self.target - score) - 1)

    def values(self, state: RAFHGLState, view: View) -> NDArray[np.float64]:
        """Return what clients are ranked by: the agent's value of each, and `worth`, float64 [N]."""
        agent = self._agent(state, view)
        values = self.agent(view.clients).values(agent, state["quantiles"].reshape(1, -1))[0]
        return np.asarray(values + self.worth(state, view), np.float64)

    def worth(self, state: RAFHGLState, view: View) -> NDArray[np.float64]:
        """Return prior * mean score + turn * age, float64 [N]; who never trained has the best score and a full age."""
        known = state["worth"]
        scores = np.where(np.isfinite(known), known, np.nanmax(known) if np.isfinite(known).any() else 0.0)
        cycle = view.clients / size(self.clients, view, "RAFHGL.clients")
        age = np.where(state["trained"] > 0, np.minimum((view.round - state["trained"]) / cycle, 1.0), 1.0)
        return np.asarray(self.prior * scores + self.turn * age)

    def agent(self, clients: int) -> QLearning:
        """Return the agent for so many clients."""
        inputs = clients * self.quantiles
        memory = min(self.memory, max(self.batch, NUMBERS // (2 * inputs)))
        return QLearning.of(self, inputs, clients, hidden=(self.hidden,), memory=memory, double=True, rounds=True)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"score_{k}" for k in range(self.quantiles))

    def _agent(self, state: RAFHGLState, view: View) -> AgentState:
        """The agent's state, or its first."""
        return state["agent"] or self.agent(view.clients).init(np.random.default_rng([view.seed, 0]))
