"""Each client's update by itself, for a server that is trusted: what is merged is their mean with noise."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.central import CentralMechanism, following
from fedgraft.engine.privacy.private_sums import flat, parts
from fedgraft.engine.server.beginning import ServerSecret
from fedgraft.engine.server.exchange import Replies
from fedgraft.engine.server.rounds.collecting import TOGETHER, EachReply, Requests, SumRound, TrainReplies
from fedgraft.engine.server.rounds.safeguards import norm
from fedgraft.engine.server.rounds.scoring import Scorer
from fedgraft.secrets.discrete_gaussian import discrete_gaussian
from fedgraft.secrets.rounding import rounded
from fedgraft.wire.layouts import Arrays

Numbers = NDArray[np.float64]


class CentralNoise:
    """Clip updates, add them up in whole steps, and add noise; count those that are short, with noise.

    Clients that did not train, or failed, count as zero: the sum is divided by how many there are on average. So a
    round of nobody has noise alone, and tells as little as any other.

    Args:
        mechanism: how much noise.
        secret: where it is drawn from.
    """

    def __init__(self, mechanism: CentralMechanism, secret: ServerSecret) -> None:
        self._mechanism, self._secret = mechanism, secret

    def mean(self, updates: Mapping[int, Numbers], round: int, length: float) -> tuple[Numbers, float]:
        """Return the mean of a round's updates with noise, float64 [numbers], and the length to cut to next.

        Args:
            updates: {client: its numbers, finite}.
            round: from 1.
            length: to which they are cut, > 0.
        """
        mechanism = self._mechanism
        total, shorter, step = np.zeros(mechanism.dimension, np.int64), 0, mechanism.count_steps
        for client, numbers in sorted(updates.items()):
            cut, short = shortened(numbers / length)
            total += self.steps(cut, round, client)
            shorter += step if short else -step
        hidden = [total, np.array([shorter]), np.array([length])]
        words = self._secret.words("noise", round, content=hidden)
        noisy = total + discrete_gaussian(mechanism.of_sum.variance, mechanism.dimension, words)
        mean = noisy.astype(np.float64) * (mechanism.of_sum.step * length / mechanism.cohort)
        if not mechanism.adaptive:
            return mean, length
        words = self._secret.words("count", round, content=hidden)
        counted = shorter + int(discrete_gaussian(mechanism.of_count, 1, words)[0])
        share = 0.5 + counted / (2 * step * mechanism.cohort)
        return mean, following(length, share, mechanism.privacy.target_quantile)

    def steps(self, numbers: Numbers, round: int, client: int) -> NDArray[np.int64]:
        """Return a client's update, no longer than 1, in whole steps, rounded at random until it is short enough."""
        noise = self._mechanism.of_sum
        words = self._secret.words("rounding", round, client, [numbers])
        return rounded(numbers, 1.0, noise.step, noise.failure, words)


def shortened(numbers: Numbers) -> tuple[Numbers, bool]:
    """Return numbers cut to length 1, and whether they were no longer before."""
    size = float(np.linalg.norm(numbers))
    return numbers / max(1.0, size), size <= 1


LENGTH: Final = "length"
"""Name under which the run's state has the clipped length of the next round."""


class NoisedReplies(EachReply):
    """Decode what each client of a round has sent, and make one update with noise of it, of `TOGETHER`.

    Args:
        plan: what both ends agreed on.
        requests: sends them.
        scorer: adds up scores.
        mechanism: how much noise.
        secret: where it is drawn from.
    """

    def __init__(
        self, plan: Plan, requests: Requests, scorer: Scorer, mechanism: CentralMechanism, secret: ServerSecret
    ) -> None:
        super().__init__(plan, requests, scorer)
        self._noise, self._weight = CentralNoise(mechanism, secret), mechanism.cohort
        self._scales: Arrays = {}

    def open(self, scales: Arrays) -> None:
        """Serve a run from its start, or from where it was stored: `scales` is changed in place."""
        self._scales = scales

    def ended(self, begun: SumRound, replies: Replies, round: int, rate: float) -> TrainReplies:
        """Return the mean with noise, of nobody, too; the clipped length of the next round is noted."""
        trained, layout = super().ended(begun, replies, round, rate), self._plan.upload_layout
        length = float(self._scales.get(LENGTH, self._plan.privacy.clip))
        updates = {client: flat(arrays, layout) for client, arrays in trained.uploads.items()}
        mean, following = self._noise.mean(updates, round, length)
        self._scales[LENGTH] = np.array(following, np.float64)
        made = parts(mean, layout)
        known = {TOGETHER: norm(made)}, {TOGETHER: self._weight}
        return TrainReplies({TOGETHER: made}, trained.reports, trained.failed, trained.bytes, trained.waits, *known)
