"""FedAIS: train on nodes whose loss changes; ask for other clients' rows more often as the loss falls."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal, TypedDict

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from fedgraft.contracts import Batch, GuidedSampler, Indices, Stage, View
from fedgraft.contracts.ranges import NonNegativeFloat, PositiveInt, PositiveProportion, Proportion
from fedgraft.errors import require
from fedgraft.wire.layouts import Tree

_LEAST: Final = 1e-12
"""Floor where none is asked for: nodes whose loss has settled are drawn last, at random, not by their number."""


class FedAISState(TypedDict):
    """State of a client.

    loss: float32 [n], each example's loss when it was last looked at; change: float32 [n], by how much it had changed;
    looks: how often.
    """

    loss: NDArray[np.float32]
    change: NDArray[np.float32]
    looks: int


@dataclass(frozen=True)
class FedAIS(GuidedSampler[FedAISState]):
    """FedAIS: train on nodes whose loss changes; ask for other clients' rows more often as the loss falls.

    A round begins with a look at the losses of all training nodes; a node is drawn in proportion to how much its loss
    has changed since the client's last round. Rows of other clients' nodes are asked for every so many steps:
    ceil(sqrt(loss of the global model / loss of the first) * first interval).

    Source: Li et al., "FedAIS", AAAI 2025, Algorithm 1, Eq. (7), (8) and (11).
    Differs: probabilities have a floor, so that no node dies. The loss of Eq. (11) is that on the validation split; the
        paper's is on the test set ("test" does that). Without a score yet the interval is the first one, and it never
        grows beyond that where the loss does. What clients send back is averaged by their numbers of training nodes, as
        FedAvg does and all it is compared with; the algorithm's line 7 is a plain mean.

    Args:
        share: of the training nodes that a pass takes, in (0, 1], at least one a step; 0.7 as in the paper.
        batches: steps of a pass, >= 1; 10 as in the paper.
        floor: least probability of a node before they are made to sum to one again, as a share of 1 / n, in [0, 1];
            ours.
        importance: whether nodes are drawn by the change of their losses; else a pass takes a random share of them,
            each once, and no losses are looked at (FedAIS2, with a share of 1: every node). A task that tells states
            of nodes passes over all of them before a round either way.
        unbiased: whether a drawn node weighs 1 / (n p), the paper's analysis; its algorithm does not. Exact for one
            node a step; with more, drawn without replacement, likely nodes count a little too little. Needs a floor.
        interval: the first interval in steps, >= 0; 0 = as many as a round has (the paper's rule).
        adaptive: whether the interval follows the loss.
        least: shortest interval that the loss leads to, in passes, >= 0; 2 as in the paper. Never below one step.
        score_split: whose loss the interval follows.

    State: losses and their changes, float32 [n] each.
    Cost: a scalar to each client of a cohort; rows of nodes at every refresh.
    """

    guidance: ClassVar[tuple[str, ...]] = ("interval",)  # between two refreshes, in steps

    share: PositiveProportion = 0.7
    batches: PositiveInt = 10
    floor: Proportion = 0.1
    importance: bool = True
    unbiased: bool = False
    interval: Annotated[int, Ge(0), "0 = as many steps as a round has"] = 0
    adaptive: bool = True
    least: NonNegativeFloat = 2.0
    score_split: Literal["validation", "test"] = "validation"

    def __post_init__(self) -> None:
        super().__post_init__()
        bounded = self.floor > 0 or not self.unbiased  # else a node that is drawn after all weighs beyond all bounds
        require(bounded, "FedAIS.floor", "> 0 with unbiased", self.floor)

    @property
    def observes(self) -> bool:
        """True where importance needs losses."""
        return self.importance

    def refreshes(self, epochs: int) -> int:
        """At the shortest interval that there can be."""
        shortest = self._bounded(0.0 if self.adaptive else math.inf, self._first(epochs))
        return -(-epochs * self.batches // shortest)

    # --- at the server -----------------------------------------------------------------------------------------------

    def guide(
        self, state: Tree, view: View, cohort: Sequence[int], g: np.random.Generator
    ) -> Mapping[int, Mapping[str, float]]:
        """The interval, the same for everybody (Eq. 11)."""
        tau_0 = self._first(view.epochs)
        tau = float(tau_0)
        if self.adaptive and self.score_split in view.losses:
            first, last = view.losses[self.score_split]
            tau = tau_0 * math.sqrt(max(0.0, last / first)) if first > 0 else tau
        interval = float(self._bounded(tau, tau_0))
        return {client: {"interval": interval} for client in cohort}

    # --- at a client -------------------------------------------------------------------------------------------------

    def init(self, examples: int) -> FedAISState:
        """Nothing has been looked at."""
        nothing = np.zeros(examples, np.float32)
        return {"loss": nothing, "change": nothing, "looks": 0}

    def observe(self, state: FedAISState, losses: NDArray[np.float32]) -> FedAISState:
        """Note how much every loss, float32 [examples], has changed (Eq. 8); by nothing at the first look."""
        change = np.abs(losses - state["loss"]) if state["looks"] else np.zeros_like(losses)
        return {"loss": losses, "change": change, "looks": state["looks"] + 1}

    def draw(self, state: FedAISState, block: Indices, stage: Stage, g: np.random.Generator) -> Sequence[Batch]:
        """The steps of a pass over a block, int64 [n]; nothing of an empty one."""
        if not len(block):
            return []
        tau = max(1, round(stage.guidance.get("interval", 1.0)))
        refresh = [(stage.epoch * self.batches + step) % tau == 0 for step in range(self.batches)]
        if not self.importance:
            taken = g.permutation(block)[: max(1, round(self.share * len(block)))]
            parts = np.array_split(taken, min(self.batches, len(taken)))
            return [Batch(np.sort(part), refresh=asks) for part, asks in zip(parts, refresh, strict=False)]
        probability = self._probability(state, block)
        size = max(1, round(self.share * len(block) / self.batches))
        draws = []
        for asks in refresh:
            # The smallest of exponential times with these rates: draws one by one without replacement.
            drawn = np.sort(np.argsort(g.exponential(size=len(block)) / probability, kind="stable")[:size])
            weights = (1.0 / (len(block) * probability[drawn])).astype(np.float32) if self.unbiased else None
            draws.append(Batch(block[drawn], weights, asks))
        return draws

    def _first(self, epochs: int) -> int:
        return self.interval or epochs * self.batches

    def _bounded(self, tau: float, tau_0: int) -> int:
        """A whole number of steps, not below the least interval, not above the first."""
        least = max(1, math.ceil(self.least * self.batches)) if self.adaptive else 1
        return max(1, min(tau_0, max(least, math.ceil(min(tau, tau_0)))))

    def _probability(self, state: FedAISState, block: Indices) -> NDArray[np.float64]:
        """Return the probability of each example of a block; equal where nothing changed."""
        change = state["change"][block].astype(np.float64)
        total = change.sum()
        if total <= 0 or not math.isfinite(total):
            return np.full(len(block), 1.0 / len(block))
        raised = np.maximum(change / total, max(self.floor, _LEAST) / len(block))
        probability: NDArray[np.float64] = raised / raised.sum()
        return probability
