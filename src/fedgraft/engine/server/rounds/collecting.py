"""The server's part in `privacy.collection`: how a round's updates and scores arrive.

Of requests that bring a model or scalars equal ones are encoded once, and one limit holds for all replies.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from fedgraft import wire
from fedgraft.engine import coded_arrays
from fedgraft.engine.plan import PROGRESS_STEPS, Plan, split_sampler
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.exchange import Exchange, Replies, Traffic, check_finite
from fedgraft.engine.server.limits import Limits
from fedgraft.engine.server.rounds.next_round import Ahead, Models, Reports
from fedgraft.engine.server.rounds.safeguards import norm
from fedgraft.engine.server.rounds.scoring import Scorer, Scoring
from fedgraft.engine.server.smoothing import Hops
from fedgraft.errors import ClientError, WireError, printable
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays

NOTHING: Final[Reports] = {}
"""No scalars for anybody."""


class Requests:
    """Encode requests, and send them.

    Args:
        plan: what both ends agreed on.
        exchange: sends them.
        limits: of replies.
    """

    def __init__(self, plan: Plan, exchange: Exchange, limits: Limits) -> None:
        self._protocol, self._exchange, self.limits = Protocol.of(plan), exchange, limits

    def send(self, kind: str, round: int, requests: Mapping[int, bytes], charged: bool = True) -> Replies:
        """Send requests of a kind, {client: bytes}."""
        limits = dict.fromkeys(requests, self.limits.reply_bytes(kind))
        return self._exchange.send(kind, round, requests, limits, charged)

    def of(
        self, kind: str, round: int, models: Models, progress: float = 0.0, reports: Reports = NOTHING
    ) -> dict[int, bytes]:
        """Return {client: request} with its model and its scalars; `progress` is in [0, 1]."""
        encoded: dict[tuple[int, tuple[float, ...]], bytes] = {}
        layout, names = self._protocol.request_layouts.get(kind), self._protocol.request_names.get(kind, ())
        keys = {client: (id(model), tuple(reports.get(client, {}).values())) for client, model in models.items()}
        for client, model in models.items():
            if keys[client] not in encoded:
                report, steps = reports.get(client, {}), int(progress * PROGRESS_STEPS)
                encoded[keys[client]] = wire.encode(Message(kind, round, report, model, progress=steps), layout, names)
        return {client: encoded[key] for client, key in keys.items()}


TOGETHER: Final = -1
"""In place of a client: all whose updates were added up before the server saw them."""


@dataclass(frozen=True)
class TrainReplies:
    """Results of a training at the clients.

    `uploads` are {client: decoded upload}, finite; empty where nothing is sent, and of `TOGETHER` alone where updates
    are added up. `reports` are {client: {name: scalar}} of those that answered, `failed` {client: reason}, `bytes`
    {client: `Traffic` of its messages}, `waits` {client: number of pauses for halo rows}, of those that paused. `norms`
    are {client: norm of its upload's parameters}, where it is known: the look at each number gives it, too. `weights`
    are {`TOGETHER`: what they weigh}, or empty.
    """

    uploads: Mapping[int, Arrays] = field(default_factory=dict)
    reports: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    failed: Mapping[int, str] = field(default_factory=dict)
    bytes: Mapping[int, Traffic] = field(default_factory=dict)
    waits: Mapping[int, int] = field(default_factory=dict)
    norms: Mapping[int, float] = field(default_factory=dict)
    weights: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SumRound:
    """A cohort that is about to train.

    Args:
        weights: {client that takes part: what its update weighs, >= 1}.
    """

    weights: Mapping[int, float]

    @property
    def alike(self) -> bool:
        """Whether its orders hold nothing but what other orders of the round hold."""
        return True

    def report(self, client: int) -> dict[str, float]:
        """Return the scalars that a client is told beside the order to train."""
        return {}

    def arrays(self, client: int) -> Arrays:
        """Return the arrays that it is told."""
        return {}


class EachReply:
    """Decode what each client of a round has sent; `SecureSums` collects by sums.

    Args:
        plan: what both ends agreed on.
        requests: sends them.
        scorer: adds up scores.
    """

    hops: ClassVar[type[Hops]] = Hops
    """How answers that are smoothed are asked for."""
    most_bytes: Traffic = Traffic()
    """The most that it takes with a client beside its order and its reply."""

    def __init__(self, plan: Plan, requests: Requests, scorer: Scorer) -> None:
        self._plan, self._requests, self._scorer = plan, requests, scorer

    def open(self, scales: Arrays) -> None:
        """Serve a run from its start, or from where it was stored: `scales` is changed in place."""

    def begin(self, weights: Mapping[int, float], round: int) -> SumRound:
        """Return the whole cohort, {client: what its update weighs}."""
        return SumRound(weights)

    def ended(self, begun: SumRound, replies: Replies, round: int, rate: float) -> TrainReplies:
        """Return the uploads of all whose replies can be decoded."""
        uploads, norms, refused = self._uploads(replies)
        replies = replies.without(refused)
        reports = {client: message.report for client, message in replies.messages.items()}
        return TrainReplies(uploads, reports, replies.failed, replies.bytes, replies.waits, norms)

    def scored(
        self, kind: str, models: Models, round: int, ahead: Ahead, after: bool = False, charged: bool = True
    ) -> Scoring:
        """Return the scores of each client, and their sums."""
        requests = self._requests.of(kind, round, models, ahead.progress, ahead.reports)
        return self._scorer.summed(self._requests.send(kind, round, requests, charged), after)

    def _uploads(self, replies: Replies) -> tuple[dict[int, Arrays], dict[int, float], dict[int, str]]:
        """{client: decoded upload}, {client: norm of its parameters}, and {client: why it is refused}."""
        uploads: dict[int, Arrays] = {}
        norms: dict[int, float] = {}
        refused: dict[int, str] = {}
        for client, message in replies.messages.items():
            try:
                coded = coded_arrays.whole_upload(self._plan, message.arrays or {})
                decoded = self._plan.uplink.decode(coded, self._plan.upload_layout)
                parameters, shared = split_sampler(decoded)
                size = norm(parameters)
                check_finite(shared if math.isfinite(size) else decoded)
                uploads[client], norms[client] = decoded, size
            except (WireError, ClientError) as error:
                refused[client] = printable(str(error))
        return uploads, norms, refused
