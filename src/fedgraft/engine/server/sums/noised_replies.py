"""Each client's update by itself, for a server that is trusted: what is merged is their mean with noise."""

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np

from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.central import CentralMechanism
from fedgraft.engine.privacy.private_sums import flat, parts
from fedgraft.engine.server.exchange import Replies
from fedgraft.engine.server.rounds.collecting import Collecting, SumRound
from fedgraft.engine.server.rounds.each_reply import EachReply
from fedgraft.engine.server.rounds.next_round import Ahead
from fedgraft.engine.server.rounds.requests import Models
from fedgraft.engine.server.rounds.safeguards import norm
from fedgraft.engine.server.rounds.scoring import Scoring
from fedgraft.engine.server.rounds.train_replies import TOGETHER, TrainReplies
from fedgraft.engine.server.server_secret import ServerSecret
from fedgraft.engine.server.smoothing.hops import Hops
from fedgraft.engine.server.sums.central_noise import CentralNoise
from fedgraft.wire.layouts import Arrays

LENGTH: Final = "length"
"""Name under which the run's state has the clipped length of the next round."""


class NoisedReplies(Collecting):
    """Decode what each client of a round has sent, and make one update with noise of it, of `TOGETHER`.

    Args:
        plan: what both ends agreed on.
        each: decodes replies.
        mechanism: how much noise.
        secret: where it is drawn from.
    """

    hops: ClassVar[type[Hops]] = Hops

    def __init__(self, plan: Plan, each: EachReply, mechanism: CentralMechanism, secret: ServerSecret) -> None:
        self._plan, self._each, self._weight = plan, each, mechanism.cohort
        self._noise = CentralNoise(mechanism, secret)
        self._scales: Arrays = {}

    def open(self, scales: Arrays) -> None:
        """Serve a run from its start, or from where it was stored: `scales` is changed in place."""
        self._scales = scales

    def begin(self, weights: Mapping[int, float], round: int) -> SumRound:
        """Return the whole cohort; all weigh the same."""
        return self._each.begin(weights, round)

    def ended(self, begun: SumRound, replies: Replies, round: int, rate: float) -> TrainReplies:
        """Return the mean with noise, of nobody, too; the clipped length of the next round is noted."""
        trained, layout = self._each.ended(begun, replies, round, rate), self._plan.upload_layout
        length = float(self._scales.get(LENGTH, self._plan.privacy.clip))
        updates = {client: flat(arrays, layout) for client, arrays in trained.uploads.items()}
        mean, following = self._noise.mean(updates, round, length)
        self._scales[LENGTH] = np.array(following, np.float64)
        made = parts(mean, layout)
        known = {TOGETHER: norm(made)}, {TOGETHER: self._weight}
        return TrainReplies({TOGETHER: made}, trained.reports, trained.failed, trained.bytes, trained.waits, *known)

    def scored(
        self, kind: str, models: Models, round: int, ahead: Ahead, after: bool = False, charged: bool = True
    ) -> Scoring:
        """Return the scores of each client, and their sums."""
        return self._each.scored(kind, models, round, ahead, after, charged)
