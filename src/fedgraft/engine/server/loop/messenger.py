"""Requests of a round, kind by kind: probe, try, train, train without a word, evaluate.

How one exchange of messages is trusted and charged is `exchange`; how rounds go on where clients pause for halo rows is
`halo`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedgraft import wire
from fedgraft.contracts import Probe, Runtime
from fedgraft.engine.allocator import give_back
from fedgraft.engine.plan import PROGRESS_STEPS, Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.beginning import Beginning
from fedgraft.engine.server.exchange import Exchange, Replies, Traffic, halo_bytes
from fedgraft.engine.server.halo import HaloExchange
from fedgraft.engine.server.ledger import Ledger
from fedgraft.engine.server.limits import Limits
from fedgraft.engine.server.loop.set_up import SetUp
from fedgraft.engine.server.rounds.collecting import EachReply, Requests, SumRound, TrainReplies
from fedgraft.engine.server.rounds.next_round import Ahead, Models
from fedgraft.engine.server.rounds.safeguards import Safeguards
from fedgraft.engine.server.rounds.scoring import Scorer, Scoring
from fedgraft.engine.server.smoothing import SmoothingExchange
from fedgraft.engine.server.sums.secure_sums import SecureSums
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays
from fedgraft.wire.lazy import MadeOnce


class Messenger:
    """All traffic between the server and its clients.

    Args:
        plan: what both ends agreed on.
        runtime: carries the bytes.
        ledger: where they are charged.
        budget_bytes: the run's byte budget; 0 = none.
        deadline_seconds: how long to wait for a client; None = for ever.
        safeguards: how much clients may publish.
        before: what was done before.
    """

    def __init__(
        self,
        plan: Plan,
        runtime: Runtime,
        ledger: Ledger,
        budget_bytes: int,
        deadline_seconds: float | None,
        safeguards: Safeguards,
        before: Beginning,
    ) -> None:
        self._plan = plan
        self._exchange = Exchange(plan, runtime, ledger, deadline_seconds)
        self._halo = HaloExchange(plan, self._exchange)
        clients = len(runtime.clients())
        self.limits = Limits(plan, clients)
        self._requests = Requests(plan, self._exchange, self.limits)
        self.scorer = Scorer(plan, self._exchange, self._halo)
        self._collecting = self._collecting_of(clients, before)
        self.set_up = SetUp(plan, self._exchange, self.limits, ledger, budget_bytes, safeguards, before)
        most, hops = safeguards.hello_bytes, self._collecting.hops
        self.smoothing = SmoothingExchange(plan, self._exchange, self.limits, most, hops)

    def _collecting_of(self, clients: int, before: Beginning) -> EachReply | SecureSums:
        """Return how updates and scores of so many clients arrive."""
        if not self._plan.collection.single:
            return SecureSums(self._plan, self._exchange, self.limits, clients)
        parts = self._plan, self._requests, self.scorer
        if before.noise is None:
            return EachReply(*parts)
        from fedgraft.engine.server.sums.noised_replies import NoisedReplies  # its mathematics takes its time to import

        return NoisedReplies(*parts, before.noise, before.secret(self._plan.seed))

    def open(self, halos: Sequence[Mapping[str, Any]], tree: dict[str, Any], sum_scales: Arrays) -> None:
        """Serve a run from its start, or from where it was stored.

        `sum_scales` are as `EachReply.open` takes them, the others as `HaloExchange.open`.
        """
        give_back()  # what clients published, and what they were sent of each other, may be most of the graph
        self._halo.open(halos, tree)
        self._collecting.open(sum_scales)

    def most_training_bytes(self, client: int) -> Traffic:
        """Return the most bytes that a client's round can take."""
        kinds = ("train", *Protocol.of(self._plan).outside)
        model = Traffic(sum(map(self.limits.request_bytes, kinds)), sum(map(self.limits.reply_bytes, kinds)))
        return model.plus(self._halo.most_bytes(client)[1]).plus(self._collecting.most_bytes)

    def probe(self, models: Models, round: int, probe: Probe, progress: float) -> Replies:
        """Ask clients for losses on their own data: of the current model, or of steps that they try from it.

        Rounds are counted from 1; `progress` is as in `train`.
        """
        if probe.kind == "loss":
            return self._requests.send("probe", round, self._requests.of("probe", round, models))
        reports = {client: {"epochs": float(probe.epochs)} for client in models}
        return self._requests.send("trial", round, self._requests.of("trial", round, models, progress, reports))

    def train(
        self,
        models: Models,
        round: int,
        progress: float,
        guidance: Mapping[int, Mapping[str, float]],
        weights: Mapping[int, float],
    ) -> TrainReplies:
        """Have a cohort train to the end of its round, counted from 1.

        `progress` is the share of the run that is over, in [0, 1]; clients' learning rates follow it. `guidance` is
        {client: {name: scalar for its sampler}}, `weights` {client: what its update weighs, at least of the cohort}.
        """
        rows: dict[int, int] = {}
        begun = self._collecting.begin({client: weights[client] for client in models}, round)
        models = {client: models[client] for client in begun.weights}
        limits = {client: self.limits.reply_bytes("train") + self._halo.most_bytes(client)[0] for client in models}
        if begun.alike and not self._plan.guided and not self._halo.active:
            requests: Mapping[int, bytes] = self._requests.of("train", round, models, progress)
        else:
            requests = self._orders(models, round, progress, guidance, rows, begun)
        replies = self._exchange.send("train", round, requests, limits, halo_bytes=rows)
        replies = self._halo.finish(replies, round, limits)
        self._halo.forget(replies.failed)
        rate = self._plan.training.rate(int(progress * PROGRESS_STEPS) / PROGRESS_STEPS)
        return self._collecting.ended(begun, replies, round, rate)

    def outside_reports(self, clients: Iterable[int], round: int) -> tuple[dict[int, dict[str, float]], dict[int, str]]:
        """Ask clients by kinds of messages from outside.

        Returns {client: {name: scalar}} of those that answer all of them, and {client: reason} of the others.
        """
        reports: dict[int, dict[str, float]] = {client: {} for client in clients}
        failed: dict[int, str] = {}
        for kind in Protocol.of(self._plan).outside if reports else ():
            replies = self._requests.send(kind, round, self._requests.of(kind, round, dict.fromkeys(reports)))
            for client, message in replies.messages.items():
                reports[client] |= message.report
            silent = reports.keys() - replies.messages.keys()
            failed |= {client: replies.failed.get(client, "no answer") for client in silent}
            reports = {client: scalars for client, scalars in reports.items() if client not in failed}
        return reports, failed

    def train_silently(self, models: Models, round: int, progress: float) -> TrainReplies:
        """Have a cohort train by itself. Nothing travels but the current model, to those who lack it.

        Clients need no order for this, and their replies are but what the experimenter sees of them: both are free.
        """
        requests = self._requests.of("alone", round, models, progress)
        lacking = [client for client, model in models.items() if model is not None]
        for client in lacking:
            self._exchange.charge(round, client, "down", "alone", requests[client])
        replies = self._requests.send("alone", round, requests, charged=False)
        moved = {client: Traffic(len(requests[client]) if client in lacking else 0) for client in models}
        reports = {client: message.report for client, message in replies.messages.items()}
        return TrainReplies({}, reports, replies.failed, moved)

    def scored(self, models: Models, round: int, ahead: Ahead) -> Scoring:
        """Have clients score the models that they are sent, charged; where updates are added up, so are scores."""
        return self._collecting.scored("evaluate", models, round, ahead, self._plan.local_steps)

    def scored_smoothed(self, clients: Sequence[int], round: int, charged: bool) -> Scoring:
        """Have clients score their smoothed answers; where updates are added up, so are scores."""
        return self._collecting.scored("smoothed", dict.fromkeys(clients), round, Ahead(), charged=charged)

    @property
    def most_scoring_bytes(self) -> int:
        """The most bytes that it takes to have a client score a model."""
        return self._most_scored("evaluate")

    @property
    def most_smoothed_bytes(self) -> int:
        """The most bytes that it takes to have a client score its smoothed answers."""
        return self._most_scored("smoothed")

    def _most_scored(self, kind: str) -> int:
        return self.limits.most_bytes(kind) + self._collecting.most_bytes.total

    def evaluate(self, models: Models, round: int, ahead: Ahead) -> Replies:
        """Send models to be scored, charged; clients that keep models need none. `ahead` says what comes next."""
        requests = self._requests.of("evaluate", round, models, ahead.progress, ahead.reports)
        return self._requests.send("evaluate", round, requests)

    def _orders(
        self,
        models: Models,
        round: int,
        progress: float,
        guidance: Mapping[int, Mapping[str, float]],
        rows: dict[int, int],
        begun: SumRound,
    ) -> Mapping[int, bytes]:
        """{client: order to train}, encoded when it is sent: others are at work by then. Fills {client: row bytes}."""
        layout, names = Protocol.of(self._plan).request_layouts["train"], Protocol.of(self._plan).request_names["train"]

        def order(client: int) -> bytes:
            model, arrays = models[client], None
            if model is not None:
                halo = self._halo.with_order(client, round)
                arrays = {**model, **halo, **begun.arrays(client)}
                rows[client] = halo_bytes(halo, self._plan.coded_halo_layout) if halo else 0
            progressed = int(progress * PROGRESS_STEPS)
            report = {**guidance.get(client, {}), **begun.report(client)}
            return wire.encode(Message("train", round, report, arrays, progress=progressed), layout, names)

        return MadeOnce(models, order)
