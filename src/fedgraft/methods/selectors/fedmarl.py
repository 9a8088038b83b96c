"""FedMarl: candidates try an epoch, and agents decide who goes on to train."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import ClassVar, TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Indices, Outcome, Probe, ProbingSelector, Selection, View
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
from fedgraft.methods.cohorts import affordable, probeable, random_order, reachable, size
from fedgraft.methods.rl.q_learning import AgentState, Matrix, QLearning

STOP, TRAIN = 0, 1
"""What an agent can do."""
LOSS = 10.0
"""Most that a loss can differ from 0, as a multiple of the first ones."""


class Waiting(TypedDict):
    """A round whose transition lacks what was seen in the next one; arrays as in `AgentState`'s memory."""

    observations: Matrix
    actions: Indices
    reward: float


class FedMarlState(TypedDict):
    """State of FedMarl: the agents' network, and what was measured of clients."""

    agent: AgentState
    probing: Matrix
    sending: Matrix
    loss: float
    waiting: Waiting | None


@dataclass(frozen=True)
class FedMarl(ProbingSelector[FedMarlState]):
    """Some candidates try one epoch; an agent for each then decides whether it trains or stops.

    An agent sees its candidate's loss in that epoch, how long its last trials and messages took, its bytes, its number
    of examples, and the round. All agents have one network of values, and one reward for the team: the rise of the
    score's utility, less weighted shares of the time and of the bytes that a round with all candidates would take. The
    values of a team's agents add up (VDN). At least one candidate trains.

    Source: Zhang, Lin, Zhang, "A multi-agent reinforcement learning approach for efficient client selection in
        federated learning", AAAI 2022.
    Differs:
        - The network learns while the one run goes on; the paper trains it over many runs before.
        - Who goes on trains all of its epochs anew from the model that it was sent; the trial is not kept.
        - Time and bytes are shares of what the round would take at most if all candidates went on, so that weights do
          not depend on units. Time is the simulated clock's.
        - The utility is U(x) = 20 / (1 + exp(0.35 (1 - x))) - 10 of a score x, or of x = 1 - score where lower is
          better. As it is printed it falls as x rises.
        - The team of the next round are its own candidates, others than before.

    Args:
        clients: m, candidates of a round, in [0, N]; 0 (default, ours) means half, rounded up.
        history: measurements that an agent sees of each kind, >= 1; 3 (paper).
        score_weight: of the rise of the utility, >= 0; 1 (paper).
        seconds_weight: of the round's time, >= 0; 0.2 (paper).
        bytes_weight: of what is sent, >= 0; 0.1 (paper).
        epsilon: chance that a candidate's decision is random in the first round, in [0, 1]; 1 (ours).
        epsilon_decay: factor of that chance per round, in (0, 1]; 0.97 (ours).
        epsilon_min: least chance, in [0, 1]; 0.05 (ours).
        hidden: widths of the network's hidden layers; two of 256 (paper).
        rate: of Adam, > 0; 0.001 (ours).
        gamma: discount, in [0, 1); 0.9 (paper: 0.9 to 0.99).
        steps: of learning after each round, >= 0; 1 (ours).
        batch: rounds of a step, >= 1; 8 (ours).
        memory: rounds kept, >= 1; 1,000 (paper).
        copy_every: steps until the target network is copied, >= 1; 10 (ours).

    State:
        agent: see `q_learning.AgentState`, of a team of m; probing, sending: float32 [N, history], seconds of the last
        trials, and of the messages of the last rounds that a client trained in, 0 = none; loss: mean of the first
        trials, nan before; waiting: None before the first.
    Needs: "loss" of probes; the score after every round, else it counts in the round in which it comes.
    Cost: model down, two scalars up and an epoch of training for each candidate (`bytes_per_probe`), in every round.
    """

    learns_from_scores: ClassVar[bool] = True
    paced: ClassVar[bool] = True  # agents see how much of the run is over

    clients: NonNegativeInt = 0
    history: PositiveInt = 3
    score_weight: NonNegativeFloat = 1.0
    seconds_weight: NonNegativeFloat = 0.2
    bytes_weight: NonNegativeFloat = 0.1
    epsilon: Proportion = 1.0
    epsilon_decay: PositiveProportion = 0.97
    epsilon_min: Proportion = 0.05
    hidden: tuple[PositiveInt, ...] = (256, 256)
    rate: PositiveFloat = 1e-3
    gamma: ProperFraction = 0.9
    steps: NonNegativeInt = 1
    batch: PositiveInt = 8
    memory: PositiveInt = 1_000
    copy_every: PositiveInt = 10

    def init(self, view: View) -> FedMarlState:
        """Return the first state: agents that have learnt nothing."""
        return {
            "agent": self._agent(view).init(np.random.default_rng([view.seed, 0])),
            "probing": np.zeros((view.clients, self.history), np.float32),
            "sending": np.zeros((view.clients, self.history), np.float32),
            "loss": np.nan,
            "waiting": None,
        }

    def probe(self, state: FedMarlState, view: View, g: np.random.Generator) -> Probe | None:
        """Have candidates, drawn uniformly, try an epoch."""
        wanted = size(self.clients, view, "FedMarl.clients")
        candidates = probeable(list(islice(random_order(reachable(view), g, wanted), wanted)), view)
        return Probe(candidates, "train", epochs=1) if candidates else None

    def select(self, state: FedMarlState, view: View, g: np.random.Generator) -> Selection:
        """Return the candidates whose agents say so, or the nearest to it; random clients where nobody tried."""
        pool, wanted = reachable(view), size(self.clients, view, "FedMarl.clients")
        others = random_order(pool, g, wanted)
        if not view.probed:
            return Selection(affordable(others, view, most=wanted))
        tried, seen = self._observed(state, view)
        gain = self._gain(state, view, seen)
        chance = max(self.epsilon * self.epsilon_decay ** (view.round - 1), self.epsilon_min)
        goes = np.where(g.random(len(tried)) < chance, g.random(len(tried)) < 0.5, gain > 0)
        order = np.argsort(-gain, kind="stable")
        going, stopping = tried[order[goes[order]]].tolist(), tried[order[~goes[order]]].tolist()
        return Selection(affordable(going, view) or affordable(chain(stopping, others), view, most=1))

    def explanation(self, state: FedMarlState, view: View) -> Mapping[str, NDArray[np.float64]]:
        """Loss and seconds of each trial, and the value of training less that of stopping, float64 [N]."""
        if not view.probed:
            return {}
        tried, seen = self._observed(state, view)
        names = {"probed loss": "loss", "seconds of the trial": "seconds"}
        explanation = {name: np.full(view.clients, np.nan) for name in (*names, AGENT)}
        for name, key in names.items():
            explanation[name][tried] = [view.probed[k][key] for k in tried.tolist()]
        explanation[AGENT][tried] = self._gain(state, view, seen)
        return explanation

    def update(self, state: FedMarlState, view: View, outcome: Outcome) -> FedMarlState:
        """Keep what was measured; learn from the round before, whose next one is known now."""
        sending = state["sending"].copy()
        for k in outcome.reports:
            sending[k] = [*sending[k][1:], outcome.timings[k].communication]
        if not view.probed:
            return {**state, "sending": sending}
        tried, seen = self._observed(state, view)
        probing = state["probing"].copy()
        probing[tried] = seen[:, 1 : 1 + self.history] * _unit(view)
        agent, waiting, there = self._agent(view), state["waiting"], self._team(view, seen)
        learnt = state["agent"]
        if waiting is not None:
            before, actions = waiting["observations"][None], waiting["actions"][None]
            learnt = agent.remember(learnt, before, actions, [waiting["reward"]], there[None])
        g = np.random.default_rng([view.seed, view.round])
        for _ in range(self.steps):
            learnt = agent.learn(learnt, g)
        actions = np.zeros(len(there), np.int64)
        actions[: len(tried)] = np.isin(tried, outcome.selected)
        return {
            "agent": learnt,
            "probing": probing,
            "sending": sending,
            "loss": self._scale(state, view),
            "waiting": {"observations": there, "actions": actions, "reward": self.reward(view, outcome, tried)},
        }

    def reward(self, view: View, outcome: Outcome, tried: Indices) -> float:
        """Return the team's reward of a round in which these clients tried, int64 [n]."""
        scores = [score for score in (view.score, outcome.score) if score is not None and np.isfinite(score)]
        rise = utility(scores[1], view.better) - utility(scores[0], view.better) if len(scores) == 2 else 0.0
        trials = max(view.probed[k]["seconds"] for k in tried.tolist())
        trained = max((outcome.timings[k].total for k in outcome.selected if k in outcome.timings), default=0.0)
        longest = trials + float(view.seconds[tried].max())
        seconds = (trials + trained) / longest if longest > 0 else 0.0
        moved = view.bytes_per_client[list(outcome.selected)].sum() / view.bytes_per_client[tried].sum()
        return float(self.score_weight * rise - self.seconds_weight * seconds - self.bytes_weight * moved)

    def _agent(self, view: View) -> QLearning:
        return QLearning.of(self, 4 + 2 * self.history, actions=2, team=size(self.clients, view, "FedMarl.clients"))

    def _gain(self, state: FedMarlState, view: View, seen: Matrix) -> Matrix:
        """Return the value of training less that of stopping, float32 [n]; an agent trains where it is > 0."""
        values = self._agent(view).values(state["agent"], seen)
        return values[:, TRAIN] - values[:, STOP]

    def _observed(self, state: FedMarlState, view: View) -> tuple[Indices, Matrix]:
        """Return who tried, int64 [n], and what their agents see, float32 [n, inputs]."""
        tried = np.array(sorted(view.probed), np.int64)
        answers = [view.probed[k] for k in tried.tolist()]
        loss = np.clip([answer["loss"] / self._scale(state, view) for answer in answers], -LOSS, LOSS)
        now = np.array([[answer["seconds"]] for answer in answers])
        seen = [
            loss[:, None],
            np.concatenate([state["probing"][tried, 1:], now], 1) / _unit(view),
            state["sending"][tried] / _unit(view),
            (view.bytes_per_client[tried] / view.bytes_per_client.mean())[:, None],
            (view.samples[tried] / max(1.0, view.samples.mean()))[:, None],
            np.full((len(tried), 1), view.round / view.rounds),
        ]
        return tried, np.concatenate(seen, 1).astype(np.float32)

    def _scale(self, state: FedMarlState, view: View) -> float:
        """Mean absolute loss of the first trials, > 0."""
        if np.isfinite(state["loss"]):
            return state["loss"]
        return float(np.mean([abs(answer["loss"]) for answer in view.probed.values()])) or 1.0

    def _team(self, view: View, seen: Matrix) -> Matrix:
        """Observations with nan for agents that are not there, float32 [team, inputs]."""
        there = np.full((self._agent(view).team, seen.shape[1]), np.nan, np.float32)
        there[: len(seen)] = seen
        return there


def utility(score: float, better: str) -> float:
    """Return U of a score, in (-10, 10), rising as it gets better."""
    share = score if better == "higher" else 1 - score
    return float(10 * np.tanh(0.35 * (share - 1) / 2))  # 20 / (1 + exp(0.35 (1 - x))) - 10


def _unit(view: View) -> float:
    """Seconds that others are measured in: the median of what rounds take at most, > 0."""
    return float(np.median(view.seconds)) or 1.0
