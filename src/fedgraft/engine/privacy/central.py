"""The noise of a server that is trusted: on a sum of clipped updates, and on the count of short ones."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

from fedgraft.engine.privacy.mechanism import Mechanism
from fedgraft.engine.privacy.options import CLIENT, Privacy
from fedgraft.errors import InputError
from fedgraft.secrets.accountant import Released, epsilon_of, noise_for
from fedgraft.secrets.noise_shares import divergence, noise_multiplier, share_variance

RATE: Final = 0.2
"""How far the logarithm of the length goes for each share of updates that is too short or too long."""
COUNTED: Final = 20.0
"""The count's noise is a cohort divided by this."""


def count_noise(cohort: float) -> float:
    """Return the deviation of the noise on a count, sigma_b = cohort / 20, of which one client can change a half."""
    return cohort / COUNTED


def update_noise(noise: float, counting: float) -> float:
    """Return the noise of the sum with which it and the count together tell as much as one sum with `noise`.

    (z**-2 - (2 sigma_b)**-2)**(-1/2), Theorem 1: each client adds 1/2 to the count, or takes it away.

    Args:
        noise: z, deviation in units of the sensitivity, > 0.
        counting: sigma_b, > 0.

    Raises `InputError` where the count tells more than both may.
    """
    left = noise**-2 - (2 * counting) ** -2
    if not left > 0:
        least = math.ceil(COUNTED * noise / 2) + 1
        raise InputError(
            f"privacy.target_quantile must be 0, for a fixed privacy.clip, or the cohort at least {least} clients on "
            f"average: with {counting * COUNTED:g} the count of short updates would tell more than privacy.epsilon."
        )
    return 1 / math.sqrt(left)


def following(length: float, shorter: float, quantile: float) -> float:
    """Return the next clipped length: C exp(-0.2 (b - gamma)).

    Args:
        length: C, of the round before, > 0.
        shorter: b, the share of updates that were no longer, with noise: any number.
        quantile: gamma, the share that is to be, in (0, 1).
    """
    return length * math.exp(-RATE * (shorter - quantile))


_FINE, _MANY = 64, 4096.0
"""Steps of what one client can change in the count, of which a finer grid would hardly need less noise; and the count's
deviation in clients from which on one step is enough. Ours."""
_MORE: Final = 1.001
"""Factor by which noise grows until the claim holds."""
_RAREST: Final = 60.0
"""How far below delta one unit's delta is looked for, in logarithms."""
_CLOSE: Final = 0.05
"""How closely: a coarse one claims more."""


@dataclass(frozen=True)
class CentralMechanism:
    """Discrete Gaussian noise on the sum of a round's updates, in units of the round's clipped length.

    Args:
        privacy: what is asked for.
        rounds: sums, >= 1.
        dimension: numbers of an update, >= 1.
        share: probability of each client to be in a round's sum, drawn in secret, in (0, 1].
        cohort: clients of a round on average, > 0, by which a sum is divided whoever is in it.
        target: deviation of the noise of sum and count together, in units of their sensitivity.
    """

    privacy: Privacy
    rounds: int
    dimension: int
    share: float
    cohort: float
    target: float

    @property
    def adaptive(self) -> bool:
        """Whether the clipped length follows updates."""
        return self.privacy.target_quantile > 0

    @cached_property
    def of_sum(self) -> Mechanism:
        """The noise of the sum of updates that were cut to length 1, all of it in one share."""
        noise = self.target
        if self.adaptive:
            noise = update_noise(noise, count_noise(self.cohort))
        alone = Privacy(unit=CLIENT, epsilon=self.privacy.epsilon, delta=self.privacy.delta, clip=1.0, shares=1)
        return Mechanism(alone, self.rounds, self.dimension, noise)

    @property
    def count_steps(self) -> int:
        """Int, steps that a client adds to the count, or takes away from it."""
        return _FINE if count_noise(self.cohort) < _MANY else 1

    @cached_property
    def of_count(self) -> Fraction:
        """Variance of the count's noise, in squared steps."""
        return share_variance(2 * count_noise(self.cohort), 1, self.count_steps)

    @cached_property
    def released(self) -> Released:
        """All rounds, as the accountant counts them: of sum and count, which are one Gaussian."""
        noise, far = self.of_sum.released.noise, self.of_sum.released.divergence
        if self.adaptive:
            counted = noise_multiplier(self.of_count, 1, self.count_steps)
            noise, far = (noise**-2 + counted**-2) ** -0.5, far + divergence(self.of_count, 1, 1)
        return Released(noise, self.rounds, self.share, far)

    @cached_property
    def epsilon(self) -> float:
        """Float, what is claimed of all rounds at `privacy.delta`, where nobody is told who took part."""
        return epsilon_of([self.released], self.privacy.delta)

    @cached_property
    def told(self) -> float:
        """Float, the same where it is told who took part in which round."""
        return epsilon_of([replace(self.released, share=1.0)], self.privacy.delta)

    @cached_property
    def replaced(self) -> float:
        """Float, epsilon where a client's data are others: the less of two bounds.

        Either it leaves and another one comes (group privacy), or it moves each sum twice as far, in every round.
        """
        part = self.released
        twice = epsilon_of([replace(part, share=1.0, noise=part.noise / 2)], self.privacy.delta)
        return min(twice, _of_two([part], self.privacy.delta))

    @property
    def noise_norm(self) -> float:
        """Float, length of a sum's noise as it usually is, in clipped lengths."""
        return self.of_sum.noise_norm

    @property
    def least_units(self) -> int:
        """Clients of which one sum tells as much as it hides, if their updates agree."""
        return math.ceil(self.noise_norm)


@lru_cache(maxsize=64)
def central_mechanism(privacy: Privacy, rounds: int, dimension: int, share: float, cohort: float) -> CentralMechanism:
    """Return the mechanism with the least noise for what is asked for; arguments are as of `CentralMechanism`.

    Raises `InputError` where cohorts are too small to count short updates.
    """
    noise = noise_for(privacy.epsilon, privacy.delta, rounds, share)
    made = CentralMechanism(privacy, rounds, dimension, share, cohort, noise)
    while made.epsilon > privacy.epsilon:
        made = replace(made, target=made.target * _MORE)
    return made


def _of_two(parts: list[Released], delta: float) -> float:
    """Return epsilon for data sets that differ in two units: 2 e at delta (1 + exp(e)) for one's (e, delta).

    Source: group privacy, Vadhan, "The Complexity of Differential Privacy", 2017, Lemma 2.2.
    """
    low, high, found = math.log(delta) - _RAREST, math.log(delta / 2), math.inf
    while high - low > _CLOSE:
        middle = (low + high) / 2
        one = epsilon_of(parts, math.exp(middle))
        if middle + one + math.log1p(math.exp(-one)) <= math.log(delta):
            low, found = middle, 2 * one
        else:
            high = middle
    return found
