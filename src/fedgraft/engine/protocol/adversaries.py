"""Against whom a claim of privacy holds: an honest server, one that lies, and one that lies where keys are signed.

Each has an epsilon of its own, by how many clients' noise the smallest sum holds that it can have unmasked.
"""

from dataclasses import replace
from typing import Any, Final

from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.mechanism import Mechanism, answered_in
from fedgraft.engine.privacy.secure_sum import SIGNED_KEYS, Assurance
from fedgraft.secrets.accountant import epsilon_of
from fedgraft.secrets.neighbours import expected, threshold
from fedgraft.secrets.noise_shares import GIVEN_UP, divergence, noise_multiplier

HONEST, LYING, SIGNED = "honest server", "lying server", "lying server, signed keys"
"""Adversaries; with each of them a client that knows its own noise."""
_OPEN: Final = "it reads each client's part with a share of the noise"
_UNHIDDEN: Final = "parts are not masked: each holds a share of the noise"
_UNSIGNED: Final = f"{SIGNED_KEYS} = true, with keys that sites have made"


def adversaries(plan: Plan, noise: Mechanism, cohort: int) -> list[dict[str, Any]]:
    """Return a row for each adversary.

    Args:
        plan: whose sums hold noise.
        noise: of its sums.
        cohort: clients of a round.

    Returns:
        [{"adversary", "epsilon": what it can reach at most, None where nothing bounds it; "clients": in the smallest
        sum that it can have; "together": how many clients of a round may be missing or work with it; "why": what is
        not covered, "" for nothing}].
    """
    spare = max(0, cohort - plan.privacy.shares)
    own = plan.privacy.shares == 1
    rows = [_row(HONEST, noise.epsilon, plan.collection.least, spare)]
    if not (plan.collection.assurance or own):
        rows = [_row(HONEST, None, 1, 0, _UNHIDDEN)]
    if own:  # each client's noise is enough, whoever asks: its journal counts the rounds
        return [*rows, _row(LYING, noise.epsilon, 1, cohort - 1), _row(SIGNED, noise.epsilon, 1, cohort - 1)]
    rows.append(_row(LYING, None, 1, 0, f"{_OPEN}; {_UNSIGNED}"))
    if plan.collection.assurance < Assurance.SIGNED:
        return rows
    least = smallest_sum(plan, cohort)
    reached = _epsilon_of_shares(noise, least - 1)
    why = "" if reached is not None else f"a sum of {least} clients may be unmasked: a higher secure_sum.threshold"
    return [*rows, _row(SIGNED, reached, least, 0, why)]


def smallest_sum(plan: Plan, cohort: int) -> int:
    """Return the fewest clients in a sum that a server which lies can have unmasked, where keys are signed.

    Of k neighbours, of which t must stay, it is 2 t - k + 1 (Bell et al., CCS 2020; docs/secure_sums.md).
    """
    k = expected(cohort, plan.secure_sum.neighbours, plan.collection.staying(cohort))
    stay = max(threshold(k, plan.collection.staying(cohort)), min(k, plan.collection.least - 1))
    return max(1, 2 * stay - k + 1)


def replaced(noise: Mechanism) -> float:
    """Return epsilon for data sets in which one unit is another one: its part in each sum moves twice as far."""
    moved = replace(noise.released, noise=noise.released.noise / 2)
    return epsilon_of([moved, *answered_in(noise.privacy)], noise.privacy.delta)


def _epsilon_of_shares(noise: Mechanism, shares: int) -> float | None:
    """Return epsilon of all rounds where sums hold so many clients' noise; None where that is none."""
    variance = noise.variance
    if shares < 1 or shares * variance <= GIVEN_UP:
        return None
    known = noise_multiplier(variance, shares, noise.length)
    part = replace(noise.released, noise=known, divergence=divergence(variance, shares, noise.dimension))
    return epsilon_of([part, *answered_in(noise.privacy)], noise.privacy.delta)


def _row(adversary: str, epsilon: float | None, clients: int, together: int, why: str = "") -> dict[str, Any]:
    return {"adversary": adversary, "epsilon": epsilon, "clients": clients, "together": together, "why": why}
