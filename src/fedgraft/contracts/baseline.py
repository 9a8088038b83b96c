"""Against what? The contract of baselines."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic

from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.task import Shard


class Baseline(Checked, ABC, Generic[Shard]):
    """Score what a person would try first, on the same split."""

    task: ClassVar[str]
    """Name of the task whose shards it reads."""
    default: ClassVar[bool] = False
    """Whether every run of its task is compared with it, unless a recipe says otherwise."""
    local: ClassVar[bool] = False
    """Whether each client is scored by what its own data tell, for no bytes at all."""
    constant: ClassVar[bool] = False
    """Whether it says the same of everything: a model that is no better has learnt nothing."""

    @abstractmethod
    def score(self, shards: Sequence[Shard]) -> dict[str, float]:
        """Return {"validation": score, "test": score} in the task's metric, tuned on validation only.

        Further keys are names of other measures of the task, such as "ndcg_at_50", on test.
        """

    def judged(self, shards: Sequence[Shard], labels: Any) -> dict[str, float]:
        """Return the same in another metric than the usual one: that of a task's own kind of labels, a `Labels`.

        Of a task without labels it is the metric's name. By default a baseline knows one metric.
        """
        return self.score(shards)
