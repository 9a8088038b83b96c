"""Requests of a round, kind by kind: probe, try, train, train without a word, evaluate.

How one exchange of messages is trusted and charged is `exchange`; how rounds go on where clients pause for halo rows is
`halo_exchange`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedgraft import wire
from fedgraft.contracts import Probe, Runtime
from fedgraft.engine import unchanged
from fedgraft.engine.allocator import give_back
from fedgraft.engine.plan import PROGRESS_STEPS, Plan, split_sampler
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.sums import SCORES, SMOOTHED_SCORES
from fedgraft.engine.server.ahead import Ahead, Reports
from fedgraft.engine.server.beginning import Beginning
from fedgraft.engine.server.exchange import Exchange, Replies, Traffic, check_finite, halo_bytes
from fedgraft.engine.server.halo_exchange import HaloExchange
from fedgraft.engine.server.ledger import Ledger
from fedgraft.engine.server.limits import Limits
from fedgraft.engine.server.safeguards import Safeguards, norm
from fedgraft.engine.server.scoring import Scorer, Scoring
from fedgraft.engine.server.secure_sums import Begun, SecureSums
from fedgraft.engine.server.set_up import SetUp
from fedgraft.engine.server.smoothing import SmoothingExchange
from fedgraft.engine.server.trained import Trained
from fedgraft.errors import ClientError, WireError, printable
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays
from fedgraft.wire.lazy import MadeOnce

Models = Mapping[int, Arrays | None]
"""{client: the encoded model that it is sent}; None for one that has it. Equal models are one object."""
NOTHING: Reports = {}
"""No scalars for anybody."""


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
        self._sums = SecureSums(plan, self._exchange, clients) if plan.secure_sum.active else None
        self.limits = Limits(plan, clients)
        self.set_up = SetUp(plan, self._exchange, self.limits, ledger, budget_bytes, safeguards, before)
        self.smoothing = SmoothingExchange(plan, self._exchange, self.limits, safeguards.hello_bytes)
        self.scorer = Scorer(plan, self._exchange, self._halo)

    def open(self, halos: Sequence[Mapping[str, Any]], tree: dict[str, Any], sum_scales: Arrays) -> None:
        """Serve a run from its start, or from where it was stored.

        `sum_scales` are as `SecureSums.open` takes them, the others as `HaloExchange.open`.
        """
        give_back()  # what clients published, and what they were sent of each other, may be most of the graph
        self._halo.open(halos, tree)
        if self._sums:
            self._sums.open(sum_scales)

    def most_training_bytes(self, client: int) -> Traffic:
        """Return the most bytes that a client's round can take."""
        model = Traffic(self.limits.request_bytes("train"), self.limits.reply_bytes("train"))
        masks = self._sums.most_bytes if self._sums else Traffic()
        return model.plus(self._halo.most_bytes(client)[1]).plus(masks)

    def probe(self, models: Models, round: int, probe: Probe, progress: float) -> Replies:
        """Ask clients for losses on their own data: of the current model, or of steps that they try from it.

        Rounds are counted from 1; `progress` is as in `train`.
        """
        if probe.kind == "loss":
            return self._send("probe", round, self._requests("probe", round, models))
        reports = {client: {"epochs": float(probe.epochs)} for client in models}
        return self._send("trial", round, self._requests("trial", round, models, progress, reports))

    def train(
        self,
        models: Models,
        round: int,
        progress: float,
        guidance: Mapping[int, Mapping[str, float]],
        weights: Mapping[int, float],
    ) -> Trained:
        """Have a cohort train to the end of its round, counted from 1.

        `progress` is the share of the run that is over, in [0, 1]; clients' learning rates follow it. `guidance` is
        {client: {name: scalar for its sampler}}, `weights` {client: what its update weighs, at least of the cohort}.
        """
        rows: dict[int, int] = {}
        begun = self._sums.begin({client: weights[client] for client in models}, round) if self._sums else None
        if begun:
            models = {client: models[client] for client in begun.weights}
        limits = {client: self.limits.reply_bytes("train") + self._halo.most_bytes(client)[0] for client in models}
        if begun or self._plan.guided or self._halo.active:
            requests = self._orders(models, round, progress, guidance, rows, begun)
        else:
            requests = self._requests("train", round, models, progress)
        replies = self._exchange.send("train", round, requests, limits, halo_bytes=rows)
        replies = self._halo.finish(replies, round, limits)
        self._halo.forget(replies.failed)
        if self._sums and begun:
            rate = self._plan.training.rate(int(progress * PROGRESS_STEPS) / PROGRESS_STEPS)
            return self._sums.ended(begun, replies, round, rate)
        uploads, norms, refused = self._uploads(replies)
        replies = replies.without(refused)
        reports = {client: message.report for client, message in replies.messages.items()}
        return Trained(uploads, reports, replies.failed, replies.bytes, replies.waits, norms)

    def train_silently(self, models: Models, round: int, progress: float) -> Trained:
        """Have a cohort train by itself. Nothing travels but the current model, to those who lack it.

        Clients need no order for this, and their replies are but what the experimenter sees of them: both are free.
        """
        requests = self._requests("alone", round, models, progress)
        lacking = [client for client, model in models.items() if model is not None]
        for client in lacking:
            self._exchange.charge(round, client, "down", "alone", requests[client])
        replies = self._send("alone", round, requests, charged=False)
        moved = {client: Traffic(len(requests[client]) if client in lacking else 0) for client in models}
        reports = {client: message.report for client, message in replies.messages.items()}
        return Trained({}, reports, replies.failed, moved)

    def scored(self, models: Models, round: int, ahead: Ahead) -> Scoring:
        """Have clients score the models that they are sent, charged; where updates are added up, so are scores."""
        if self._sums is None:
            return self.scorer.summed(self.evaluate(models, round, ahead), self._plan.local_steps)
        return self._scored_together(self._sums, "evaluate", round, SCORES, models)

    def scored_smoothed(self, clients: Sequence[int], round: int, charged: bool) -> Scoring:
        """Have clients score their smoothed answers; where updates are added up, so are scores."""
        if self._sums is None:
            return self.scorer.summed(self.smoothing.measure(clients, round, charged))
        return self._scored_together(self._sums, "smoothed", round, SMOOTHED_SCORES, dict.fromkeys(clients))

    def _scored_together(self, sums: SecureSums, kind: str, round: int, segment: int, models: Models) -> Scoring:
        """Have clients add their scores up, of the models that they are sent, or of what they remember."""
        masked, layout = sums.scored_by(models, round, segment), Protocol.of(self._plan).request_layouts.get(kind)
        nothing: dict[int, Arrays] = {client: {} for client in models}
        orders = {client: masked.order(client) for client in masked.peers} if masked else nothing
        told = {client: {**(models[client] or {}), **more} for client, more in orders.items()}
        requests = {
            client: wire.encode(Message(kind, round, arrays=arrays if layout else None), layout)
            for client, arrays in told.items()
        }
        limits = dict.fromkeys(requests, self.limits.reply_bytes(kind))
        return sums.scored(masked, self._exchange.send(kind, round, requests, limits))

    @property
    def most_scoring_bytes(self) -> int:
        """The most bytes that it takes to have a client score a model."""
        return self._most_scored("evaluate")

    @property
    def most_smoothed_bytes(self) -> int:
        """The most bytes that it takes to have a client score its smoothed answers."""
        return self._most_scored("smoothed")

    def _most_scored(self, kind: str) -> int:
        return self.limits.most_bytes(kind) + (self._sums.most_bytes.total if self._sums else 0)

    def evaluate(self, models: Models, round: int, ahead: Ahead) -> Replies:
        """Send models to be scored, charged; clients that keep models need none. `ahead` says what comes next."""
        return self._send("evaluate", round, self._requests("evaluate", round, models, ahead.progress, ahead.reports))

    def _uploads(self, replies: Replies) -> tuple[dict[int, Arrays], dict[int, float], dict[int, str]]:
        """{client: decoded upload}, {client: norm of its parameters}, and {client: why it is refused}."""
        uploads: dict[int, Arrays] = {}
        norms: dict[int, float] = {}
        refused: dict[int, str] = {}
        for client, message in replies.messages.items():
            try:
                coded = unchanged.whole_upload(self._plan, message.arrays or {})
                decoded = self._plan.uplink.decode(coded, self._plan.upload_layout)
                parameters, shared = split_sampler(decoded)
                size = norm(parameters)
                check_finite(shared if math.isfinite(size) else decoded)
                uploads[client], norms[client] = decoded, size
            except (WireError, ClientError) as error:
                refused[client] = printable(str(error))
        return uploads, norms, refused

    def _send(self, kind: str, round: int, requests: Mapping[int, bytes], charged: bool = True) -> Replies:
        """An exchange in which one limit holds for all replies."""
        limits = dict.fromkeys(requests, self.limits.reply_bytes(kind))
        return self._exchange.send(kind, round, requests, limits, charged)

    def _requests(
        self, kind: str, round: int, models: Models, progress: float = 0.0, reports: Reports = NOTHING
    ) -> dict[int, bytes]:
        """{client: request} with its model and its scalars; equal ones are encoded once."""
        encoded: dict[tuple[int, tuple[float, ...]], bytes] = {}
        layout, names = (
            Protocol.of(self._plan).request_layouts[kind],
            Protocol.of(self._plan).request_names.get(kind, ()),
        )
        keys = {client: (id(model), tuple(reports.get(client, {}).values())) for client, model in models.items()}
        for client, model in models.items():
            if keys[client] not in encoded:
                report, steps = reports.get(client, {}), int(progress * PROGRESS_STEPS)
                encoded[keys[client]] = wire.encode(Message(kind, round, report, model, progress=steps), layout, names)
        return {client: encoded[key] for client, key in keys.items()}

    def _orders(
        self,
        models: Models,
        round: int,
        progress: float,
        guidance: Mapping[int, Mapping[str, float]],
        rows: dict[int, int],
        begun: Begun | None,
    ) -> Mapping[int, bytes]:
        """{client: order to train}, encoded when it is sent: others are at work by then. Fills {client: row bytes}."""
        layout, names = Protocol.of(self._plan).request_layouts["train"], Protocol.of(self._plan).request_names["train"]

        def order(client: int) -> bytes:
            model, arrays = models[client], None
            if model is not None:
                halo = self._halo.with_order(client, round)
                arrays = {**model, **halo, **(begun.arrays(client) if begun else {})}
                rows[client] = halo_bytes(halo, self._plan.coded_halo_layout) if halo else 0
            progressed = int(progress * PROGRESS_STEPS)
            report = {**guidance.get(client, {}), **(begun.report(client) if begun else {})}
            return wire.encode(Message("train", round, report, arrays, progress=progressed), layout, names)

        return MadeOnce(models, order)
