"""Deep deterministic policy gradient: a small agent for actions in a box, all of whose state is a tree of arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts.ranges import (
    Checked,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    PositiveProportion,
    ProperFraction,
)
from fedgraft.errors import require
from fedgraft.methods.rl import replay
from fedgraft.methods.rl.networks import Moments, Vector, drawn, followed, layer, moved, one_thread, seeded, tensors
from fedgraft.wire.layouts import Arrays


class AgentState(TypedDict):
    """State of an agent: its networks, their moments, its memory.

    actor, critic, actor_target, critic_target: {"0.weight": [outputs, inputs], "0.bias": [outputs], "1.weight" ...} of
    networks of three layers; actor_moments, critic_moments: {parameter: Adam's moments}, empty before the first step;
    memory: "observations" and "following" float32 [T, inputs], "actions" float32 [T, outputs], "rewards" float32 [T].
    """

    actor: Arrays
    critic: Arrays
    actor_target: Arrays
    critic_target: Arrays
    actor_moments: Moments
    critic_moments: Moments
    memory: Arrays


@dataclass(frozen=True)
class DDPG(Checked):
    """Deep deterministic policy gradient: a policy and its value, learnt from a replay memory.

    Both are networks of two hidden layers with ReLU; the value sees the action from its second layer on, the policy
    ends in tanh. Gradients of one go to it alone. What this computes does not depend on how many threads torch has.

    Source: Lillicrap et al., "Continuous control with deep reinforcement learning", ICLR 2016, Algorithm 1; sizes and
        rates as its section 7.
    Differs: Gaussian noise, not an Ornstein-Uhlenbeck process; no batch normalisation; the last layers are drawn like
        the others; episodes never end.

    Args:
        inputs: length of an observation, >= 1.
        outputs: length of an action, >= 1; each of its entries is in [-1, 1].
        masked: whether the last `outputs` entries of an observation are 1 for the parts of an action that take effect
            and 0 for others; the policy is 0 there.
        hidden: widths of the two hidden layers, >= 1.
        actor_rate: of Adam, > 0.
        critic_rate: of Adam, > 0.
        weight_decay: of the critic, an L2 penalty, >= 0.
        gamma: discount of what follows, in [0, 1).
        tau: share by which targets follow at each step, in (0, 1].
        batch: transitions of a step, drawn with replacement, >= 1.
        memory: transitions kept, the newest, >= 1.
    """

    inputs: PositiveInt
    outputs: PositiveInt
    masked: bool = False
    hidden: tuple[PositiveInt, PositiveInt] = (400, 300)
    actor_rate: PositiveFloat = 1e-4
    critic_rate: PositiveFloat = 1e-3
    weight_decay: NonNegativeFloat = 1e-2
    gamma: ProperFraction = 0.99
    tau: PositiveProportion = 0.001
    batch: PositiveInt = 64
    memory: PositiveInt = 1_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.inputs >= self.outputs or not self.masked
        require(fits, "DDPG.inputs", f">= {self.outputs}", self.inputs)

    def init(self, g: np.random.Generator) -> AgentState:
        """Networks drawn at random, targets equal to them, nothing in memory."""
        torch_g = seeded(g)
        first, second = self.hidden
        actor = drawn(((self.inputs, first), (first, second), (second, self.outputs)), torch_g)
        critic = drawn(((self.inputs, first), (first + self.outputs, second), (second, 1)), torch_g)
        shapes = {"observations": (self.inputs,), "actions": (self.outputs,), "following": (self.inputs,)}
        return {
            "actor": actor,
            "critic": critic,
            "actor_target": dict(actor),
            "critic_target": dict(critic),
            "actor_moments": {},
            "critic_moments": {},
            "memory": replay.empty({**shapes, "rewards": ()}),
        }

    def act(
        self, state: AgentState, observation: Vector, g: np.random.Generator | None = None, noise: float = 0.0
    ) -> Vector:
        """The policy's action, float32 [outputs], with Gaussian noise of this standard deviation, clipped."""
        with one_thread(), torch.no_grad():
            best = self._policy(tensors(state["actor"]), torch.from_numpy(observation)[None])[0].numpy()
        if g is None:
            return best
        return self._effective(np.clip(best + noise * g.standard_normal(self.outputs), -1, 1), observation)

    def any_action(self, observation: Vector, g: np.random.Generator) -> Vector:
        """An action drawn uniformly, float32 [outputs]."""
        return self._effective(g.uniform(-1, 1, self.outputs), observation)

    def remember(
        self, state: AgentState, observation: Vector, action: Vector, reward: float, following: Vector
    ) -> AgentState:
        """State with one more transition, of float32 [inputs] and [outputs], in memory; of too many the oldest goes."""
        new = {"observations": observation, "actions": action, "rewards": reward, "following": following}
        rows = {name: np.asarray(each, np.float32)[None] for name, each in new.items()}
        return {**state, "memory": replay.remembered(state["memory"], rows, self.memory)}

    def targets(self, state: AgentState, rewards: Vector, following: NDArray[np.float32]) -> Vector:
        """Return what the critic should say, float32 [batch]: y = r + gamma Q'(s', mu'(s'))."""
        with one_thread(), torch.no_grad():
            after, actor = torch.from_numpy(following), tensors(state["actor_target"])
            later = self._value(tensors(state["critic_target"]), after, self._policy(actor, after))
            value: Vector = (torch.from_numpy(rewards) + self.gamma * later).numpy()
        return value

    def learn(self, state: AgentState, g: np.random.Generator) -> AgentState:
        """State after a step of the critic, one of the actor, and one of both targets; needs a transition."""
        batch = replay.draw(state["memory"], self.batch, g)
        wanted = self.targets(state, batch["rewards"], batch["following"])
        with one_thread():
            seen, done = torch.from_numpy(batch["observations"]), torch.from_numpy(batch["actions"])
            critic = tensors(state["critic"], learns=True)
            error = torch.nn.functional.mse_loss(self._value(critic, seen, done), torch.from_numpy(wanted))
            moved_critic, critic_moments = moved(
                critic, error, state["critic_moments"], self.critic_rate, self.weight_decay
            )
            actor = tensors(state["actor"], learns=True)
            value = self._value(tensors(moved_critic), seen, self._policy(actor, seen)).mean()
            moved_actor, actor_moments = moved(actor, -value, state["actor_moments"], self.actor_rate, 0.0)
        return {
            "actor": moved_actor,
            "critic": moved_critic,
            "actor_target": followed(state["actor_target"], moved_actor, self.tau),
            "critic_target": followed(state["critic_target"], moved_critic, self.tau),
            "actor_moments": actor_moments,
            "critic_moments": critic_moments,
            "memory": state["memory"],
        }

    def _policy(self, parameters: Mapping[str, Tensor], observations: Tensor) -> Tensor:
        """Return actions [batch, outputs]."""
        hidden = torch.relu(layer(parameters, 0, observations))
        action = torch.tanh(layer(parameters, 2, torch.relu(layer(parameters, 1, hidden))))
        return action * observations[:, -self.outputs :] if self.masked else action

    def _value(self, parameters: Mapping[str, Tensor], observations: Tensor, actions: Tensor) -> Tensor:
        """Return the critic's values, float32 [batch]."""
        hidden = torch.cat([torch.relu(layer(parameters, 0, observations)), actions], 1)
        return layer(parameters, 2, torch.relu(layer(parameters, 1, hidden)))[:, 0]

    def _effective(self, action: NDArray[np.float64], observation: Vector) -> Vector:
        effective = action.astype(np.float32)
        return effective * observation[-self.outputs :] if self.masked else effective
