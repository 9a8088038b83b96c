"""FedGraph: an agent at the server learns how many neighbours of a node take part, for each client and layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self, TypedDict, cast

import numpy as np
import torch
from annotated_types import Interval
from numpy.typing import NDArray

from fedgraft.contracts import Batch, GuidedSampler, Indices, Outcome, Stage, TaskFacts, View
from fedgraft.contracts.ranges import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PositiveProportion,
    ProperFraction,
)
from fedgraft.errors import require
from fedgraft.methods.rl.ddpg import DDPG, AgentState
from fedgraft.methods.rl.networks import Vector, one_thread
from fedgraft.wire.layouts import Arrays, Tree


class Waiting(TypedDict):
    """A round whose transition lacks what was seen in the next one; arrays as in `AgentState`'s memory."""

    observation: Vector
    action: Vector
    reward: float


class FedGraphState(TypedDict):
    """State of the half at the server, after the first round.

    agent: see `ddpg.AgentState`; seed: where the sketches' parts come from; sketches: float32 [N, sketch], of the last
    update of each client, zero before; rounds: so many; score: the last, None before; waiting: None before a score.
    """

    agent: AgentState
    seed: int
    sketches: NDArray[np.float32]
    rounds: int
    score: float | None
    waiting: Waiting | None


@dataclass(frozen=True)
class FedGraph(GuidedSampler[None]):
    """FedGraph: an agent at the server learns how many neighbours of a node take part, for each client and layer.

    The agent (DDPG) sees where clients' models lie to each other. It is rewarded by the score of the model that comes
    of its choice. Clients train on all examples in random parts of equal size.

    Source: Chen et al., "FedGraph: Federated Graph Learning with Intelligent Sampling", TPDS 2021, and its published
        code where the paper gives no value.
    Differs:
        - The score of the reward is validation's; the paper's is the test set's.
        - The agent learns while the one run goes on; the code trains it in a run before. Reaching the target ends
          nothing.
        - It sees a PCA of each client's last update, cut to `components`, and not of all local models in as many
          components as there are clients; updates are first sketched (Charikar et al., "Finding frequent items in data
          streams", ICALP 2002), as the server could not keep them all. Signs are fixed and the spread is made 1, ours.
          The code takes its PCA when clients have loaded the merged model, so of equal rows.
        - Not all clients train: the agent also sees who does, and the others' part of an action is 0. A transition is
          complete only when the next cohort is known.
        - An action is in [-1, 1], cut into `most` equal parts for 1..most neighbours; the code's is a real number in
          [-most, most] with a policy in [0, most].
        - The first rounds are drawn uniformly, which the code announces; it takes the undrilled policy's, with noise.
        - The paper's reward also counts time, with a weight that we did not find; the code leaves it out.
        - Rows of other clients are asked for as the paper's baselines in FedAIS do, before every step.

    Args:
        layers: convolutions of the model, two in both papers; 0 = as many as it has.
        batches: steps of a pass, >= 1; 10 as in FedAIS.
        refresh: whether a client asks for other clients' rows anew before every step, if its task has any; else never.
        most: most neighbours of a node in a layer, >= 1; 25 as in the code.
        target: score that is hoped for, in [-100, 100]; 0.8 as in the code for PubMed (Cora: 0.89, CiteSeer: 0.72,
            Reddit: 0.99).
        base: of the reward, in (1, 1000]; 64 as in the code.
        seconds_weight: what a simulated second of the slowest client takes off the reward, >= 0; 0 as in the code.
        components: of the PCA, >= 1; ours.
        sketch: numbers that stand for an update, >= 1; ours.
        start: rounds that are drawn uniformly and not learnt from yet, >= 0; 32 as in the code.
        noise: standard deviation of what is added to an action, as a share of `most`, >= 0; 0.1 as in the code.
        steps: of learning after each round, >= 1; 1 as in the code.
        batch: transitions of a step, >= 1; 32 as in the code.
        memory: transitions kept, >= 1; ours.
        gamma: discount, in [0, 1); 0.99 as in the code.
        tau: share by which the agent's targets follow, in (0, 1]; 0.005 as in the code.
        hidden: widths of the agent's networks, as in the code.
        actor_rate: > 0; as in the code.
        critic_rate: > 0; as in the code.

    State: none at clients; at the server `FedGraphState`: eight times the parameters of the agent's two networks, and
        per round 2 N (components + layers) + N layers + 1 numbers.
    Needs: updates; the score after every round, else the last one counts.
    Cost: `layers` scalars to each client of a cohort; rows of nodes for every step.
    """

    layers: NonNegativeInt = 0
    batches: PositiveInt = 10
    refresh: bool = True
    most: PositiveInt = 25
    target: Annotated[float, Interval(ge=-100, le=100)] = 0.8
    base: Annotated[float, Interval(gt=1, le=1000)] = 64.0
    seconds_weight: NonNegativeFloat = 0.0
    components: PositiveInt = 4
    sketch: PositiveInt = 256
    start: NonNegativeInt = 32
    noise: NonNegativeFloat = 0.1
    steps: PositiveInt = 1
    batch: PositiveInt = 32
    memory: PositiveInt = 10_000
    gamma: ProperFraction = 0.99
    tau: PositiveProportion = 0.005
    hidden: tuple[PositiveInt, PositiveInt] = (400, 300)
    actor_rate: PositiveFloat = 1e-4
    critic_rate: PositiveFloat = 1e-3

    reports: ClassVar[frozenset[str]] = frozenset({"update"})

    @property
    def guidance(self) -> tuple[str, ...]:
        """A number of neighbours for each layer."""
        return tuple(f"neighbours_{layer}" for layer in range(self.layers))

    def fitted(self, facts: TaskFacts) -> Self:
        """With the model's layers; with one where the task draws no neighbours, and so has no use for the numbers."""
        if layers := facts.layers:
            require(self.layers in (0, layers), "FedGraph.layers", f"{layers} as the model has, or 0", self.layers)
        return replace(self, layers=layers or self.layers or 1)

    def refreshes(self, epochs: int) -> int:
        """Once a step, if at all."""
        return epochs * self.batches if self.refresh else 0

    # --- at a client -------------------------------------------------------------------------------------------------

    def init(self, examples: int) -> None:
        """Return the first state: nothing to remember."""

    def draw(self, state: None, block: Indices, stage: Stage, g: np.random.Generator) -> Sequence[Batch]:
        """The block, int64 [n], in nearly equal random parts, with the numbers told; nothing of an empty one."""
        if not len(block):
            return []
        fanouts = [stage.guidance[name] for name in self.guidance if name in stage.guidance]
        neighbours = tuple(max(1, round(number)) for number in fanouts)
        parts = np.array_split(g.permutation(block), min(self.batches, len(block)))
        return [Batch(np.sort(part), refresh=self.refresh, neighbours=neighbours) for part in parts]

    # --- at the server -----------------------------------------------------------------------------------------------

    def guide(
        self, state: Tree, view: View, cohort: Sequence[int], g: np.random.Generator
    ) -> Mapping[int, Mapping[str, float]]:
        """The numbers of neighbours that the agent chooses."""
        agent, known = self.agent(view.clients), cast(FedGraphState | None, state)
        seen = self._observation(known, view.clients, cohort)
        if known is None or known["rounds"] < self.start:
            action = agent.any_action(seen, g)
        else:
            action = agent.act(known["agent"], seen, g, 2 * self.noise)  # a box of length 2 holds `most` numbers
        numbers = self.numbers(action).reshape(view.clients, self.layers)
        return {client: dict(zip(self.guidance, numbers[client].tolist(), strict=True)) for client in cohort}

    def learn(self, state: Tree, view: View, outcome: Outcome, g: np.random.Generator) -> Tree:
        """Return what came of the last round completes the transition of the one before; then the agent learns."""
        agent, known = self.agent(view.clients), cast(FedGraphState | None, state)
        known = self._first(agent, view.clients, g) if known is None else known
        remembered, rounds = known["agent"], known["rounds"] + 1
        seen = self._observation(known, view.clients, list(outcome.guidance))
        if (before := known["waiting"]) is not None:
            remembered = agent.remember(remembered, before["observation"], before["action"], before["reward"], seen)
        fresh = outcome.score is not None and np.isfinite(outcome.score)
        score = outcome.score if fresh else known["score"]
        waiting: Waiting | None = None
        if score is not None:
            reward = self.reward(score, view.better, max(outcome.seconds.values(), default=0.0))
            waiting = {"observation": seen, "action": self._action(outcome.guidance, view.clients), "reward": reward}
        if rounds >= self.start and len(remembered["memory"]["rewards"]):
            for _ in range(self.steps):
                remembered = agent.learn(remembered, g)
        after: FedGraphState = {
            "agent": remembered,
            "seed": known["seed"],
            "sketches": self._sketched(known, outcome.updates),
            "rounds": rounds,
            "score": score,
            "waiting": waiting,
        }
        return cast(dict[str, Any], after)

    def agent(self, clients: int) -> DDPG:
        """The agent for so many clients."""
        outputs, names = (
            clients * self.layers,
            ("hidden", "actor_rate", "critic_rate", "gamma", "tau", "batch", "memory"),
        )
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        return DDPG(clients * self.components + outputs, outputs, masked=True, **options)

    def reward(self, score: float, better: str, seconds: float) -> float:
        """64^(score - target) - 2, less what the time costs."""
        gain = score - self.target if better == "higher" else self.target - score
        return float(self.base**gain - 2 - self.seconds_weight * seconds)

    def numbers(self, action: Vector) -> NDArray[np.int64]:
        """Return how many neighbours an action means: [-1, 1] in `most` equal parts."""
        part = np.floor((action.astype(np.float64) + 1) / 2 * self.most)
        return 1 + np.clip(part, 0, self.most - 1).astype(np.int64)

    def _first(self, agent: DDPG, clients: int, g: np.random.Generator) -> FedGraphState:
        return {
            "agent": agent.init(g),
            "seed": int(g.integers(2**63)),
            "sketches": np.zeros((clients, self.sketch), np.float32),
            "rounds": 0,
            "score": None,
            "waiting": None,
        }

    def _action(self, guidance: Mapping[int, Mapping[str, float]], clients: int) -> Vector:
        """Return what was told, each number as the middle of its part of [-1, 1]; 0 for those who were told nothing."""
        action = np.zeros((clients, self.layers), np.float32)
        for client, numbers in guidance.items():
            action[client] = [(2 * numbers[name] - 1) / self.most - 1 for name in self.guidance]
        return action.ravel()

    def _observation(self, state: FedGraphState | None, clients: int, cohort: Sequence[int]) -> Vector:
        """Coordinates of all clients, and a 1 for each part of an action that will take effect."""
        takes_part = np.zeros((clients, self.layers), np.float32)
        takes_part[list(cohort)] = 1
        coordinates = np.zeros((clients, self.components), np.float32)
        if state is not None:
            coordinates = principal(state["sketches"], self.components)
        return np.concatenate([coordinates.ravel(), takes_part.ravel()])

    def _sketched(self, state: FedGraphState, updates: Mapping[int, Arrays]) -> NDArray[np.float32]:
        """Sketches with those of new updates: each parameter, with a random sign, is added to a random place."""
        sketches = state["sketches"].copy()
        for client, update in updates.items():
            flat = np.concatenate([array.ravel() for array in update.values() if array.dtype.kind == "f"])
            places = np.random.default_rng(state["seed"])  # the same for every client and round
            place, sign = places.integers(self.sketch, size=len(flat)), places.integers(2, size=len(flat)) * 2 - 1
            sketches[client] = np.bincount(place, sign * flat, self.sketch)
        return sketches


def principal(rows: NDArray[np.float32], components: int) -> NDArray[np.float32]:
    """Coordinates of rows along their first principal components, float32 [rows, components], of mean square 1.

    In each the largest coordinate is positive; what there is no component for is 0.
    """
    with one_thread():
        centred = torch.from_numpy(rows).double()
        left, length, _ = torch.linalg.svd(centred - centred.mean(0), full_matrices=False)
    projected = (left * length)[:, :components].numpy()
    sign = np.sign(projected[np.abs(projected).argmax(0), np.arange(projected.shape[1])])
    coordinates = np.zeros((len(rows), components), np.float32)
    spread = float(np.sqrt((projected**2).mean()))
    if spread > 0:
        coordinates[:, : projected.shape[1]] = sign * projected / spread
    return coordinates
