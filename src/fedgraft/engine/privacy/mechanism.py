"""The noise that privacy takes: how much, in which steps, and what is claimed of it."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

from fedgraft.engine.privacy.options import Privacy
from fedgraft.secrets import rounding
from fedgraft.secrets.accountant import Answered, Released, epsilon_of, noise_for
from fedgraft.secrets.noise_shares import divergence, noise_multiplier, share_variance

_ROUNDING: Final = 0.2
"""What rounding one unit's part to steps moves it by at most, in its clipped length; it makes noise 1 % larger.."""
_FINER: Final = 0.02
"""The same where a unit's part reaches few numbers: there it costs few bits."""
_FAILURES: Final = 1e-4
"""Share of delta that pays for roundings that lengthen a unit's part by more than is allowed for. Ours."""
_WRAPPED: Final = 1e-9
"""Most probability that any number of a sum wraps around."""
_MORE: Final = 1.001
"""Factor by which noise grows until the claim holds: the way from discrete noise to a continuous one costs a hair."""


@dataclass(frozen=True)
class Mechanism:
    """Discrete Gaussian noise on sums of a round.

    Args:
        privacy: what is asked for; its `shares` are known.
        rounds: sums, >= 1, of which a unit can be a part.
        dimension: numbers of a sum, >= 1.
        target: deviation of a sum's noise in units of its sensitivity.
        reach: numbers of a sum that one unit's part can change; 0 = all.
    """

    privacy: Privacy
    rounds: int
    dimension: int
    target: float
    reach: int = 0

    @property
    def step(self) -> float:
        """Float, what one whole number of a sum stands for."""
        moved = _FINER if self.reach else _ROUNDING
        return self.privacy.clip * moved / math.sqrt(self._reached)

    @property
    def _reached(self) -> int:
        return self.reach or self.dimension

    @property
    def hidden(self) -> int:
        """Int, shares of noise that count: a client that is curious knows its own."""
        return max(1, self.privacy.shares - 1)

    @property
    def failure(self) -> float:
        """Float, probability that rounding lengthens a unit's part beyond `length`."""
        return _failure(self.privacy, self.rounds)

    @cached_property
    def length(self) -> float:
        """Float, most length of one unit's part after rounding, in steps."""
        return rounding.sensitivity(self.privacy.clip, self.step, self._reached, self.failure) / self.step

    @cached_property
    def variance(self) -> Fraction:
        """Of one client's share of noise, in squared steps."""
        return share_variance(self.target, self.hidden, self.length)

    @cached_property
    def released(self) -> Released:
        """All rounds, as the accountant counts them."""
        shares, variance = self.hidden, self.variance
        failure = self.failure if self.privacy.of_examples else 0.0  # a client's own part is rounded until it fits
        return Released(
            noise=noise_multiplier(variance, shares, self.length),
            rounds=self.rounds,
            divergence=divergence(variance, shares, self.dimension),
            failure=failure,
        )

    @cached_property
    def epsilon(self) -> float:
        """Float, what is claimed of all rounds at `privacy.delta`."""
        return epsilon_of([self.released, *answered_in(self.privacy)], self.privacy.delta)

    @property
    def noise_norm(self) -> float:
        """Float, length of a sum's noise as it usually is, where just so many clients' shares are in it."""
        return math.sqrt(self.privacy.shares * self.variance * self.dimension) * self.step

    @property
    def least_units(self) -> int:
        """Units of which one sum tells as much as it hides, if their parts agree; with fewer noise is longer."""
        return math.ceil(self.noise_norm / self.privacy.clip)

    def bits(self, units: int) -> int:
        """Return the bits of a number in a sum over so many units, at which no sum wraps around."""
        units = max(1, units)
        shares = max(self.privacy.shares, units)
        largest, variance = units * self.privacy.clip, float(self.variance) * shares
        return rounding.bits_for(largest, self.step, units, variance, self.dimension, _WRAPPED)


@lru_cache(maxsize=64)
def mechanism_of(privacy: Privacy, rounds: int, dimension: int, reach: int = 0) -> Mechanism:
    """Return the mechanism with the least noise for what is asked for."""
    left = privacy.delta - (rounds * _failure(privacy, rounds) if privacy.of_examples else 0.0)
    noise = noise_for(privacy.epsilon, left, rounds, also=answered_in(privacy))
    made = Mechanism(privacy, rounds, dimension, noise, reach)
    while made.epsilon > privacy.epsilon:
        made = replace(made, target=made.target * _MORE)
    return made


def epsilon_at(privacy: Privacy, rounds: int, delta: float) -> float:
    """Return what is claimed at another delta, whatever the model's size."""
    known = replace(privacy, shares=max(1, privacy.shares))
    return epsilon_of([mechanism_of(known, rounds, 1).released, *answered_in(privacy)], delta)


def answered_in(privacy: Privacy) -> list[Answered]:
    """Return what answers tell by randomised response, as the accountant counts it."""
    return [Answered(privacy.answers)] if privacy.answers else []


def _failure(privacy: Privacy, rounds: int) -> float:
    return privacy.delta * _FAILURES / rounds
