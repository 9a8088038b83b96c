"""FAVOR: an agent at the server learns from scores which clients should train."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypedDict

import numpy as np
import torch
from annotated_types import Interval
from numpy.typing import NDArray

from fedgraft.contracts import Outcome, Selection, Selector, View
from fedgraft.contracts.ranges import (
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PositiveProportion,
    ProperFraction,
    Proportion,
)
from fedgraft.contracts.selector import AGENT
from fedgraft.methods.cohorts import affordable, reachable, size
from fedgraft.methods.rl.networks import one_thread
from fedgraft.methods.rl.q_learning import AgentState, Matrix, QLearning
from fedgraft.methods.sketches import SKETCH, sketched


class FavorState(TypedDict):
    """State of FAVOR: the agent, what it sees, and the last score."""

    agent: AgentState
    loadings: Matrix
    coordinates: Matrix
    merged: NDArray[np.float32]
    score: float | None


@dataclass(frozen=True)
class Favor(Selector[FavorState]):
    """An agent (double deep Q-learning) values every client; those of the highest value train.

    It sees coordinates of the global model and of the last update of every client. A round is worth
    base^(score - target) - 1 to each of its clients, so an agent that looks ahead wants to be at the target soon. Each
    place of a cohort is given to a client at random with a probability that falls over the run.

    Source: Wang, Kaplan, Niu, Li, "Optimizing federated learning on non-IID data with reinforcement learning", INFOCOM
        2020.
    Differs:
        - The agent learns while the one run goes on; the paper trains it over hundreds of episodes, each of them a run,
          before. One run teaches it little: what it costs to do better is as many runs.
        - Coordinates are of updates, and of the sum of the rounds' mean updates in place of the global model. Their
          axes are the principal ones, through the origin, of the first round's updates; the paper's are of all clients'
          first models. Updates are count sketches of 256 numbers, and there are `components` axes, not 100.
        - A round gives a transition for each client that answered; an episode of the paper has one client a round.
        - The score is validation's. A score that is better than the target by more than 1 counts as better by 1.

    Args:
        clients: m, how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        target: score that is hoped for, in [-100, 100]; 0.85 (paper, Fashion-MNIST; MNIST: 0.99, CIFAR-10: 0.55).
        base: of the reward, in (1, 1000]; 64 (paper).
        components: axes that updates are seen along, in [1, 256]; 2 (ours; paper: 100).
        epsilon: share of a first cohort that is random, in [0, 1]; 1 (ours).
        epsilon_decay: factor of that share per round, in (0, 1]; 0.98 (ours).
        epsilon_min: least share, in [0, 1]; 0.1 (ours).
        hidden: widths of the network's hidden layers; one of 128 (ours; paper: two of 512).
        rate: of Adam, > 0; 0.001 (ours).
        gamma: discount, in [0, 1); 0.99 (paper).
        steps: of learning after each round, >= 0; 1 (ours).
        batch: transitions of a step, >= 1; 32 (ours).
        memory: transitions kept, >= 1; 1,000 (ours; paper: 10,000).
        copy_every: steps until the target network is copied, >= 1; 100 (paper).

    State:
        agent: see `q_learning.AgentState`; loadings: float32 [256, components], the axes, 0 before they are known;
        coordinates: float32 [N, components], of each client's last update, 0 = none; merged: float32 [components], of
        the sum of mean updates; score: the last, None before.
    Needs: "update": the uploads; the score after every round, else the last one counts.
    Cost: nothing beyond the model, down to and up from each selected client.
    """

    learns_from_scores: ClassVar[bool] = True
    reports: ClassVar[frozenset[str]] = frozenset({"update"})

    clients: NonNegativeInt = 0
    target: Annotated[float, Interval(ge=-100, le=100)] = 0.85
    base: Annotated[float, Interval(gt=1, le=1000)] = 64.0
    components: Annotated[int, Interval(ge=1, le=SKETCH)] = 2
    epsilon: Proportion = 1.0
    epsilon_decay: PositiveProportion = 0.98
    epsilon_min: Proportion = 0.1
    hidden: tuple[PositiveInt, ...] = (128,)
    rate: PositiveFloat = 1e-3
    gamma: ProperFraction = 0.99
    steps: NonNegativeInt = 1
    batch: PositiveInt = 32
    memory: PositiveInt = 1_000
    copy_every: PositiveInt = 100

    def init(self, view: View) -> FavorState:
        """Return the first state: an agent that has learnt nothing, and sees nothing."""
        size(self.clients, view, "Favor.clients")
        return {
            "agent": self.agent(view.clients).init(np.random.default_rng([view.seed, 0])),
            "loadings": np.zeros((SKETCH, self.components), np.float32),
            "coordinates": np.zeros((view.clients, self.components), np.float32),
            "merged": np.zeros(self.components, np.float32),
            "score": None,
        }

    def select(self, state: FavorState, view: View, g: np.random.Generator) -> Selection:
        """Some at random, then those of the highest value."""
        pool, wanted = g.permutation(reachable(view)), size(self.clients, view, "Favor.clients")
        share = max(self.epsilon * self.epsilon_decay ** (view.round - 1), self.epsilon_min)
        explored = int(g.binomial(wanted, share))
        values = self.agent(view.clients).values(state["agent"], _observation(state))
        rest = pool[explored:]
        best = rest[np.argsort(-values[rest], kind="stable")]
        return Selection(affordable([*pool[:explored].tolist(), *best.tolist()], view, most=wanted))

    def explanation(self, state: FavorState, view: View) -> Mapping[str, NDArray[np.float64]]:
        """What the agent thinks that each client is worth, float64 [N]."""
        return {AGENT: self.agent(view.clients).values(state["agent"], _observation(state)).astype(np.float64)}

    def update(self, state: FavorState, view: View, outcome: Outcome) -> FavorState:
        """Keep what came, and learn what it was worth."""
        seen = self._seen(state, view, outcome.updates)
        score = outcome.score
        if score is None or not np.isfinite(score):
            score = state["score"]
        agent, learner = state["agent"], self.agent(view.clients)
        done = [k for k in outcome.selected if k in outcome.reports]
        if score is not None and done:
            rewards = np.full(len(done), self.reward(score, view.better), np.float32)
            agent = learner.remember(agent, _observation(state), done, rewards, _observation(seen))
        g = np.random.default_rng([view.seed, view.round])
        for _ in range(self.steps):
            agent = learner.learn(agent, g)
        return {**seen, "agent": agent, "score": score}

    def agent(self, clients: int) -> QLearning:
        """Return the agent for so many clients."""
        return QLearning.of(self, (clients + 1) * self.components, clients, double=True, rounds=True)

    def reward(self, score: float, better: str) -> float:
        """Return base^(score - target) - 1: 0 at the target, and down to -1 far from it."""
        gain = score - self.target if better == "higher" else self.target - score
        return float(self.base ** min(gain, 1.0) - 1)

    def _seen(self, state: FavorState, view: View, updates: Mapping[int, dict[str, NDArray[np.generic]]]) -> FavorState:
        """Return the state with the coordinates of updates that came; the first of all give the axes."""
        if not updates:
            return state
        clients, rows = list(updates), np.stack(list(sketched(updates).values()))
        loadings = state["loadings"] if state["loadings"].any() else axes(rows, self.components)
        projected = rows @ loadings
        coordinates = state["coordinates"].copy()
        coordinates[clients] = projected
        shares = view.samples[clients] / max(1, view.samples[clients].sum())
        merged = (state["merged"] + shares @ projected).astype(np.float32)
        return {**state, "loadings": loadings, "coordinates": coordinates, "merged": merged}


def axes(rows: Matrix, components: int) -> Matrix:
    """Return principal axes through the origin, float32 [256, components], along which rows are of mean square 1.

    What there is no axis for is 0.
    """
    with one_thread():
        _, lengths, directions = torch.linalg.svd(torch.from_numpy(rows).double(), full_matrices=False)
    count = min(components, len(lengths))
    spread = float(lengths[:count].square().sum().sqrt()) / np.sqrt(len(rows) * components)
    loadings = np.zeros((rows.shape[1], components), np.float32)
    if spread > 0:
        loadings[:, :count] = directions[:count].T.numpy() / spread
    return loadings


def _observation(state: FavorState) -> NDArray[np.float32]:
    """Coordinates of the global model and of all clients, float32 [inputs]."""
    return np.concatenate([state["merged"], state["coordinates"].ravel()])
