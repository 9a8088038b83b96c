"""Make one update with noise of all that arrived in a round: what a trusted server lets others see of them."""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy import adaptive_clipping
from fedgraft.engine.privacy.central import COUNT_STEPS, CentralMechanism
from fedgraft.engine.privacy.private_sums import flat, parts
from fedgraft.engine.server.arrivals import Arrived
from fedgraft.engine.server.run_state import RunState
from fedgraft.engine.server.safeguards import norm
from fedgraft.engine.server.server_secret import ServerSecret
from fedgraft.engine.server.trained import TOGETHER
from fedgraft.secrets.discrete_gaussian import discrete_gaussian
from fedgraft.secrets.rounding import rounded

LENGTH: Final = "length"
"""Key of the run's state: the clipped length of the next round."""


class CentralNoise:
    """Clip updates, add them up in whole steps, and add noise; count those that are short, with noise.

    Clients that did not train, or failed, count as zero: the sum is divided by how many there are on average. So a
    round of nobody has noise alone, and tells as little as any other.

    Args:
        plan: what is private, and how updates are laid out.
        mechanism: how much noise.
        secret: where it is drawn from.
    """

    def __init__(self, plan: Plan, mechanism: CentralMechanism, secret: ServerSecret) -> None:
        self._plan, self._mechanism, self._secret = plan, mechanism, secret

    def released(self, state: RunState, arrived: Arrived, round: int) -> Arrived:
        """Return what arrived in a round with one update in place of clients', that of `TOGETHER`.

        The clipped length of the next round is noted in the run's state.
        """
        mechanism = self._mechanism
        length = state.clipping.get(LENGTH, self._plan.privacy.clip)
        total, shorter = np.zeros(mechanism.dimension, np.int64), 0
        for client, arrays in sorted(arrived.trained.uploads.items()):
            numbers = flat(arrays, self._plan.upload_layout) / length
            size = float(np.linalg.norm(numbers))
            total += self._steps(numbers / max(1.0, size), round, client)
            shorter += COUNT_STEPS if size <= 1 else -COUNT_STEPS
        hidden = [total, np.array([shorter]), np.array([length])]
        words = self._secret.words("noise", round, content=hidden)
        noisy = total + discrete_gaussian(mechanism.of_sum.variance, mechanism.dimension, words)
        unit = mechanism.of_sum.step * length / mechanism.cohort
        mean = parts(noisy.astype(np.float64) * unit, self._plan.upload_layout)
        if mechanism.adaptive:
            words = self._secret.words("count", round, content=hidden)
            told = shorter + int(discrete_gaussian(mechanism.of_count, 1, words)[0])
            share = 0.5 + told / (2 * COUNT_STEPS * mechanism.cohort)
            quantile = self._plan.privacy.target_quantile
            state.clipping[LENGTH] = adaptive_clipping.following(length, share, quantile)
        norms, weights = {TOGETHER: norm(mean)}, {TOGETHER: mechanism.cohort}
        trained = replace(arrived.trained, uploads={TOGETHER: mean}, norms=norms, weights=weights)
        return replace(arrived, trained=trained, weights={TOGETHER: 1.0})

    def _steps(self, numbers: NDArray[np.float64], round: int, client: int) -> NDArray[np.int64]:
        """Return a client's update, no longer than 1, in whole steps, rounded at random until it is short enough."""
        noise = self._mechanism.of_sum
        words = self._secret.words("rounding", round, client, [numbers])
        return rounded(numbers, 1.0, noise.step, noise.failure, words)
