"""What a site has told with noise, or at random, over all runs of its data, and the most that it allows.

Runs may hide different units, whose epsilons do not add: what hides a node bounds nothing of a whole client. So there
is a number for each unit. What hides a larger unit also hides what is in it: where a node is another one, the client's
part moves by twice its length at most, so that the noise counts half.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from fedgraft.engine.privacy.options import CLIENT
from fedgraft.engine.privacy.policy import Policy
from fedgraft.secrets.accountant import Answered, Part, Released, epsilon_of

UNIT, NOISE, ANSWERED = "unit", "noise", "answered"
"""Keys of a log's line, by which it says of which unit a reply told, and that it held noise, with "divergence" and
"failure", or answers told at random."""
UNITS: Final = {"node", "graph", "rating", "user", CLIENT}
"""Units of tasks that come with fedgraft."""
INSIDE: Final = {("rating", "user")}
"""(unit, larger unit that contains it), beside clients, which contain all others; a module of yours may add its own."""
_Told: TypeAlias = Counter[tuple[str, Part]]


class Spending:
    """Count replies by what each tells of one unit.

    Args:
        policy: of the site; its `epsilon` is the most of each unit for all runs together, 0 = no limit, at its `delta`.
        told: lines of the log with `NOISE` or `ANSWERED`, of all runs before.
    """

    def __init__(self, policy: Policy, told: Iterable[Mapping[str, Any]]) -> None:
        self._policy = policy
        self._told: _Told = Counter(map(_part, told))

    @property
    def epsilons(self) -> dict[str, float]:
        """{unit of which something was told: what all replies tell of one at the policy's delta}."""
        return self._of(self._told)

    def refusal(self, line: Mapping[str, Any]) -> str:
        """Return why another such reply is too much; "" where it may be."""
        if not self._policy.epsilon:
            return ""
        after = self._of(self._told + Counter([_part(line)]))
        beyond = {unit: epsilon for unit, epsilon in after.items() if epsilon > self._policy.epsilon}
        if not beyond:
            return ""
        unit = line[UNIT] if line[UNIT] in beyond else min(beyond)
        return (
            f"privacy is spent: with this reply epsilon would be {beyond[unit]:.4g} of each {unit} at delta "
            f"{self._policy.delta:g}, and policy.epsilon = {self._policy.epsilon:g} over all runs of these data"
        )

    def note(self, line: Mapping[str, Any]) -> float:
        """Count another one; return epsilon of its unit after it."""
        self._told[_part(line)] += 1
        return self.epsilons[line[UNIT]]

    def _of(self, told: _Told) -> dict[str, float]:
        return {unit: self._of_unit(told, unit) for unit in sorted({unit for unit, _ in told})}

    def _of_unit(self, told: _Told, unit: str) -> float:
        parts = [
            _times(part if one == unit else _inside(part), count)
            for (one, part), count in told.items()
            if one == unit or contains(one, unit)
        ]
        return epsilon_of(parts, self._policy.delta)


def contains(larger: str, unit: str) -> bool:
    """Return whether one unit is a part of a larger one; one that this process does not know may contain any."""
    known = larger in UNITS or any(larger in pair for pair in INSIDE)
    return larger != unit and (larger == CLIENT or not known or (unit, larger) in INSIDE)


def _part(line: Mapping[str, Any]) -> tuple[str, Part]:
    """What a line says of one reply, and of which unit."""
    unit = str(line[UNIT])
    if ANSWERED in line:
        return unit, Answered(float(line[ANSWERED]))
    return unit, Released(float(line[NOISE]), divergence=float(line["divergence"]), failure=float(line["failure"]))


def _inside(part: Part) -> Part:
    """What a reply that hides a unit tells of what is in it, which changes the unit's part for another one."""
    return part if isinstance(part, Answered) else replace(part, noise=part.noise / 2)


def _times(part: Part, count: int) -> Part:
    return replace(part, times=count) if isinstance(part, Answered) else replace(part, rounds=count)
