"""The terms of a run: when it ends, how it is scored, and what is told of each round."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedgraft.contracts import Outcome
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import require, require_one_of


@dataclass(frozen=True)
class Stopping:
    """When a run ends, whichever comes first.

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
        """How much of the run is over, in [0, 1], by the limit that is nearest: 0 before the first round."""
        shares = [state.round / max(1, self.rounds - 1)]
        if self.bytes:
            shares.append((state.bytes["down"] + state.bytes["up"]) / self.bytes)
        if self.seconds:
            shares.append(state.simulated_seconds / self.seconds)
        return min(1.0, max(shares))

    def reached(self, state: RunState) -> str:
        """Which limit ends the run now; "" for none."""
        if state.round >= self.rounds:
            return "rounds"
        if self.seconds and state.simulated_seconds >= self.seconds:
            return "seconds"
        since = sum(point["round"] > state.best.get("round", 0) for point in state.curve)
        return "patience" if self.patience and since >= self.patience else ""


@dataclass(frozen=True)
class Evaluation:
    """How the global model is scored.

    Args:
        at: "server": on held-out data that the server has, outside the protocol and free, as the papers assume; or
            "clients": the model is sent to every client, which scores it on its own held-out data; from round 1
            on all of it is charged.
        every: rounds between two evaluations, >= 1; the last round is always evaluated.
        keep: what a client with parameters of its own is scored with, and keeps: "best", of all models it was scored
            with, by its own validation split, which it can tell without talking to anybody; or "last", the one it has.
    """

    at: str = "server"
    every: int = 1
    keep: str = "best"

    def __post_init__(self) -> None:
        require_one_of("evaluation.at", self.at, ("server", "clients"))
        require(self.every >= 1, "evaluation.every", ">= 1", self.every)
        require_one_of("evaluation.keep", self.keep, ("best", "last"))


@dataclass(frozen=True)
class Row:
    """One round, as `rounds.jsonl` and the progress line show it; `loss` is nan when nobody answered."""

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

    @classmethod
    def of(
        cls, state: RunState, outcome: Outcome, scores: Mapping[str, float], flops: int, aside: Mapping[int, str]
    ) -> "Row":
        """The row of the round that `state` has just finished; `aside` are failures to do anything but to train."""
        losses = [report["loss"] for report in outcome.reports.values()]
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
        )
