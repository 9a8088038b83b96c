"""Ability of a task: tell more of its sums than one score."""

from collections.abc import Mapping

from fedgraft.contracts.task import Prepared, Shard, Task
from fedgraft.contracts.values import Sums


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

    def choice(self, sums: Sums) -> float:
        """Return what a model is chosen by on validation; better in the same direction as the score, its default."""
        return self.score(sums)
