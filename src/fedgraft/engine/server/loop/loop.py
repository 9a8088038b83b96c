"""The loop: one round after another, whatever the methods are.

    view -> probe -> select -> encode -> exchange -> decode -> merge -> evaluate -> learn -> account

It knows the contracts and names no method. It alone writes the states of methods.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedgraft.contracts import Outcome, Runtime, Selector, Timing, View, randomness
from fedgraft.engine.plan import Plan, split_sampler
from fedgraft.engine.server.beginning import Beginning
from fedgraft.engine.server.clock import DISCONNECTED, Clock, Dropout
from fedgraft.engine.server.exchange import Traffic
from fedgraft.engine.server.ledger import DIRECTIONS, TRAINING, Ledger
from fedgraft.engine.server.loop.after_training import AfterTraining
from fedgraft.engine.server.loop.choosing import Choosing, Terms
from fedgraft.engine.server.loop.messenger import Messenger
from fedgraft.engine.server.loop.stopping import PROBE, SCORING, Evaluation, Row, Stopping
from fedgraft.engine.server.loop.views import Views, losses_of
from fedgraft.engine.server.rounds.arrivals import Arrivals, ArrivedUpdates
from fedgraft.engine.server.rounds.broadcast import Broadcast
from fedgraft.engine.server.rounds.collecting import TrainReplies
from fedgraft.engine.server.rounds.merging import Merging
from fedgraft.engine.server.rounds.next_round import Ahead, Models, ahead, averaged, kept_model
from fedgraft.engine.server.rounds.scoring import Scoring, note_scores
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import BudgetError


@dataclass(frozen=True)
class _Round:
    """A round's training: its cohort, the answers that are there, and what the selector saw, with those of a probe.

    `probe_failures` are {client: reason}, `guidance` {client: {name: scalar for its sampler}}, and `explanation`
    those of the selector's choice.
    """

    view: View
    cohort: tuple[int, ...]
    arrived: ArrivedUpdates
    probe_failures: Mapping[int, str] = field(default_factory=dict)
    guidance: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    explanation: Terms = field(default_factory=dict)


class Loop:
    """Run an experiment round by round over a runtime.

    Args:
        plan: what both ends agreed on.
        selector: who trains.
        runtime: where the clients are.
        clock: the simulated clock.
        stopping: when to end.
        evaluation: how to score.
        merging: what counts of what arrives.
        dropout: who loses the connection.
        deadline_seconds: how long to wait for a client; None = for ever.
        before: what was done before.
    """

    def __init__(
        self,
        plan: Plan,
        selector: Selector[Any],
        runtime: Runtime,
        clock: Clock,
        stopping: Stopping,
        evaluation: Evaluation,
        merging: Merging | None = None,
        dropout: Dropout | None = None,
        deadline_seconds: float | None = None,
        before: Beginning | None = None,
    ) -> None:
        self._before = before or Beginning()
        self._plan, self._selector, self._stopping, self._evaluation = plan, selector, stopping, evaluation
        self._merging, self._dropout = merging or Merging(plan.sharing), dropout or Dropout()
        self._clients = tuple(runtime.clients())
        self._clock, self._devices = clock, clock.of(len(self._clients), plan.seed)
        self._choosing = Choosing(selector, plan.seed, self._before.secret(plan.seed))
        self._runtime, self.ledger = runtime, Ledger()
        self._guards = guards = self._merging.safeguards
        self._messenger = Messenger(plan, runtime, self.ledger, stopping.bytes, deadline_seconds, guards, self._before)
        self._after = AfterTraining(plan, self._messenger, self.ledger, stopping, evaluation)

    def start(self) -> RunState:
        """Round 0: who is there and how much each has. Raises `BudgetError` if nothing is left for a round after it."""
        for purpose, client, sent in self._before.charges:
            for direction, size in zip(DIRECTIONS, sent, strict=True):
                self.ledger.charge(0, client, direction, purpose, size)
        set_up = self._messenger.set_up.run(self._clients)
        state = RunState(set_up.profiles, self._plan.sharing.init(self._plan.first, len(self._clients)))
        state.exchange.halos, state.merging.sampler_shared = set_up.halos, dict(self._plan.first_sampler)
        state.clients.failing = {str(client): reason for client, reason in set_up.failed.items()}
        state.clients.failures["setup"] += len(set_up.failed)
        self._after.ask(state)
        self._open(state)
        self._note_computed(state, "statistics")
        if any(state.examples):
            self._views.check_deadline()
        view = self._view(state, 1)
        least = int(view.bytes_per_client.min()) if self._plan.connected else 0
        if view.bytes_left is not None and view.bytes_left < least:
            raise BudgetError(
                f"budget.bytes = {self._stopping.bytes} does not pay for one round: the set-up took "
                f"{self.ledger.total} bytes, and a round of one client can take {least + self._views.fixed_bytes}."
            )
        state.selector = self._selector.init(view)
        self._score(state)
        state.bytes = dict(self.ledger.totals)
        return state

    def resume(self, state: RunState) -> None:
        """Take up the ledger, the broadcast and the halo store where a stored state left them."""
        self.ledger.totals = dict(state.bytes)
        self._open(state)

    def run(self, state: RunState, after_round: Callable[[RunState, Row], None]) -> RunState:
        """Run rounds until a limit is reached; call `after_round` after each."""
        while not state.finished:
            row = self.step(state)
            if row is not None:
                after_round(state, row)
        return state

    def smooth(self, state: RunState) -> None:
        """Smooth the best model's answers once all rounds are over, if the task does that and it was not done."""
        self._after.run(state)

    def step(self, state: RunState) -> Row | None:
        """Run one round; None, and `state.finished`, if the budget does not pay for another."""
        began, round = time.perf_counter(), state.round + 1
        self._broadcast.forgotten(self._runtime.forgotten())
        spent, computed = self.ledger.total, state.flops
        view, silent = self._view(state, round), self._plan.silent
        g = randomness.lazy(self._plan.seed, "collect", round)
        waits = not view.available.any()  # for those who are at work
        collects = silent is None or waits or silent.collects(state.sharing, round, g)
        made = self._train(state, view) if collects else self._train_silently(state, view)
        if made is None:
            self._finish(state)
            return None
        state.round, trained = round, made.arrived.trained
        outside, silenced = self._messenger.outside_reports(trained.reports if collects else (), round)
        self._note_computed(state, TRAINING)
        due = self._due(state)
        scores, unscored = self._score(state) if due else ({}, {})
        reports = self._guards.credible(trained.reports, state.clients.loss_scales)
        outcome = Outcome(
            selected=made.cohort,
            reports={
                client: {**state.profiles[client], **report, **outside.get(client, {})}
                for client, report in reports.items()
                if client not in silenced
            },
            failed={**trained.failed, **silenced},
            score=scores.get(self._selector.score_split),
            bytes=self.ledger.total - spent,
            timings=made.arrived.timings,
            updates=trained.uploads if "update" in self._selector.reports else {},
            guidance=made.guidance,
            late=made.arrived.late,
            staleness=made.arrived.staleness,
        )
        if collects:  # of what clients do by themselves a selector hears nothing
            state.selector = self._selector.update(state.selector, made.view, outcome)
            self._learn(state, view, replace(outcome, score=scores.get("validation")), trained)
        state.bytes = dict(self.ledger.totals)
        state.seconds += time.perf_counter() - began
        if due:
            state.curve[-1]["seconds"] = state.seconds
        state.finished = self._stopping.reached(state)
        aside, lasted = {**made.probe_failures, **unscored}, made.arrived.seconds
        return Row.of(state, outcome, scores, state.flops - computed, aside, lasted, self._sampled, made.explanation)

    # --- the training of a round -------------------------------------------------------------------------------------

    def _train(self, state: RunState, view: View) -> "_Round | None":
        """Have a cohort train and merge what has arrived when the round ends; None if there is nobody to train."""
        if not view.available.any():
            return self._wait(state, view)
        disconnected = self._dropout.dropped(view.clients, view.round, self._plan.seed)
        view, probe_seconds, failures = self._probe(
            state, self._guards.rested(view, state.clients.chosen), disconnected
        )
        selection, explanation = self._choosing.choose(state.selector, view)
        if selection is None:
            return self._wait(state, view)
        state.clients.cohort = list(selection.clients)
        reached = [client for client in selection.clients if client not in disconnected]
        guidance: Mapping[int, Mapping[str, float]] = {}
        if guided := self._plan.guided:
            g = randomness.lazy(self._plan.seed, "tell", view.round)
            guidance = guided.guide(state.sampler, view, reached, g)
        models = self._models(state, reached, view.probed)
        weights, progress = self._merging.weights(selection), self._stopping.progress(state)
        trained = self._messenger.train(models, view.round, progress, guidance, weights)
        self._broadcast.received(trained.reports)
        self._broadcast.sent()
        if trained.reports or trained.failed:  # nobody is asked where a sum would be of too few
            state.note_training(trained.reports, trained.failed, view.round)
        missed = {client: DISCONNECTED for client in selection.clients if client in disconnected}
        trained = replace(trained, failed={**trained.failed, **missed})
        timings = self._timings(state, selection.clients, trained, view.round)
        arrived, sent = self._arrivals.settle(trained, {**weights, **trained.weights}, timings, view.deadline)
        began = state.simulated_seconds + probe_seconds
        arrived = self._merge(state, arrived, view.round, began + arrived.seconds)
        self._arrivals.send(sent, view.round, began)
        return _Round(view, selection.clients, arrived, failures, guidance, explanation)

    def _wait(self, state: RunState, view: View) -> "_Round | None":
        """Let the clock run to the next late answer; None for none, or no budget to score what it brings."""
        arrives = self._arrivals.next_arrival
        if math.isinf(arrives) or (view.bytes_left == 0 and self._views.fixed_bytes):
            return None
        now = max(arrives, state.simulated_seconds)
        arrived = ArrivedUpdates(TrainReplies(), seconds=now - state.simulated_seconds)
        return _Round(view, (), self._merge(state, arrived, view.round, now))

    def _merge(self, state: RunState, arrived: ArrivedUpdates, round: int, now: float) -> ArrivedUpdates:
        """End a round at a time of the simulated clock: merge what is there by then, and return it."""
        arrived, state.simulated_seconds = self._arrivals.receive(arrived, round, now), now
        merged, arrived = self._merging.merge(state, arrived)
        if merged:
            self._average(state)
            self._broadcast.merged()
        return arrived

    def _train_silently(self, state: RunState, view: View) -> "_Round | None":
        """Have the last cohort, or at the start everybody, train on without a word to the server.

        None if the budget does not pay for the current model to those who lack it.
        """
        disconnected = self._dropout.dropped(view.clients, view.round, self._plan.seed)
        cohort = [client for client in state.clients.cohort if view.available[client]]
        cohort = cohort or np.flatnonzero(view.available).tolist()
        lacking = [client for client in self._broadcast.lacking(cohort) if client not in disconnected]
        cost = len(lacking) * self._messenger.limits.request_bytes("alone")
        if not cohort or (view.bytes_left is not None and cost > view.bytes_left):
            return None
        models = self._models(state, cohort, frozenset(cohort) - frozenset(lacking))
        trained = self._messenger.train_silently(models, view.round, self._stopping.progress(state))
        self._broadcast.received(client for client in trained.reports if client in lacking)
        state.note_training(trained.reports, trained.failed, view.round)
        timings = self._timings(state, cohort, trained, view.round)
        seconds = max(timing.total for timing in timings.values())
        state.simulated_seconds += seconds
        return _Round(view, tuple(cohort), ArrivedUpdates(trained, {}, timings, seconds))

    def _probe(self, state: RunState, view: View, disconnected: frozenset[int]) -> tuple[View, float, dict[int, str]]:
        """The view with what probed clients answered, the simulated seconds that asking took, and who failed."""
        probe = self._choosing.probe(state.selector, view)
        if probe is None:
            return view, 0.0, {}
        reached = [client for client in probe.clients if client not in disconnected]
        progress = self._stopping.progress(state)
        replies = self._messenger.probe(self._models(state, reached), view.round, probe, progress)
        self._broadcast.received(replies.messages)
        state.clients.failures["probe"] += len(replies.failed)
        timing, examples = self._devices.at(view.round).timing, view.samples * probe.epochs
        took = {client: timing(client, *replies.bytes[client], float(examples[client])).total for client in reached}
        told = {client: message.report for client, message in replies.messages.items()}
        credible = self._guards.credible(told, state.clients.loss_scales)
        answers = {client: {**report, "seconds": took[client]} for client, report in credible.items()}
        seconds = max(took.values(), default=0.0)
        left = None if view.bytes_left is None else view.bytes_left - sum(each.total for each in replies.bytes.values())
        failed = {client: PROBE + reason for client, reason in replies.failed.items()}
        failed.update({client: PROBE + DISCONNECTED for client in probe.clients if client in disconnected})
        return replace(view, probed=answers, bytes_left=left), seconds, failed

    def _models(self, state: RunState, clients: Iterable[int], holding: Iterable[int] = ()) -> Models:
        """The encoded model of each client; None for those that hold it, by themselves or by `holding`."""
        clients = list(clients)
        lacking = frozenset(self._broadcast.lacking(clients)) - frozenset(holding)
        groups = {client: self._plan.sharing.group(state.sharing, client) for client in clients if client in lacking}
        for group in dict.fromkeys(groups.values()):
            self._publish(state, group)
        sent = self._broadcast.sent_to(groups)
        return {client: sent.get(client) for client in clients}

    def _publish(self, state: RunState, group: int) -> None:
        """Encode a group's model, once per version; a method that tracks it learns what clients decode."""
        if self._broadcast.current(group):
            return
        sent = {**self._plan.sharing.model(state.sharing, group), **state.merging.sampler_shared}
        decoded = self._broadcast.publish(group, sent)
        if self._plan.sharing.tracks:
            state.sharing = self._plan.sharing.broadcast(state.sharing, group, split_sampler(decoded)[0])

    def _average(self, state: RunState) -> None:
        """Move the running means, if models are averaged for scoring."""
        if decay := self._evaluation.averaging:
            groups = self._plan.groups(state.sharing, self._clients)
            merges = self._broadcast.version
            state.merging.averages = averaged(self._plan, state.sharing, state.merging.averages, groups, decay, merges)

    def _learn(self, state: RunState, view: View, outcome: Outcome, trained: TrainReplies) -> None:
        """Let a guided sampler's half at the server learn; `outcome.score` is validation's."""
        if guided := self._plan.guided:
            outcome = replace(outcome, updates=trained.uploads if "update" in guided.reports else {})
            g = randomness.lazy(self._plan.seed, "learn", view.round)
            state.sampler = guided.learn(state.sampler, replace(view, losses=losses_of(state)), outcome, g)

    # --- what a round is made of -------------------------------------------------------------------------------------

    def _open(self, state: RunState) -> None:
        plan, messenger = self._plan, self._messenger
        stopping = self._stopping = self._after.within(state)
        self._broadcast = Broadcast(plan, state.exchange.broadcast)
        self._arrivals = Arrivals(self._clock, state.exchange.in_flight)
        messenger.open(state.exchange.halos, state.exchange.halo_store, state.exchange.sum_scales)
        devices, joined = (self._clock, self._devices), state.joined
        self._examples = state.examples
        self._scored = self._evaluation.scored(joined, plan.seed)
        self._sampled = len(self._scored) if len(self._scored) < len(joined) else 0
        self._merging.open(self._examples)
        self._views = Views(plan, messenger, self.ledger, *devices, stopping, self._evaluation, self._examples)

    def _view(self, state: RunState, round: int) -> View:
        return self._views.of(state, round, self._arrivals.busy, self._selector.score_split)

    def _timings(self, state: RunState, cohort: Iterable[int], trained: TrainReplies, round: int) -> dict[int, Timing]:
        """Count the selections; the simulated seconds of each client's round."""
        samples, moved, waits = self._examples, trained.bytes, trained.waits
        epochs, timings, devices = self._plan.training.epochs, {}, self._devices.at(round)
        for client in cohort:
            state.clients.chosen[client] += 1
            traffic, examples = moved.get(client, Traffic()), float(samples[client] * epochs)
            timings[client] = devices.timing(client, *traffic, examples, waits.get(client, 0))
        return timings

    def _note_computed(self, state: RunState, purpose: str) -> None:
        """Enter what clients have computed since this was last done."""
        spent = self._runtime.flops()
        for client, flops in sorted(spent.items()):
            self.ledger.compute(state.round, client, purpose, flops)
        state.flops += sum(spent.values())

    # --- scoring -----------------------------------------------------------------------------------------------------

    def _due(self, state: RunState) -> bool:
        """Return whether the round just trained is scored: every so many rounds, and the last one."""
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
            The score of each split, none where clients could not be scored, and why they could not.
        """
        scoring = Scoring({}, {}, {}) if self._plan.unscored else self._scoring(state)
        self._note_computed(state, "evaluation")
        groups = self._plan.groups(state.sharing, self._clients)
        scores = note_scores(self._plan, state, scoring, self.ledger.total, groups)
        return scores, {client: SCORING + reason for client, reason in scoring.failed.items()}

    def _scoring(self, state: RunState) -> Scoring:
        """Added sums of every split for the models that the clients would keep."""
        messenger, broadcast = self._messenger, self._broadcast
        single = self._plan.collection.single  # if not, nobody looks at a client, before the first round neither
        at_clients = self._evaluation.at == "clients" and (state.round > 0 or not single)
        clients = state.joined if messenger.scorer.halo.active and not at_clients else self._scored
        groups = {client: self._plan.sharing.group(state.sharing, client) for client in clients}
        ahead = self._ahead(state)
        if at_clients and self._plan.silent and single:
            replies = messenger.evaluate(self._models(state, clients), state.round, ahead)
            broadcast.received(replies.messages)
            return messenger.scorer.summed(replies, self._plan.local_steps)
        if at_clients:
            kept = {group: kept_model(self._plan, state, group) for group in sorted(set(groups.values()))}
            encoded = {group: broadcast.scored(group, state.round, model) for group, model in kept.items()}
            return messenger.scored({c: encoded[groups[c]] for c in clients}, state.round, ahead)
        if self._plan.silent and broadcast.version:  # what is scored is what clients would hold
            for group in sorted(set(groups.values())):
                self._publish(state, group)
        kept = {group: kept_model(self._plan, state, group) for group in sorted(set(groups.values()))}
        models = {client: kept[groups[client]] for client in clients}
        return messenger.scorer.measure(models, state.round, self._scored, ahead)

    def _ahead(self, state: RunState) -> Ahead:
        """What the next round would tell those who are scored, where they try their local steps in it."""
        if not self._plan.local_steps:
            return Ahead()
        state.bytes = dict(self.ledger.totals)  # by which the run goes on
        view, progress = self._view(state, state.round + 1), self._stopping.progress(state)
        return ahead(self._plan, state, view, progress, self._scored)
