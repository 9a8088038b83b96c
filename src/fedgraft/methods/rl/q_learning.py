"""Deep Q-learning: a small agent, or a team of equal ones, that chooses one of a few actions.

All of its state is a tree of arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts import Indices
from fedgraft.contracts.ranges import Checked, NonNegativeInt, PositiveFloat, PositiveInt, ProperFraction
from fedgraft.errors import require
from fedgraft.methods.rl import replay
from fedgraft.methods.rl.networks import Moments, Vector, drawn, forward, moved, one_thread, seeded, tensors
from fedgraft.wire.layouts import Arrays

Matrix = NDArray[np.float32]
COMMON = ("observations", "following")
"""What transitions of one round share."""


class AgentState(TypedDict):
    """State of an agent: its networks, their moments, its memory.

    online, target: {"0.weight": [outputs, inputs], "0.bias": [outputs], "1.weight" ...}, float32; moments: Adam's of
    the first, empty before the first step; memory: "observations" and "following" float32 [T, inputs], "actions"
    int64 [T], "rewards" float32 [T]; steps: so many. Of a team all but the rewards are [T, team, ...]. Where rounds are
    remembered, "place" int64 [T] is the round of each transition, and observations are [rounds, inputs].
    """

    online: Arrays
    target: Arrays
    moments: Moments
    memory: Arrays
    steps: int


OPTIONS = ("hidden", "rate", "gamma", "batch", "memory", "copy_every")
"""What methods let a user set of their agents."""


@dataclass(frozen=True)
class QLearning(Checked):
    """Deep Q-learning: values of actions, learnt from a replay memory, with a target network.

    The network is a perceptron with ReLU between its layers. The agents of a team share it and one reward: the value of
    what they do is the sum of their values. An agent that is not there has an observation of nan, and counts 0. What
    this computes does not depend on how many threads torch has.

    Source: Mnih et al., "Human-level control through deep reinforcement learning", Nature 2015, algorithm 1; the double
        one: van Hasselt, Guez, Silver, "Deep reinforcement learning with double Q-learning", AAAI 2016; teams: Sunehag
        et al., "Value-decomposition networks for cooperative multi-agent learning", AAMAS 2018, with one network.
    Differs: Adam steps down the mean squared error, which is not clipped; episodes never end.

    Args:
        inputs: length of an observation, >= 1.
        actions: to choose from, >= 1.
        hidden: widths of the hidden layers, each >= 1; () = a linear one.
        rate: of Adam, > 0.
        gamma: discount of what follows, in [0, 1).
        batch: transitions of a step, drawn with replacement, >= 1.
        memory: transitions kept, the newest, >= 1.
        copy_every: steps until the target network becomes the other one, >= 1.
        double: whether the network that learns chooses the action that the target network values.
        team: most agents of a team, >= 0; 0 = one agent by itself.
        rounds: whether the agent does several things in a round, of which each is a transition with the same
            observations; these are kept once. Not of a team.
    """

    inputs: PositiveInt
    actions: PositiveInt
    hidden: tuple[PositiveInt, ...] = (256,)
    rate: PositiveFloat = 1e-3
    gamma: ProperFraction = 0.9
    batch: PositiveInt = 64
    memory: PositiveInt = 10_000
    copy_every: PositiveInt = 10
    double: bool = False
    team: NonNegativeInt = 0
    rounds: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not (self.team and self.rounds), "QLearning.team", "0 where rounds are remembered", self.team)

    @classmethod
    def of(cls, method: object, inputs: int, actions: int, **others: Any) -> "QLearning":
        """Return an agent with the options of a method: `OPTIONS` by their names, and others as they are given."""
        return cls(inputs, actions, **{**{name: getattr(method, name) for name in OPTIONS}, **others})

    def init(self, g: np.random.Generator) -> AgentState:
        """Return a network drawn at random, a target equal to it, nothing in memory."""
        network = drawn(list(pairwise((self.inputs, *self.hidden, self.actions))), seeded(g))
        agents = (self.team,) if self.team else ()
        seen = (*agents, self.inputs)
        shapes = {"observations": seen, "actions": agents, "rewards": (), "following": seen}
        memory = replay.empty({**shapes, **({replay.PLACE: ()} if self.rounds else {})}, whole=("actions",))
        return {"online": network, "target": dict(network), "moments": {}, "memory": memory, "steps": 0}

    def values(self, state: AgentState, observations: Matrix) -> Matrix:
        """Return the value of each action, float32 [..., actions], of observations float32 [..., inputs]."""
        return _values(state["online"], observations)

    def remember(
        self,
        state: AgentState,
        observations: Matrix,
        actions: Indices | Sequence[int],
        rewards: Vector | Sequence[float],
        following: Matrix,
    ) -> AgentState:
        """Return the state with n more transitions in memory; the oldest are forgotten where there are too many.

        Args:
            state: never changed.
            observations: float32 [n, inputs], or [n, team, inputs], or [inputs] of a round.
            actions: int64 [n], or [n, team], each in [0, actions).
            rewards: float32 [n].
            following: float32 as `observations`, what was observed after the actions.
        """
        seen, done = {"observations": observations, "following": following}, {"actions": actions, "rewards": rewards}
        if self.rounds:
            return {**state, "memory": replay.remembered_together(state["memory"], done, seen, self.memory)}
        return {**state, "memory": replay.remembered(state["memory"], {**seen, **done}, self.memory)}

    def targets(self, state: AgentState, rewards: Vector, following: Matrix) -> Vector:
        """Return what actions should be worth, float32 [n]: r + gamma Q'(s', a'), Q' of the target network.

        a' is the best by Q', and where `double` by Q, of the network that learns. Values of a team's agents add up.
        """
        return (rewards + self.gamma * self._later(state, following)).astype(np.float32)

    def learn(self, state: AgentState, g: np.random.Generator) -> AgentState:
        """Return the state after a step on a batch that is drawn; the same state where there is nothing in memory."""
        if not replay.size(state["memory"]):
            return state
        batch = replay.draw(state["memory"], self.batch, g, COMMON if self.rounds else ())
        later = self._later(state, batch["following"])
        later = later[batch[replay.PLACE]] if self.rounds else later
        wanted = torch.from_numpy((batch["rewards"] + self.gamma * later).astype(np.float32))
        with one_thread(), torch.enable_grad():  # a client's training records no gradients of its own
            online = tensors(state["online"], learns=True)
            predicted = forward(online, torch.from_numpy(np.nan_to_num(batch["observations"])))
            predicted = predicted[torch.from_numpy(batch[replay.PLACE])] if self.rounds else predicted
            chosen = predicted.gather(-1, torch.from_numpy(batch["actions"])[..., None])[..., 0]
            if self.team:
                chosen = (chosen * torch.from_numpy(_there(batch["observations"]))).sum(-1)
            network, moments = moved(online, torch.nn.functional.mse_loss(chosen, wanted), state["moments"], self.rate)
        steps = state["steps"] + 1
        target = dict(network) if steps % self.copy_every == 0 else state["target"]
        return {"online": network, "target": target, "moments": moments, "memory": state["memory"], "steps": steps}

    def _later(self, state: AgentState, following: Matrix) -> Vector:
        """Return what the best actions are worth by the target network, float32 [n]: Q'(s', a') of `targets`."""
        values = _values(state["target"], following)
        best = (_values(state["online"], following) if self.double else values).argmax(-1)
        highest: Vector = np.take_along_axis(values, best[..., None], -1)[..., 0]
        return (highest * _there(following)).sum(-1) if self.team else highest


def _there(observations: Matrix) -> NDArray[np.bool_]:
    """Return which agents of teams are there, bool [..., team]."""
    return ~np.isnan(observations[..., 0])


def _values(network: Arrays, observations: Matrix) -> Matrix:
    """Return values, float32 [..., actions]; those of nobody are those of zeros."""
    with one_thread(), torch.no_grad():
        values: Matrix = forward(tensors(network), torch.from_numpy(np.nan_to_num(observations))).numpy()
    return values
