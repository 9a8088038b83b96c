"""What a site has told with noise, over all runs of its data, and the most that it allows."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fedgraft.engine.mechanism import Mechanism, mechanism_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.policy import Policy
from fedgraft.engine.private_sums import numbers_of
from fedgraft.secrets.accountant import Released, epsilon_of

NOISE: Final = "noise"
"""Key of a log's line, by which it says that an answer held noise: {"noise", "divergence", "failure"} of one round."""


class Spending:
    """Count rounds with noise by what each tells.

    Args:
        policy: of the site; its `epsilon` is the most for all runs together, 0 = no limit, at its `delta`.
        told: {"noise", "divergence", "failure"} of each round before, of all runs.
    """

    def __init__(self, policy: Policy, told: Iterable[Mapping[str, float]]) -> None:
        self._policy = policy
        self._rounds: dict[tuple[float, float, float], int] = {}
        for each in told:
            self._add(each)

    @property
    def epsilon(self) -> float:
        """Float, what has been told so far at the policy's delta; 0 where nothing held noise."""
        return self._of(self._rounds)

    def refusal(self, part: Mapping[str, float]) -> str:
        """Return why another round is too much; "" where it may be."""
        if not self._policy.epsilon:
            return ""
        after = dict(self._rounds)
        after[_key(part)] = after.get(_key(part), 0) + 1
        if (epsilon := self._of(after)) <= self._policy.epsilon:
            return ""
        return (
            f"privacy is spent: with this round epsilon would be {epsilon:.4g} at delta {self._policy.delta:g}, and "
            f"policy.epsilon = {self._policy.epsilon:g} over all runs of these data"
        )

    def note(self, part: Mapping[str, float]) -> float:
        """Count another round; return epsilon after it."""
        self._add(part)
        return self.epsilon

    def _add(self, part: Mapping[str, float]) -> None:
        self._rounds[_key(part)] = self._rounds.get(_key(part), 0) + 1

    def _of(self, rounds: Mapping[tuple[float, float, float], int]) -> float:
        parts = [
            Released(noise, times, divergence=divergence, failure=failure)
            for (noise, divergence, failure), times in rounds.items()
        ]
        return epsilon_of(parts, self._policy.delta)


def noise_in(plan: Plan) -> Mechanism:
    """Return the noise of a plan whose sums hold any: of statistics, or of updates."""
    if task := plan.summed:
        return mechanism_of(plan.privacy, 1, numbers_of(task.summed_layout), task.reach)
    return mechanism_of(plan.privacy, plan.rounds, numbers_of(plan.upload_layout))


def told_in_a_round(plan: Plan) -> dict[str, float]:
    """Return what one sum of a plan whose sums hold noise tells, as a line of a log holds it."""
    released = noise_in(plan).released
    return {NOISE: released.noise, "divergence": released.divergence, "failure": released.failure}


def _key(part: Mapping[str, Any]) -> tuple[float, float, float]:
    return float(part[NOISE]), float(part["divergence"]), float(part["failure"])
