"""What methods save of a reference's costs, paired by seed, with intervals and corrected for the number of comparisons.

A method has a saving only where both it and the reference get to the target on every seed that they share: over the
lucky ones alone it would look cheaper than it is.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fedgraft.reports.stored.intervals import Interval, interval
from fedgraft.reports.studies.comparisons import BySeed, Column, Corrected, Run, corrected

Costs = Mapping[str, Column]
"""{cost: {(model, method): {seed: what was spent, nan if the target was never reached}}}."""


@dataclass(frozen=True)
class Savings:
    """The savings of a table.

    Args:
        costs: what was spent.
        reference: the method whose costs are the measure, with the same model.
        tested: whether savings have intervals and are tested; else they are means alone.
    """

    costs: Costs
    reference: str
    tested: bool = True

    @cached_property
    def shares(self) -> dict[str, dict[Run, dict[int, float]]]:
        """{cost: {(model, method): {seed: percent of the reference's}}}, of those that get there on every seed."""
        found: dict[str, dict[Run, dict[int, float]]] = {}
        for name, column in self.costs.items():
            for run, own in column.items():
                shares = _shares(own, column.get((run[0], self.reference), {}))
                if shares and not any(map(math.isnan, shares.values())):
                    found.setdefault(name, {})[run] = shares
        return found

    @cached_property
    def corrected(self) -> Corrected:
        """p-values, corrected by Holm over all savings of the table."""
        return corrected(self.shares if self.tested else {}, self.reference)

    def text(self, cost: str, run: Run) -> str:
        """Return a saving in percent with its interval, "never" or "not on every seed"; "" for the reference itself."""
        column = self.costs.get(cost, {})
        own = column.get(run, {})
        if run[1] == self.reference or not own:
            return ""
        if all(map(math.isnan, own.values())):
            return "never"
        shares = self.shares.get(cost, {}).get(run)
        if shares is None:
            return "not on every seed" if own.keys() & column.get((run[0], self.reference), {}).keys() else ""
        saved = interval([100 - share for share in shares.values()])
        shown = saved if self.tested else Interval(saved.middle, math.nan)
        return f"{shown:.1}{self.corrected.mark(cost, run)}"

    def note(self, label: str) -> str:
        """Return what savings and asterisks mean, given the reference's label."""
        savings = f"% fewer: than {label}, seed by seed, and only where all seeds get there"
        return f"{savings}, with 95 % intervals. {self.corrected.note(label)}" if self.tested else f"{savings}."


def _shares(own: BySeed, base: BySeed) -> dict[int, float]:
    """Return {seed: percent of the other's cost} over shared seeds; nan where one never gets there or costs nothing."""
    both = sorted(own.keys() & base.keys())
    return {seed: 100 * own[seed] / base[seed] if base[seed] else math.nan for seed in both}
