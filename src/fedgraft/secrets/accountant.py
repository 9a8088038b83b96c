"""What a run tells of one unit, in one epsilon: parts are listed, and their privacy losses added.

Neighbouring data sets differ in one unit, which is there or not; zero-out, where its share in every sum is zeroed, has
the same numbers. What is claimed is never below the truth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from fedgraft.errors import InputError, require
from fedgraft.secrets.gaussian import SampledGaussian, gaussian_epsilon, gaussian_noise
from fedgraft.secrets.privacy_loss import PrivacyLoss, least_epsilon, two_losses

_FINE = 0.01
"""Step of the grid, in deviations of the mean loss: it costs 1e-5 of epsilon."""
_MOST_CELLS = 2**18
"""Of one loss; where its range has more, the grid is coarser, and what is claimed is larger."""
_TAIL = 1e-9
"""Share of delta for what is so rare that it counts as known to all."""
_CLOSE = 1e-4
"""Relative, of the noise that is looked for."""
_LEAST_LOG_NOISE = math.log(0.1)
"""Where units seldom take part, delta may pay for any noise."""


@dataclass(frozen=True)
class Released:
    """Sums with Gaussian noise, one each round.

    Args:
        noise: deviation of the sum's noise in units of its sensitivity, > 0: `noise_shares.noise_multiplier`.
        rounds: how many sums, >= 1; each may depend on those before.
        share: probability of each unit to be in a round's sum, drawn anew by a coin that whoever sees the sum neither
            throws nor sees, in (0, 1]; 1 (default) is every round.
        divergence: of one sum from continuous noise, >= 0: `noise_shares.divergence`; 0 is none.
        failure: probability that one sum's sensitivity is larger, in [0, 1): `rounding.sensitivity`; it adds to delta.
    """

    noise: float
    rounds: int = 1
    share: float = 1.0
    divergence: float = 0.0
    failure: float = 0.0

    def __post_init__(self) -> None:
        require(0 < self.noise < math.inf, "Released.noise", "> 0 and finite", self.noise)
        require(self.rounds >= 1, "Released.rounds", ">= 1", self.rounds)
        require(0 < self.share <= 1, "Released.share", "in (0, 1]", self.share)
        require(0 <= self.divergence < math.inf, "Released.divergence", ">= 0 and finite", self.divergence)
        require(0 <= self.failure < 1, "Released.failure", "in [0, 1)", self.failure)


@dataclass(frozen=True)
class Answered:
    """What a mechanism of known epsilon told, such as randomised response.

    Args:
        epsilon: of one answer, > 0.
        times: how many answers of the same unit, >= 1; one that is kept and used again counts once.
        delta: of one answer, in [0, 1).
    """

    epsilon: float
    times: int = 1
    delta: float = 0.0

    def __post_init__(self) -> None:
        require(0 < self.epsilon < math.inf, "Answered.epsilon", "> 0 and finite", self.epsilon)
        require(self.times >= 1, "Answered.times", ">= 1", self.times)
        require(0 <= self.delta < 1, "Answered.delta", "in [0, 1)", self.delta)


Part = Released | Answered


def epsilon_of(parts: Sequence[Part], delta: float) -> float:
    """Return an epsilon for which all parts together are (epsilon, delta)-private.

    Rounds of which every unit is a part are one Gaussian, in closed form; epsilons alone add, where that is less; else
    losses are added on a grid. That costs some 1e-5 of epsilon; more where one loss would range over more than 2**18
    steps, as with little noise for units that seldom take part.

    Args:
        parts: what was told, in any order; none is 0.
        delta: in [0, 1); 0 only for parts that have an epsilon without it.

    Returns:
        epsilon >= 0; infinity where delta does not even pay for what the parts' own deltas and failures are.
    """
    require(0 <= delta < 1, "delta", "in [0, 1)", delta)
    released = [part for part in parts if isinstance(part, Released)]
    answered = [part for part in parts if isinstance(part, Answered)]
    if delta == 0 and (released or any(part.delta for part in answered)):
        raise InputError("delta must be > 0 where noise is Gaussian or a part has a delta of its own; got 0.")
    divergence = math.fsum(part.rounds * part.divergence for part in released)
    left = (delta - math.fsum(part.rounds * part.failure for part in released)) * math.exp(-divergence)
    if released and left <= 0:
        return math.inf
    return 2 * divergence + _undisturbed(released, answered, left)


def noise_for(epsilon: float, delta: float, rounds: int = 1, share: float = 1.0, also: Sequence[Part] = ()) -> float:
    """Return the noise of a sum each round for which these rounds and all other parts have an epsilon.

    Args:
        epsilon: for all together, > 0 and finite.
        delta: in (0, 1); without what `Released.failure` of all rounds takes of it.
        rounds: as of `Released`.
        share: as of `Released`.
        also: other parts.

    Returns:
        Deviation in units of the sensitivity, at most 1e-4 of it above the least; at least 0.1 where share < 1.

    Raises `InputError` where the other parts leave nothing.
    """
    require(0 < epsilon < math.inf, "epsilon", "> 0 and finite", epsilon)
    require(0 < delta < 1, "delta", "in (0, 1)", delta)
    told = epsilon_of(also, delta)
    require(told < epsilon, "epsilon", f"above {told:.6g}, which the other parts take at delta {delta:g}", epsilon)

    if share == 1 and not also:
        return gaussian_noise(epsilon, delta) * math.sqrt(rounds)

    def beyond(log_noise: float) -> float:
        return epsilon_of([Released(math.exp(log_noise), rounds, share), *also], delta) - epsilon

    high = math.log(gaussian_noise(epsilon - told, delta / 2) * math.sqrt(rounds))
    while beyond(high) > 0:
        high += 1
    low = high - 1
    while beyond(low) < 0:
        if low < _LEAST_LOG_NOISE:
            return math.exp(_LEAST_LOG_NOISE)
        low -= 1
    from scipy.optimize import brentq  # not above: it takes a fifth of a second, and most runs solve for no noise

    found = brentq(beyond, low, high, xtol=_CLOSE / 4)
    while beyond(found) > 0:
        found += _CLOSE / 4
    return math.exp(found)


def _undisturbed(released: Sequence[Released], answered: Sequence[Answered], delta: float) -> float:
    """Return epsilon of continuous noise whose sensitivity holds."""
    square = math.fsum(part.rounds / part.noise**2 for part in released if part.share == 1)
    sampled = [(SampledGaussian(part.noise, part.share), part.rounds) for part in released if part.share < 1]
    if not sampled and not answered:
        return gaussian_epsilon(1 / math.sqrt(square), delta) if square else 0.0
    if square:
        sampled.append((SampledGaussian(1 / math.sqrt(square), 1.0), 1))
    added = math.fsum(part.times * part.epsilon for part in answered)
    if not sampled and math.fsum(part.times * part.delta for part in answered) <= delta:
        return min(added, _on_grid((), tuple(answered), delta)) if delta else added
    return _on_grid(tuple(sampled), tuple(answered), delta)


@lru_cache(maxsize=256)
def _on_grid(sampled: Sequence[tuple[SampledGaussian, int]], answered: Sequence[Answered], delta: float) -> float:
    """Return epsilon by sums of losses, the larger of a unit that leaves and one that comes.

    Every site of a run asks for the same ones, and before each answer; one takes hundredths of a second.
    """
    step = _step(sampled, answered)
    own = [(two_losses(part.epsilon, part.delta, step), part.times) for part in answered]
    rounds = sum(times for _, times in sampled)

    def losses(removed: bool) -> list[tuple[PrivacyLoss, int]]:
        tail = max(1e-300, delta * _TAIL / max(1, rounds))
        return own + [(part.loss(step, tail, removed), times) for part, times in sampled]

    return max(least_epsilon(losses(removed), delta) for removed in ((True, False) if sampled else (True,)))


def _step(sampled: Sequence[tuple[SampledGaussian, int]], answered: Sequence[Answered]) -> float:
    """Return the step of the grid, on whose lines the largest of the answers lies."""
    answers = [(part.epsilon, part.times) for part in answered]
    square = math.fsum(times * part.variance() for part, times in sampled)
    square += math.fsum(times * size**2 * max(1e-4, math.cosh(size / 2) ** -2) for size, times in answers)
    count = sum(times for _, times in [*sampled, *answers])
    widest = max([part.width() for part, _ in sampled] + [2 * size for size, _ in answers])
    step = max(_FINE * math.sqrt(square / count), widest / _MOST_CELLS)
    largest = max((size for size, _ in answers), default=step)
    return largest / math.ceil(largest / step)
