"""What a site has told with noise, or at random, over all runs of its data, and the most that it allows."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fedgraft.engine.privacy.policy import Policy
from fedgraft.secrets.accountant import Answered, Part, Released, epsilon_of

NOISE, ANSWERED = "noise", "answered"
"""Keys of a log's line, by which it says that a reply held noise, with "divergence" and "failure", or answers told at
random."""


class Spending:
    """Count replies by what each tells of one unit.

    Args:
        policy: of the site; its `epsilon` is the most for all runs together, 0 = no limit, at its `delta`.
        told: lines of the log with `NOISE` or `ANSWERED`, of all runs before.
    """

    def __init__(self, policy: Policy, told: Iterable[Mapping[str, Any]]) -> None:
        self._policy = policy
        self._told = Counter(map(_part, told))

    @property
    def epsilon(self) -> float:
        """Float, what has been told so far at the policy's delta; 0 where nothing held noise."""
        return self._of(self._told)

    def refusal(self, part: Mapping[str, Any]) -> str:
        """Return why another such reply is too much; "" where it may be."""
        if not self._policy.epsilon:
            return ""
        if (epsilon := self._of(self._told + Counter([_part(part)]))) <= self._policy.epsilon:
            return ""
        return (
            f"privacy is spent: with this reply epsilon would be {epsilon:.4g} at delta {self._policy.delta:g}, and "
            f"policy.epsilon = {self._policy.epsilon:g} over all runs of these data"
        )

    def note(self, part: Mapping[str, Any]) -> float:
        """Count another one; return epsilon after it."""
        self._told[_part(part)] += 1
        return self.epsilon

    def _of(self, told: Mapping[Part, int]) -> float:
        return epsilon_of([_times(part, count) for part, count in told.items()], self._policy.delta)


def _part(line: Mapping[str, Any]) -> Part:
    """What a line says of one reply."""
    if ANSWERED in line:
        return Answered(float(line[ANSWERED]))
    return Released(float(line[NOISE]), divergence=float(line["divergence"]), failure=float(line["failure"]))


def _times(part: Part, count: int) -> Part:
    return replace(part, times=count) if isinstance(part, Answered) else replace(part, rounds=count)
