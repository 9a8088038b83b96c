"""Smooth the answers of the best model after the last round, where the task does that."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedgraft.contracts import randomness
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.ledger import Ledger
from fedgraft.engine.server.loop.messenger import Messenger
from fedgraft.engine.server.loop.stopping import Evaluation, Stopping
from fedgraft.engine.server.rounds.next_round import scored_model
from fedgraft.engine.server.rounds.scoring import Scoring
from fedgraft.engine.server.run_state import AFTER_STEPS, RunState
from fedgraft.engine.server.smoothing import CrossClientEdges
from fedgraft.errors import BudgetError
from fedgraft.wire.layouts import Arrays


class AfterTraining:
    """Smooth the answers of the best model.

    Args:
        plan: what both ends agreed on.
        messenger: has the exchanges.
        ledger: knows what was spent.
        stopping: has the byte budget.
        evaluation: says whether a score is charged.
    """

    def __init__(
        self, plan: Plan, messenger: Messenger, ledger: Ledger, stopping: Stopping, evaluation: Evaluation
    ) -> None:
        self._plan, self._messenger, self._ledger = plan, messenger, ledger
        self._stopping, self._evaluation = stopping, evaluation

    def ask(self, state: RunState) -> None:
        """Ask everybody for the edges to nodes of others, in round 0; without smoothing do nothing."""
        if self._plan.smoothing is None:
            return
        budget = self._stopping.bytes
        left = max(0, budget - self._ledger.total) if budget else None
        joined, failed = self._messenger.smoothing.ask(state.joined, left)
        if budget and self._ledger.total > budget:
            raise BudgetError(f"budget.bytes = {budget} does not pay for asking clients what joins them.")
        state.clients.failures["setup"] += len(failed)
        state.clients.failing.update({str(client): reason for client, reason in failed.items()})
        told = {name: getattr(joined, name) for name in joined.__dataclass_fields__}
        state.exchange.boundaries = {name: array for name, array in told.items() if name != "weights" or len(array)}

    def within(self, state: RunState) -> Stopping:
        """Return the limits of the rounds: what smoothing may take is kept back of a byte budget."""
        if not (self._stopping.bytes and state.exchange.boundaries):
            return self._stopping
        if (kept := self.kept_bytes(state)) >= self._stopping.bytes:
            raise BudgetError(
                f"budget.bytes = {self._stopping.bytes} does not pay for smoothing answers (answers.smoothing), which "
                f"can take {kept}."
            )
        return replace(self._stopping, bytes=self._stopping.bytes - kept)

    def kept_bytes(self, state: RunState) -> int:
        """Return the most bytes that smoothing takes, and scoring what comes of it."""
        clients = self._clients(state)
        scoring = self._messenger.most_smoothed_bytes * len(clients) if self._evaluation.at == "clients" else 0
        return self._messenger.smoothing.most_bytes(_joined(state), clients) + scoring

    def run(self, state: RunState) -> None:
        """Smooth the best model's answers, once; the best score and the curve are those of smoothed answers then.

        A client that fails keeps the model's own answers. Where somebody fails, smoothed answers are not compared with
        those of all: the score stays what it was.
        """
        if self._plan.smoothing is None or state.smoothed:
            return
        smoothing, joined, clients = self._messenger.smoothing, _joined(state), self._clients(state)
        groups = {client: self._plan.sharing.group(state.sharing, client) for client in clients}
        encoded = {group: self._coded(state, group) for group in sorted(set(groups.values()))}
        models = {client: encoded[group] for client, group in groups.items()}
        smoothed = smoothing.run(joined, models, state.round)
        before = {split: state.best[split] for split in ("validation", "test")}
        state.smoothed = {
            "choice": smoothed.choice,
            **({"layer": smoothed.layer} if smoothed.layer else {}),
            "before": before,
            "failed": {str(client): reason for client, reason in smoothed.failed.items()},
        }
        scored = self._evaluation.scored(state.joined, self._plan.seed)
        scorable = [client for client in scored if client in smoothed.clients]
        charged = self._evaluation.at == "clients"
        scoring = self._messenger.scored_smoothed(scorable, state.round, charged)
        absent = {client: smoothed.failed.get(client, "not smoothed") for client in scored if client not in scorable}
        self._note(state, replace(scoring, failed={**absent, **scoring.failed}))
        state.bytes = dict(self._ledger.totals)

    def _note(self, state: RunState, scoring: Scoring) -> None:
        """Extend the curve; where all were scored, this is the best."""
        plan, last = self._plan, state.curve[-1]
        state.clients.failures["scoring"] += len(scoring.failed)
        scores = plan.task.scores(scoring.sums)
        if scoring.failed:
            scores = dict.fromkeys(scores, math.nan)
        unknown = {name: math.nan for name in AFTER_STEPS if name in last}  # nobody trains on: answers are smoothed
        point = {**last, **scores, **unknown, "bytes": self._ledger.total}
        point.pop("lacking", None)
        state.curve.append(point | ({"lacking": len(scoring.failed)} if scoring.failed else {}))
        if scoring.failed:
            return
        state.scores = {
            str(client): plan.task.scores(sums, scoring.sums["validation"]) for client, sums in scoring.clients.items()
        }
        choice = plan.task.selection_metric(scoring.sums["validation"])
        state.best = {**state.best, **scores, "choice": choice, "sums": scoring.sums, "scores": state.scores}

    def _clients(self, state: RunState) -> Sequence[int]:
        """Those who have told of their edges."""
        return [client for client in state.joined if state.exchange.boundaries["own"][client]]

    def _coded(self, state: RunState, group: int) -> Arrays:
        """A group's best model behind the downlink's codec."""
        plan = self._plan
        best: Arrays | None = state.best["models"].get(str(group))
        if best is None or (plan.personal and not plan.keep_best):  # a group may be younger than the best models
            best = scored_model(plan, state.sharing, state.merging.averages, group)
        g = randomness.generator(plan.seed, "downlink-smooth", state.round, group)
        arrays, _ = plan.downlink.encode(best, plan.downlink.init(plan.model_layout), g)
        return arrays


def _joined(state: RunState) -> CrossClientEdges:
    return CrossClientEdges(**{name: np.asarray(array) for name, array in state.exchange.boundaries.items()})
