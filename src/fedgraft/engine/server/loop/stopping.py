"""The terms of a run: when it ends, how it is scored, and what is told of each round."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from fedgraft.contracts import Outcome, randomness
from fedgraft.contracts.ranges import PositiveInt, ProperFraction, check_ranges
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import require

PROBE, SCORING = "probe: ", "scoring: "
"""What a reason begins with where a client failed at something else than to train."""


@dataclass(frozen=True)
class Stopping:
    """Limits of a run; the first that is reached ends it.

    Args:
        rounds: after so many rounds, >= 1.
        bytes: before the round that could pass so many bytes; 0 = no limit.
        seconds: after so many simulated seconds; 0 = no limit.
        patience: after so many evaluations without a better validation score; 0 = never.
    """

    rounds: int = 60
    bytes: int = 0
    seconds: float = 0.0
    patience: int = 0

    def __post_init__(self) -> None:
        require(self.rounds >= 1, "rounds", ">= 1", self.rounds)
        require(self.bytes >= 0, "budget.bytes", ">= 0 (0 = no limit)", self.bytes)
        require(self.seconds >= 0, "budget.seconds", ">= 0 (0 = no limit)", self.seconds)
        require(self.patience >= 0, "patience", ">= 0 (0 = never)", self.patience)

    def progress(self, state: RunState) -> float:
        """Return the share of the run that is over, in [0, 1], by the nearest limit; 0 before the first round."""
        shares = [state.round / max(1, self.rounds - 1)]
        if self.bytes:
            shares.append((state.bytes["down"] + state.bytes["up"]) / self.bytes)
        if self.seconds:
            shares.append(state.simulated_seconds / self.seconds)
        return min(1.0, max(shares))

    def reached(self, state: RunState) -> str:
        """Return the name of the limit that ends the run now; "" for none."""
        if state.round >= self.rounds:
            return "rounds"
        if self.seconds and state.simulated_seconds >= self.seconds:
            return "seconds"
        return "patience" if self.patience and self._is_stuck(state) else ""

    def _is_stuck(self, state: RunState) -> bool:
        """Return whether so many scores have come after the best; of a long curve only the end is read."""
        best = state.best.get("round", 0)
        later = takewhile(lambda point: point["round"] > best, reversed(state.curve))
        scored = (point for point in later if "lacking" not in point)
        return len(list(islice(scored, self.patience))) == self.patience


@dataclass(frozen=True)
class Evaluation:
    """Options of scoring the global model.

    Args:
        metric: what a model is chosen by, a run stopped, and all told as: of classes "accuracy", "macro_f1",
            "balanced_accuracy", "auc", "average_precision", "f1" (of the rarer of two classes, at the threshold that is
            best on validation) or "loss"; of numbers "rmse", "mae" or "r2"; of links "auc", "average_precision" or
            "hits_at_k" with the number of pairs for "k". "" (default) = by the data: average precision of a user's own
            tables, and of `amlsim`, with two classes of which one is rarer than 20 %, else the task's usual one.
        at: "server": on held-out data that the server has, outside the protocol and free, as the papers assume; or
            "clients": the model is sent to every client, which scores it on its own held-out data; from round 1
            on all of it is charged; or "home": no score leaves a client, and the model of the last round is kept. An
            experimenter who has all data on one machine sees scores all the same, outside the protocol. Of sites there
            are none.
        sample: score so many clients in place of all, >= 0; drawn by the seed, the same ones in every round, so that
            scores of rounds can be compared. 0 = everybody.
        every: rounds between two evaluations, >= 1; the last round is always evaluated.
        averaging: decay of an exponential running mean over the global models of past rounds, in [0, 1). That mean is
            scored and kept, while training goes on from the model itself. It costs no bytes and evens out the noise of
            small cohorts. 0 = off.
        keep: what a client with parameters of its own is scored with, and keeps: "best", of all models it was scored
            with, by its own validation split, which it can tell without talking to anybody; or "last", the one it has.
            With `at` = "home" always the last: elsewhere nobody has it scored.
        local_steps: whether each client's model after the local steps of a round is scored beside the merged model, as
            many papers do. Wherever a model is scored, each client that scores it trains from it as in a next round,
            scores what comes of it, and forgets it: training is not touched. It takes the time of a round of all.
            With `at` = "clients" the sums, what a method sends beside the model, and the operations are charged.
    """

    metric: str = ""
    at: Literal["server", "clients", "home"] = "server"
    sample: Annotated[int, Ge(0), "0 = everybody"] = 0
    every: PositiveInt = 1
    averaging: ProperFraction = 0.0
    keep: Literal["best", "last"] = "best"
    local_steps: bool = False

    def __post_init__(self) -> None:
        check_ranges(self, "evaluation")

    def scored(self, clients: Sequence[int], seed: int) -> list[int]:
        """Return those of some clients that are scored, in their order: all, or a sample that `seed` draws."""
        if not 0 < self.sample < len(clients):
            return list(clients)
        drawn = randomness.generator(seed, "evaluation-sample").choice(len(clients), self.sample, replace=False)
        return [clients[place] for place in sorted(drawn.tolist())]


@dataclass(frozen=True)
class Row:
    """One round, as `rounds.jsonl` and the progress line show it.

    Args:
        round: counted from 1.
        selected: the cohort; empty where nobody was drawn, or late answers were waited for.
        failed: {client: reason}.
        loss: mean over the answers that arrived; nan without any, and where updates are added up.
        validation: score, None where the round was not scored; test: likewise.
        bytes: of the round; bytes_total: so far.
        seconds: measured, so far; simulated_seconds: of the simulated clock, so far.
        flops: of the round.
        timings: {client: (simulated seconds of training, of communication)}, of the cohort and of late answers.
        late: those of the cohort that missed the deadline.
        staleness: {client: rounds by which its answer was late}, of late answers that arrived.
        began: when the orders were sent, after the probe, in simulated seconds of the run.
        scored: how many clients the scores are of, where they are a sample; 0 where they are all.
        explanation: {term: {client: value}}, see `Selector.explanation`, of clients that have one and could be
            chosen; of many clients see `choosing.MOST_EXPLAINED`. {} where the selector tells none, and in rounds
            that draw at random.
    """

    round: int
    selected: tuple[int, ...]
    failed: dict[int, str]
    loss: float
    validation: float | None
    test: float | None
    bytes: int
    bytes_total: int
    seconds: float
    simulated_seconds: float
    flops: int = 0
    timings: dict[int, tuple[float, float]] = field(default_factory=dict)
    late: tuple[int, ...] = ()
    staleness: dict[int, int] = field(default_factory=dict)
    began: float = 0.0
    scored: int = 0
    explanation: dict[str, dict[int, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        state: RunState,
        outcome: Outcome,
        scores: Mapping[str, float],
        flops: int,
        aside: Mapping[int, str],
        lasted: float,
        scored: int = 0,
        explanation: dict[str, dict[int, float]] | None = None,
    ) -> "Row":
        """The row of the round that `state` has just finished; it lasted so many simulated seconds from the orders on.

        `scores` are {split: score}, of a round that was scored, and `scored` says how many clients they are of; 0 =
        all. `aside` has {client: reason}, failures to do anything but to train; `explanation` is of the selector's
        choice.
        """
        losses = [report["loss"] for report in outcome.reports.values() if "loss" in report]
        return cls(
            round=state.round,
            selected=outcome.selected,
            failed={**aside, **outcome.failed},
            loss=float(np.mean(losses)) if losses else math.nan,
            validation=scores.get("validation"),
            test=scores.get("test"),
            bytes=outcome.bytes,
            bytes_total=state.bytes["down"] + state.bytes["up"],
            flops=flops,
            seconds=state.seconds,
            simulated_seconds=state.simulated_seconds,
            timings={client: (timing.training, timing.communication) for client, timing in outcome.timings.items()},
            late=outcome.late,
            staleness=dict(outcome.staleness),
            began=max(0.0, state.simulated_seconds - lasted),
            scored=scored if scores else 0,
            explanation=explanation or {},
        )
