"""Ability of a task: tell more of its sums than one score."""

from collections.abc import Mapping
from dataclasses import dataclass

from fedgraft.contracts.task import Prepared, Shard, Task
from fedgraft.contracts.values import Sums


@dataclass(frozen=True)
class Chance:
    """What needs no model, and how good it is.

    Args:
        measure: name of the measure that tells it, mostly the score itself.
        value: of that measure.
        what: a constant answer, or a random one, in words: "guessing".
    """

    measure: str
    value: float
    what: str


class DetailedScores(Task[Shard, Prepared]):
    """Ability: tell more of a model than its score."""

    def mean_loss(self, sums: Sums) -> float:
        """Return the mean loss, from added sums; nan by default, where it is not told."""
        return float("nan")

    def scores(self, sums: Mapping[str, Sums], chosen: Sums | None = None) -> dict[str, float]:
        """Return the score of each split; what it takes a choice for is chosen on `chosen`, or on validation."""
        return {split: self.score(each) for split, each in sums.items()}

    def measured(self, sums: Mapping[str, Sums], chosen: Sums | None = None) -> dict[str, dict[str, float]]:
        """Return the measures of each split; arguments as of `scores`."""
        return {split: self.measures(each) for split, each in sums.items()}

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return {name: measure} for every measure that the sums tell; the score alone by default."""
        return {self.metric: self.score(sums)}

    def chance(self, sums: Sums) -> Chance | None:
        """Return what a constant answer, or a random order, reaches on the same examples; None where sums do not tell.

        It is of the score or, where the sums do not tell that, of another of `measures`, of which more is better.
        """
        return None

    def choice(self, sums: Sums) -> float:
        """Return what a model is chosen by on validation; better in the same direction as the score, its default."""
        return self.score(sums)
