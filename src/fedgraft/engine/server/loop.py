"""The loop: one round after another, whatever the methods are.

    view -> probe -> select -> encode -> exchange -> decode -> merge -> evaluate -> learn -> account

It knows the six contracts and names no method.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Outcome, Runtime, Selection, Selector, Update, View, randomness
from fedgraft.contracts.scores import improves
from fedgraft.engine.plan import SPLITS, Plan
from fedgraft.engine.server.disconnections import Dropout
from fedgraft.engine.server.exchange import Replies
from fedgraft.engine.server.ledger import TRAINING, Ledger
from fedgraft.engine.server.messenger import Post
from fedgraft.engine.server.run_state import RunState
from fedgraft.engine.server.simulated_clock import Clock
from fedgraft.engine.server.stopping import Evaluation, Row, Stopping
from fedgraft.errors import AllClientsFailedError, BudgetError, FedgraftError
from fedgraft.wire.layouts import Arrays

DROPPED = "its connection is down"


@dataclass(frozen=True)
class _Played:
    """What came of training: with what view, who was to train, what came back, and what happened aside."""

    view: View
    cohort: tuple[int, ...]
    replies: Replies
    uploads: dict[int, Arrays] = field(default_factory=dict)
    asked: float = 0.0
    aside: dict[int, str] = field(default_factory=dict)
    told: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


class Loop:
    """Runs an experiment round by round over a runtime.

    Args:
        plan: what both ends agreed on.
        selector: who trains.
        runtime: where the clients are.
        clock: the simulated clock.
        stopping: when to end.
        evaluation: how to score.
        dropout: who loses the connection.
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
        dropout: Dropout | None = None,
        deadline_seconds: float | None = None,
    ) -> None:
        self._plan, self._selector, self._stopping, self._evaluation = plan, selector, stopping, evaluation
        self._dropout = dropout or Dropout()
        self._clients = tuple(runtime.clients())
        self._devices = clock.devices(len(self._clients), plan.seed)
        self.ledger = Ledger()
        self._runtime = runtime
        self._post = Post(plan, runtime, self.ledger, stopping.bytes, deadline_seconds)
        self._first_view: View | None = None

    def start(self) -> RunState:
        """Round 0: who is there and how much each has. Raises `BudgetError` if nothing is left for a round after it."""
        introduced = self._post.introduce(self._clients)
        state = RunState(introduced.profiles, self._plan.sharing.init(self._plan.first, len(self._clients)))
        state.halos = introduced.halos
        self._post.open(state)
        self._first_view = None
        state.failing = {str(client): reason for client, reason in introduced.failed.items()}
        self._note_computed(state, "statistics")
        view = self._view(state, 1)
        least = 0 if self._plan.sharing.alone else int(view.bytes_per_client.min())
        if view.bytes_left is not None and view.bytes_left < least:
            raise BudgetError(
                f"budget.bytes = {self._stopping.bytes} does not pay for one round: the set-up took "
                f"{self.ledger.total} bytes, and a round of one client can take "
                f"{least + self._fixed_bytes()}."
            )
        state.selector = self._selector.init(view)
        state.sampler = self._plan.sampler.begin(view)
        self._score(state)
        state.bytes = dict(self.ledger.totals)
        return state

    def resume(self, state: RunState) -> None:
        """Take the ledger and the mailbox up where a stored state left them."""
        self.ledger.totals = dict(state.bytes)
        self._post.open(state)
        self._first_view = None

    def run(self, state: RunState, after_round: Callable[[RunState, Row], None]) -> RunState:
        """Rounds until a limit is reached; `after_round` sees each."""
        while not state.finished:
            row = self.step(state)
            if row is not None:
                after_round(state, row)
        return state

    def step(self, state: RunState) -> Row | None:
        """One round; None, and `state.finished`, if the budget does not pay for another."""
        began, round = time.perf_counter(), state.round + 1
        spent, computed = self.ledger.total, state.flops
        view, sharing = self._view(state, round), self._plan.sharing
        collects = sharing.collects(state.sharing, round, randomness.generator(self._plan.seed, "collect", round))
        played = self._train(state, view) if collects else self._train_alone(state, view)
        if played is None:
            self._finish(state)
            return None
        state.round = round
        seconds = self._account(state, played)
        self._note_computed(state, TRAINING)
        scored, unscored = self._score(state) if self._due(state) else ({}, {})
        replies, uploads = played.replies, played.uploads
        outcome = Outcome(
            selected=played.cohort,
            reports={c: {**state.profiles[c], **message.report} for c, message in replies.messages.items()},
            failed=replies.failed,
            score=scored.get(self._selector.score_split),
            bytes=self.ledger.total - spent,
            seconds=seconds,
            updates=uploads if "update" in self._selector.needs else {},
            told=played.told,
        )
        if collects:  # of what clients do by themselves a selector hears nothing
            state.selector = self._selector.update(state.selector, played.view, outcome)
            needed = uploads if "update" in self._plan.sampler.needs else {}
            brought = replace(outcome, score=scored.get("validation"), updates=needed)
            view, g = replace(view, losses=_pairs(state)), randomness.generator(self._plan.seed, "learn", round)
            state.sampler = self._plan.sampler.learn(state.sampler, view, brought, g)
        state.bytes = dict(self.ledger.totals)
        state.seconds += time.perf_counter() - began
        if scored:
            state.curve[-1]["seconds"] = state.seconds
        state.finished = self._stopping.reached(state)
        return Row.of(state, outcome, scored, state.flops - computed, {**played.aside, **unscored})

    # --- the training of a round -------------------------------------------------------------------------------------

    def _train(self, state: RunState, view: View) -> "_Played | None":
        """Have a cohort train and merge what it sends; None if there is none."""
        sharing, dropped = self._plan.sharing, self._dropout.dropped(view.clients, view.round, self._plan.seed)
        view, asked, aside = self._probe(state, view, dropped)
        g = randomness.generator(self._plan.seed, "select", view.round)
        selection = self._selector.select(state.selector, view, g)
        if not selection.clients:
            return None
        self._check(selection, view)
        state.cohort = list(selection.clients)
        reached = [client for client in selection.clients if client not in dropped]
        g = randomness.generator(self._plan.seed, "tell", view.round)
        told = self._plan.sampler.tell(state.sampler, view, reached, g)
        replies = self._post.train(state, reached, view.probed, view.round, self._stopping.progress(state), told)
        uploads = self._post.uploads(replies)
        if reached:
            self._note_failures(state, replies, view.round)
        replies.failed.update({client: DROPPED for client in selection.clients if client in dropped})
        if updates := self._weighted(state, selection, uploads):
            state.sharing = sharing.merge(state.sharing, updates)
            state.version += 1
        return _Played(view, selection.clients, replies, uploads, asked, aside, told)

    def _train_alone(self, state: RunState, view: View) -> "_Played | None":
        """Have the last cohort, or at the start everybody, train on without a word to the server.

        None if the budget does not pay for the current model to those who lack it.
        """
        dropped = self._dropout.dropped(view.clients, view.round, self._plan.seed)
        able = np.flatnonzero(view.available).tolist()
        cohort = [client for client in state.cohort or able if client in able]
        lacking = [client for client in self._post.lacking(state, cohort) if client not in dropped]
        cost = len(lacking) * self._post.request_bytes("alone")
        if not cohort or (view.bytes_left is not None and cost > view.bytes_left):
            return None
        replies = self._post.train_alone(state, cohort, lacking, view.round, self._stopping.progress(state))
        self._note_failures(state, replies, view.round)
        return _Played(view, tuple(cohort), replies)

    # --- the steps of a round ----------------------------------------------------------------------------------------

    def _view(self, state: RunState, round: int) -> View:
        if self._first_view is None:
            self._first_view = self._view_at_first(state)
        budget = self._stopping.bytes
        left = max(0, budget - self.ledger.total - self._fixed_bytes()) if budget else None
        return replace(self._first_view, round=round, bytes_left=left, losses=_pairs(state))

    def _view_at_first(self, state: RunState) -> View:
        """What a selector sees in every round of a run; its arrays are of all clients, and nobody's to change."""
        count, samples = len(self._clients), np.array(state.examples, np.int64)
        train = np.array([self._post.most_training_bytes(client) for client in self._clients], np.int64)
        probe = np.full(count, self._post.most_bytes("probe"), np.int64)
        seconds = self._devices.all_seconds(train, samples * self._plan.training.epochs, self._plan.refreshes)
        available = samples > 0
        for array in (samples, train, probe, seconds, available):
            array.flags.writeable = False
        return View(
            round=1,
            samples=samples,
            bytes_per_client=train,
            bytes_per_probe=probe,
            seconds=seconds,
            available=available,
            bytes_budget=self._stopping.bytes or None,
            rounds=self._stopping.rounds,
            better=self._plan.task.better,
            epochs=self._plan.training.epochs,
        )

    def _fixed_bytes(self) -> int:
        """What a round costs whoever trains: scoring at the clients."""
        return self._post.most_bytes("evaluate") * len(self._clients) if self._evaluation.at == "clients" else 0

    def _probe(self, state: RunState, view: View, dropped: frozenset[int]) -> tuple[View, float, dict[int, str]]:
        """The view with what probed clients answered, the simulated seconds that asking took, and who failed."""
        g = randomness.generator(self._plan.seed, "probe", view.round)
        probe = self._selector.probe(state.selector, view, g)
        if probe is None or not probe.clients:
            return view, 0.0, {}
        self._hold("probed", probe.clients, view.bytes_per_probe, view)
        reached = replace(probe, clients=tuple(client for client in probe.clients if client not in dropped))
        replies = self._post.probe(state, reached, view.round)
        answers = {client: message.report for client, message in replies.messages.items()}
        moved = ((c, replies.bytes[c]) for c in reached.clients)
        seconds = max((self._devices.seconds(c, size, view.samples[c]) for c, size in moved), default=0.0)
        left = None if view.bytes_left is None else view.bytes_left - sum(replies.bytes.values())
        failed = {client: f"probe: {reason}" for client, reason in replies.failed.items()}
        failed.update({client: f"probe: {DROPPED}" for client in probe.clients if client in dropped})
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

    def _account(self, state: RunState, played: "_Played") -> dict[int, float]:
        """Count the selections and let the simulated clock run as long as the slowest client."""
        samples, moved, waits = state.examples, played.replies.bytes, played.replies.waits
        seconds = {
            c: self._devices.seconds(c, moved.get(c, 0), self._trained(samples[c]), waits.get(c, 0))
            for c in played.cohort
        }
        for client in played.cohort:
            state.chosen[client] += 1
        state.simulated_seconds += played.asked + max(seconds.values())
        return seconds

    def _note_computed(self, state: RunState, purpose: str) -> None:
        """Enter what clients have computed since this was last done."""
        spent = self._runtime.flops()
        for client, flops in sorted(spent.items()):
            self.ledger.compute(state.round, client, purpose, flops)
        state.flops += sum(spent.values())

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
        self._note_computed(state, "evaluation")
        scores = {split: task.score(scoring.sums[split]) for split in SPLITS}
        state.scores = {
            str(client): {split: task.score(sums[split]) for split in SPLITS}
            for client, sums in scoring.clients.items()
        }
        for split in SPLITS:
            mean = task.mean_loss(scoring.sums[split])
            if math.isfinite(mean):
                state.losses[split] = [*state.losses.get(split, [mean])[:1], mean]
        state.curve.append(
            {
                "round": state.round,
                "bytes": self.ledger.total,
                "seconds": state.seconds,
                "validation": scores["validation"],
                "test": scores["test"],
                "flops": state.flops,
            }
        )
        choice, best = task.choice(scoring.sums["validation"]), state.best.get("choice")
        if improves(choice, best, task.better) or best is None or math.isnan(best):
            groups = sorted({sharing.group(state.sharing, client) for client in self._clients})
            models = {str(group): self._plan.scored(state.sharing, group) for group in groups}
            state.best = {"round": state.round, "choice": choice, **scores, "sums": scoring.sums, "models": models}
        return scores, {client: f"scoring: {reason}" for client, reason in scoring.failed.items()}


def _pairs(state: RunState) -> dict[str, tuple[float, float]]:
    return {split: (losses[0], losses[-1]) for split, losses in state.losses.items()}
