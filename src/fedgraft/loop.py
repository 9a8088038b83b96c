"""The loop: one round after another, whatever the methods are.

    view -> probe -> select -> encode -> exchange -> decode -> merge -> evaluate -> learn -> account

It knows the six contracts and names no method.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraft import seeds
from fedgraft.clock import Clock
from fedgraft.contracts import Outcome, Runtime, Selection, Selector, Update, View
from fedgraft.errors import AllClientsFailedError, BudgetError, FedgraftError, require, require_one_of
from fedgraft.ledger import Ledger
from fedgraft.metrics import improves
from fedgraft.plan import SPLITS, Plan
from fedgraft.post import Post, Replies
from fedgraft.state import RunState
from fedgraft.types import Arrays


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
    """

    at: str = "server"
    every: int = 1

    def __post_init__(self) -> None:
        require_one_of("evaluation.at", self.at, ("server", "clients"))
        require(self.every >= 1, "evaluation.every", ">= 1", self.every)


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

    @classmethod
    def of(cls, state: RunState, outcome: Outcome, scores: Mapping[str, float], aside: Mapping[int, str]) -> "Row":
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
            seconds=state.seconds,
            simulated_seconds=state.simulated_seconds,
        )


class Loop:
    """Runs an experiment round by round over a runtime.

    Args:
        plan: what both ends agreed on.
        selector: who trains.
        runtime: where the clients are.
        clock: the simulated clock.
        stopping: when to end.
        evaluation: how to score.
        deadline_seconds: how long to wait for a client; None = for ever.
    """

    def __init__(
        self,
        plan: Plan,
        selector: Selector[Any],
        runtime: Runtime,
        clock: Clock,
        stopping: Stopping,
        evaluation: Evaluation,
        deadline_seconds: float | None = None,
    ) -> None:
        self._plan, self._selector, self._stopping, self._evaluation = plan, selector, stopping, evaluation
        self._clients = tuple(runtime.clients())
        self._devices = clock.devices(len(self._clients), plan.seed)
        self.ledger = Ledger()
        self._post = Post(plan, runtime, self.ledger, stopping.bytes, deadline_seconds)

    def start(self) -> RunState:
        """Round 0: who is there and how much each has. Raises `BudgetError` if nothing is left for a round after it."""
        introduced = self._post.introduce(self._clients)
        model = self._plan.shared(self._plan.build_model().initial)
        state = RunState(introduced.profiles, self._plan.sharing.init(model, len(self._clients)))
        state.failing = {str(client): reason for client, reason in introduced.failed.items()}
        view = self._view(state, 1)
        if view.bytes_left is not None and view.bytes_left < view.bytes_per_client.min():
            raise BudgetError(
                f"budget.bytes = {self._stopping.bytes} does not pay for one round: the set-up took "
                f"{self.ledger.total} bytes, and a round of one client can take "
                f"{view.bytes_per_client.min() + self._fixed_bytes()}."
            )
        state.selector = self._selector.init(view)
        self._score(state)
        state.bytes = dict(self.ledger.totals)
        return state

    def resume(self, state: RunState) -> None:
        """Take the ledger up where a stored state left it."""
        self.ledger.totals = dict(state.bytes)

    def run(self, state: RunState, after_round: Callable[[RunState, Row], None]) -> RunState:
        """Rounds until a limit is reached; `after_round` sees each."""
        while not state.finished:
            row = self.step(state)
            if row is not None:
                after_round(state, row)
        return state

    def step(self, state: RunState) -> Row | None:
        """One round; None, and `state.finished`, if the budget does not pay for another."""
        began, spent, round = time.perf_counter(), self.ledger.total, state.round + 1
        view, asked, aside = self._probe(state, self._view(state, round))
        selection = self._selector.select(state.selector, view, seeds.generator(self._plan.seed, "select", round))
        if not selection.clients:
            self._finish(state)
            return None
        self._check(selection, view)
        replies = self._post.train(state, selection.clients, view.probed, round, self._stopping.progress(state))
        uploads = self._post.uploads(replies)
        self._note_failures(state, replies, round)
        updates = self._weighted(state, selection, uploads)
        if updates:
            state.sharing = self._plan.sharing.merge(state.sharing, updates)
        state.round = round
        seconds = self._account(state, selection, replies, asked)
        scored, unscored = self._score(state) if self._due(state) else ({}, {})
        aside.update(unscored)
        outcome = Outcome(
            selected=selection.clients,
            reports={c: {**state.profiles[c], **message.report} for c, message in replies.messages.items()},
            failed=replies.failed,
            score=scored.get(self._selector.score_split),
            bytes=self.ledger.total - spent,
            seconds=seconds,
            updates=uploads if "update" in self._selector.needs else {},
        )
        state.selector = self._selector.update(state.selector, view, outcome)
        state.bytes = dict(self.ledger.totals)
        state.seconds += time.perf_counter() - began
        if scored:
            state.curve[-1]["seconds"] = state.seconds
        state.finished = self._stopping.reached(state)
        return Row.of(state, outcome, scored, aside)

    # --- the steps of a round ----------------------------------------------------------------------------------------

    def _view(self, state: RunState, round: int) -> View:
        budget, count, samples = self._stopping.bytes, len(self._clients), state.examples
        train, probe = self._post.most_bytes("train"), self._post.most_bytes("probe")
        return View(
            round=round,
            samples=np.array(samples, dtype=np.int64),
            bytes_per_client=np.full(count, train, dtype=np.int64),
            bytes_per_probe=np.full(count, probe, dtype=np.int64),
            seconds=self._devices.all_seconds(train, [self._trained(n) for n in samples]),
            available=np.array(samples) > 0,
            bytes_left=max(0, budget - self.ledger.total - self._fixed_bytes()) if budget else None,
            bytes_budget=budget or None,
            rounds=self._stopping.rounds,
            better=self._plan.task.better,
        )

    def _fixed_bytes(self) -> int:
        """What a round costs whoever trains: scoring at the clients."""
        return self._post.most_bytes("evaluate") * len(self._clients) if self._evaluation.at == "clients" else 0

    def _probe(self, state: RunState, view: View) -> tuple[View, float, dict[int, str]]:
        """The view with what probed clients answered, the simulated seconds that asking took, and who failed."""
        g = seeds.generator(self._plan.seed, "probe", view.round)
        probe = self._selector.probe(state.selector, view, g)
        if probe is None or not probe.clients:
            return view, 0.0, {}
        self._hold("probed", probe.clients, view.bytes_per_probe, view)
        replies = self._post.probe(state, probe, view.round)
        answers = {client: message.report for client, message in replies.messages.items()}
        seconds = max(self._devices.seconds(c, replies.bytes[c], view.samples[c]) for c in probe.clients)
        left = None if view.bytes_left is None else view.bytes_left - sum(replies.bytes.values())
        failed = {client: f"probe: {reason}" for client, reason in replies.failed.items()}
        return replace(view, probed=answers, bytes_left=left), seconds, failed

    def _check(self, selection: Selection, view: View) -> None:
        self._hold("selected", selection.clients, view.bytes_per_client, view)
        weights = selection.weights
        fits = weights is None or (
            len(weights) == len(selection.clients) and all(math.isfinite(w) and w >= 0 for w in weights)
        )
        if not fits:
            raise FedgraftError(
                f"{type(self._selector).__name__} gave the weights {weights} to the clients {list(selection.clients)}; "
                "it must be one each, finite and >= 0."
            )

    def _hold(self, did: str, clients: Sequence[int], prices: NDArray[np.int64], view: View) -> None:
        """Hold the selector to its contract: distinct available clients, and a budget is a promise."""
        chosen, name = list(clients), type(self._selector).__name__
        known = set(np.flatnonzero(view.available).tolist())
        if any(type(client) is not int for client in chosen) or chosen != sorted(known.intersection(chosen)):
            raise FedgraftError(f"{name} {did} {chosen}; available, each once and ascending, are {sorted(known)}.")
        cost = int(prices[chosen].sum())
        if view.bytes_left is not None and cost > view.bytes_left:
            raise FedgraftError(f"{name} {did} clients for {cost} bytes with {view.bytes_left} left.")

    def _weighted(self, state: RunState, selection: Selection, uploads: Mapping[int, Arrays]) -> list[Update]:
        """Accepted uploads in ascending client order, weights normalised over those that answered.

        Nobody's, where all weights are 0.
        """
        examples = state.examples
        given = selection.weights or tuple(float(examples[client]) for client in selection.clients)
        weights = {c: w for c, w in zip(selection.clients, given, strict=True) if c in uploads}
        total = sum(weights.values())
        return [Update(c, weights[c] / total, uploads[c]) for c in sorted(weights)] if total > 0 else []

    def _note_failures(self, state: RunState, replies: Replies, round: int) -> None:
        """Remember whose last round failed; when that is everybody, there is nothing left to train."""
        for client in replies.messages:
            state.failing.pop(str(client), None)
        state.failing.update({str(client): reason for client, reason in replies.failed.items()})
        if replies.messages:
            return
        able = {str(client) for client, examples in enumerate(state.examples) if examples}
        if able <= state.failing.keys():
            raise AllClientsFailedError(round, {int(client): reason for client, reason in state.failing.items()})

    def _account(self, state: RunState, selection: Selection, replies: Replies, asked: float) -> dict[int, float]:
        """Count the selections and let the simulated clock run as long as the slowest client."""
        samples = state.examples
        seconds = {c: self._devices.seconds(c, replies.bytes[c], self._trained(samples[c])) for c in selection.clients}
        for client in selection.clients:
            state.chosen[client] += 1
        state.simulated_seconds += asked + max(seconds.values())
        return seconds

    def _trained(self, examples: int) -> float:
        return float(examples * self._plan.training.epochs)

    def _due(self, state: RunState) -> bool:
        """Whether the round just trained is scored: every so many rounds, and the last one."""
        return state.round % self._evaluation.every == 0 or self._stopping.reached(state) != ""

    def _finish(self, state: RunState) -> None:
        """End the run because nobody can be selected; a last round that was not scored is scored now."""
        state.finished = "budget" if self._stopping.bytes else "nobody to select"
        if state.curve[-1]["round"] < state.round:
            self._score(state)
        state.bytes = dict(self.ledger.totals)

    def _score(self, state: RunState) -> tuple[dict[str, float], dict[int, str]]:
        """Score the global model on both splits and extend the curve; the best by validation keeps its model.

        Returns:
            The score of each split, and why clients could not be scored.
        """
        task, sharing = self._plan.task, self._plan.sharing
        charged = self._evaluation.at == "clients" and state.round > 0
        scoring = self._post.evaluate(state, self._clients, state.round, charged)
        scores = {split: task.score(scoring.sums[split]) for split in SPLITS}
        state.curve.append(
            {
                "round": state.round,
                "bytes": self.ledger.total,
                "seconds": state.seconds,
                "validation": scores["validation"],
                "test": scores["test"],
                "flops": None,
            }
        )
        best = state.best.get("validation")
        if improves(scores["validation"], best, task.better) or best is None or math.isnan(best):
            groups = sorted({sharing.group(state.sharing, client) for client in self._clients})
            models = {str(group): sharing.evaluated(state.sharing, group) for group in groups}
            state.best = {"round": state.round, **scores, "sums": scoring.sums, "models": models}
        return scores, {client: f"scoring: {reason}" for client, reason in scoring.failed.items()}
