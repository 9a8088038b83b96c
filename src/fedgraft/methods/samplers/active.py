"""Active: an agent at each client learns which training examples are worth a step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, TypedDict, cast

import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from fedgraft.contracts import (
    ActiveSampler,
    Batch,
    GuidedSampler,
    Indices,
    Observations,
    Outcome,
    Stage,
    View,
)
from fedgraft.contracts.ranges import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    PositiveProportion,
    ProperFraction,
    Proportion,
)
from fedgraft.methods.rl.q_learning import AgentState, QLearning
from fedgraft.wire.layouts import Arrays, Tree

SCORES = ("agent", "least_confidence", "entropy", "margin")
GAIN = "gain"
"""Name of the scalar that a client is told: by how much the global model's score rose in the last round."""
SKIP, TRAIN = 0, 1
FEATURES = 3
"""What an agent sees of an example: centrality, entropy, density."""


class ActiveState(TypedDict):
    """State at a client.

    agent: see `q_learning.AgentState`, None before the first look; features: float32 [examples, 3], as the agent last
    saw them; losses: float32 [examples], at the last look; scores: float32 [examples], active scores; trained: bool
    [examples], who took part since the last look; looks: at all examples, so far.
    """

    agent: AgentState | None
    features: NDArray[np.float32]
    losses: NDArray[np.float32]
    scores: NDArray[np.float32]
    trained: NDArray[np.bool_]
    looks: int


class ServerState(TypedDict):
    """State of the half at the server: the last score of the global model, and by how much it rose."""

    score: float
    gain: float


@dataclass(frozen=True)
class Active(
    ActiveSampler[ActiveState],
    GuidedSampler[ActiveState],
):
    """Active: an agent at each client learns which training examples are worth a step.

    Before every pass the agent sees of each training example its centrality, the entropy of the model's class
    probabilities, and the density of its embedding: its mean cosine similarity to others'. Each is standardised over
    the client's examples. The active score is Q(s, train) - Q(s, skip) + prior * entropy / log(classes). The `keep`
    share of examples with the highest scores takes part in the pass. Then every example gets the reward

        base^(gain of the global model's score in the last round) + accuracy on the client's training examples
            + by how much its own loss fell

    and the agent, a deep Q-network, makes steps on its replay memory. Quantiles of the scores describe the client to a
    selector.

    Source: Wang et al., "RAFHGL", AAAI 2025, "Active Learning Agent on Local Clients", Eq. (1).
    Differs:
        - The paper does not say how scores come from the Q-network, nor what is remembered of examples that were
          skipped; here they are differences of its two values, and skipped examples are remembered as skipped.
        - As printed, all examples of a batch get the same reward, which tells the agent nothing of one against another;
          the last term is ours (`credit`), and so is the prior: an agent that has learnt nothing ranks at random, and
          without it scores of different clients cannot be compared.
        - Density is taken over at most `sample` others, for it is not said.
        - The reward's gain is of the score that chooses models, on validation.

    Args:
        keep: share of the examples that takes part in a pass, in (0, 1]; 0.75 is ours.
        batches: steps of a pass, >= 1.
        score: "agent"; or "least_confidence", "entropy" or "margin", scores that learn nothing (the paper's LC, E, MS).
        quantiles: how many quantiles of the scores are reported, from the least to the largest, >= 2 (paper: 5).
        credit: "example", the reward above; or "batch", without its last term, as printed.
        prior: what the entropy, as a share of its largest value, weighs in a score, >= 0; 0 as printed.
        base: of the reward, B_L, in (1, 1000]; 64.
        explore: share of a pass's examples that is drawn at random at first, in [0, 1]; it halves every `halving`
            looks at them.
        halving: > 0; 30 is ours.
        hidden: width of the agent's hidden layer, >= 1 (paper: 256).
        rate: of the agent's Adam, > 0 (paper: 0.001).
        gamma: discount, in [0, 1).
        steps: of the agent after a pass, >= 1; 1 in the paper.
        batch: transitions of a step of the agent, >= 1.
        memory: transitions kept, >= 1.
        copy_every: steps of the agent until its target network follows, >= 1.
        sample: others that density is taken over, >= 1.
        shared: whether clients share the agent's network, which is then averaged as the model is (the paper's agg).

    State: `ActiveState` at a client; `ServerState` at the server.
    Needs: a task that tells what a model makes of examples; the score after every round, else the last one counts.
    Cost: one scalar to each client of a cohort, `quantiles` + 1 scalars back if the selector asks for them.
        Where the agent is shared its network, too, down and up.
    """

    learns_from_scores: ClassVar[bool] = True

    keep: PositiveProportion = 0.75
    batches: PositiveInt = 1
    score: Literal["agent", "least_confidence", "entropy", "margin"] = "agent"
    quantiles: Annotated[int, Ge(2)] = 5
    credit: Literal["example", "batch"] = "example"
    prior: NonNegativeFloat = 1.0
    base: Annotated[float, Interval(gt=1, le=1000)] = 64.0
    explore: Proportion = 0.2
    halving: PositiveFloat = 30.0
    hidden: PositiveInt = 256
    rate: PositiveFloat = 1e-3
    gamma: ProperFraction = 0.9
    steps: PositiveInt = 1
    batch: PositiveInt = 64
    memory: PositiveInt = 10_000
    copy_every: PositiveInt = 10
    sample: PositiveInt = 512
    shared: bool = False

    # --- at a client -------------------------------------------------------------------------------------------------

    def init(self, examples: int) -> ActiveState:
        """No agent yet; nobody has been looked at."""
        return {
            "agent": None,
            "features": np.zeros((examples, FEATURES), np.float32),
            "losses": np.zeros(examples, np.float32),
            "scores": np.zeros(examples, np.float32),
            "trained": np.zeros(examples, bool),
            "looks": 0,
        }

    def watch(self, state: ActiveState, seen: Observations, stage: Stage, g: np.random.Generator) -> ActiveState:
        """Reward the last pass, learn from it, and score all examples anew."""
        if not len(seen.losses):
            return state
        if self.score != "agent":
            return {**state, "scores": uncertainty(self.score, seen.probabilities)}
        features, agent = self.features(seen, g), state["agent"]
        if agent is None:
            agent = self.agent.init(g)
        elif stage.epoch:  # a pass was made since the last look
            rewards = self.rewards(stage.guidance, seen, state["losses"])
            actions = np.where(state["trained"], TRAIN, SKIP)
            agent = self.agent.remember(agent, state["features"], actions, rewards, features)
            for _ in range(self.steps):
                agent = self.agent.learn(agent, g)
        values = self.agent.values(agent, features)
        return {
            "agent": agent,
            "features": features,
            "losses": seen.losses,
            "scores": values[:, TRAIN] - values[:, SKIP] + np.float32(self.prior) * uncertain(seen.probabilities),
            "trained": np.zeros_like(state["trained"]),
            "looks": state["looks"] + 1,
        }

    def draw(self, state: ActiveState, block: Indices, stage: Stage, g: np.random.Generator) -> Sequence[Batch]:
        """The block's examples, int64 [n], with the highest scores, and a share at random, in nearly equal parts."""
        if not len(block):
            return []
        wanted = max(1, round(self.keep * len(block)))
        order = block[np.argsort(-state["scores"][block], kind="stable")]
        share = self.explore * 0.5 ** (state["looks"] / self.halving) if self.score == "agent" else 0.0
        best = order[: wanted - round(share * wanted)]
        rest = g.permutation(order[len(best) :])[: wanted - len(best)] if len(best) < wanted else order[:0]
        chosen = np.concatenate([best, rest])
        parts = [chosen] if self.batches == 1 else np.array_split(g.permutation(chosen), min(self.batches, wanted))
        return [Batch(np.sort(part)) for part in parts]

    def update(self, state: ActiveState, draw: Batch, losses: NDArray[np.float32]) -> ActiveState:
        """Note which examples, bool [examples], took part in the pass."""
        trained = state["trained"].copy()
        trained[draw.examples] = True
        return {**state, "trained": trained}

    def features(self, seen: Observations, g: np.random.Generator) -> NDArray[np.float32]:
        """Return centrality, entropy and density, each standardised, float32 [examples, 3]."""
        columns = [seen.centrality, entropies(seen.probabilities), densities(seen.hidden, self.sample, g)]
        table = np.stack(columns, 1).astype(np.float64)
        spread = table.std(0)
        scaled: NDArray[np.float32] = ((table - table.mean(0)) / np.where(spread > 0, spread, 1)).astype(np.float32)
        return scaled

    def rewards(
        self, guidance: Mapping[str, float], seen: Observations, before: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return base^gain + accuracy, Eq. (1), and by how much each loss fell, float32 [examples].

        Falls are cut to [-1, 1]. `before` are the losses before the pass, float32 [examples].
        """
        same = self.base ** guidance.get(GAIN, 0.0) + seen.correct.mean()
        own = np.clip(before - seen.losses, -1, 1) if self.credit == "example" else np.zeros(len(before))
        return np.asarray(same + own, np.float32)

    @cached_property
    def agent(self) -> QLearning:
        """The agent of every client."""
        return QLearning.of(self, FEATURES, actions=2, hidden=(self.hidden,))

    def first(self, g: np.random.Generator) -> Arrays:
        """Return the network of an agent, if it is shared."""
        return self.agent.init(g)["online"] if self.shared and self.score == "agent" else {}

    def take(self, state: ActiveState, shared: Arrays) -> ActiveState:
        """With the network that the server sent; what is remembered stays, and so do Adam's moments."""
        agent = state["agent"] or {**self.agent.init(np.random.default_rng(0)), "target": dict(shared)}
        return {**state, "agent": {**agent, "online": dict(shared)}}

    def give(self, state: ActiveState) -> Arrays:
        """Return the network as the client has it now."""
        assert state["agent"] is not None, "what was sent was taken"
        return state["agent"]["online"]

    @property
    def reported(self) -> frozenset[str]:
        """The quantiles of the scores, "score_0" the least, and their mean, "score_mean"."""
        return frozenset({"score_mean", *(f"score_{k}" for k in range(self.quantiles))})

    def report(self, state: ActiveState) -> dict[str, float]:
        """Quantiles and mean of the scores; 0 of no examples."""
        scores = state["scores"] if len(state["scores"]) else np.zeros(1, np.float32)
        quantiles = np.quantile(scores.astype(np.float64), np.linspace(0, 1, self.quantiles)).tolist()
        return {**{f"score_{k}": value for k, value in enumerate(quantiles)}, "score_mean": float(scores.mean())}

    # --- at the server -----------------------------------------------------------------------------------------------

    @property
    def guidance(self) -> tuple[str, ...]:
        """The gain, where an agent is rewarded by it."""
        return (GAIN,) if self.score == "agent" else ()

    def guide(
        self, state: Tree, view: View, cohort: Sequence[int], g: np.random.Generator
    ) -> Mapping[int, Mapping[str, float]]:
        """The last gain, for everybody."""
        gain = cast(ServerState, state)["gain"] if state is not None else 0.0
        return {client: dict.fromkeys(self.guidance, gain) for client in cohort}

    def learn(self, state: Tree, view: View, outcome: Outcome, g: np.random.Generator) -> Tree:
        """Note the score and by how much it rose."""
        if outcome.score is None or not np.isfinite(outcome.score):
            return state
        gain = 0.0
        if state is not None:
            rise = outcome.score - cast(ServerState, state)["score"]
            gain = rise if view.better == "higher" else -rise
        after: ServerState = {"score": outcome.score, "gain": float(np.clip(gain, -1, 1))}
        return cast(dict[str, Any], after)


def uncertainty(score: str, probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return how uncertain a model is of each example, float32 [examples], more = less certain.

    "least_confidence": 1 - the largest probability; "entropy"; "margin": minus the distance of the two largest.
    """
    if score == "entropy":
        return entropies(probabilities)
    if score == "least_confidence":
        return np.asarray(1 - probabilities.max(1), np.float32)
    two = np.sort(probabilities, 1)[:, -2:]
    return (two[:, 0] - two[:, -1]).astype(np.float32)


def entropies(probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the entropy of each row, in nats, float32 [rows]."""
    return np.asarray(-(probabilities * np.log(np.maximum(probabilities, 1e-12))).sum(1), np.float32)


def uncertain(probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the entropy of each row as a share of its largest value, in [0, 1], float32 [rows]."""
    return np.asarray(entropies(probabilities) / np.log(max(2, probabilities.shape[1])), np.float32)


def densities(hidden: NDArray[np.float32], sample: int, g: np.random.Generator) -> NDArray[np.float32]:
    """Return each row's mean cosine similarity to at most so many of all rows, float32 [rows]."""
    length = np.linalg.norm(hidden, axis=1, keepdims=True)
    unit = hidden / np.where(length > 0, length, 1)
    among = unit if len(unit) <= sample else unit[g.choice(len(unit), sample, replace=False)]
    return np.asarray(unit @ among.mean(0), np.float32)
