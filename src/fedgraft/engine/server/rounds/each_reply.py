"""Each client's update and scores by themselves: the server decodes every one."""

import math
from collections.abc import Mapping
from typing import ClassVar

from fedgraft.engine import unchanged
from fedgraft.engine.plan import Plan, split_sampler
from fedgraft.engine.server.exchange import Replies, check_finite
from fedgraft.engine.server.rounds.collecting import Collecting, SumRound
from fedgraft.engine.server.rounds.next_round import Ahead
from fedgraft.engine.server.rounds.requests import Models, Requests
from fedgraft.engine.server.rounds.safeguards import norm
from fedgraft.engine.server.rounds.scoring import Scorer, Scoring
from fedgraft.engine.server.rounds.train_replies import TrainReplies
from fedgraft.engine.server.smoothing.hops import Hops
from fedgraft.errors import ClientError, WireError, printable
from fedgraft.wire.layouts import Arrays


class EachReply(Collecting):
    """Decode what each client of a round has sent.

    Args:
        plan: what both ends agreed on.
        requests: sends them.
        scorer: adds up scores.
    """

    hops: ClassVar[type[Hops]] = Hops

    def __init__(self, plan: Plan, requests: Requests, scorer: Scorer) -> None:
        self._plan, self._requests, self._scorer = plan, requests, scorer

    def begin(self, weights: Mapping[int, float], round: int) -> SumRound:
        """Return the whole cohort."""
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
                coded = unchanged.whole_upload(self._plan, message.arrays or {})
                decoded = self._plan.uplink.decode(coded, self._plan.upload_layout)
                parameters, shared = split_sampler(decoded)
                size = norm(parameters)
                check_finite(shared if math.isfinite(size) else decoded)
                uploads[client], norms[client] = decoded, size
            except (WireError, ClientError) as error:
                refused[client] = printable(str(error))
        return uploads, norms, refused
