"""Statistics of which the server needs the sum over all clients alone: the ability of a task that has such."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from fedgraft.contracts.abilities.tasks import PublishingTask
from fedgraft.contracts.task import Shard
from fedgraft.contracts.values import Indices
from fedgraft.wire.layouts import Arrays, Layout


class SummedTask(PublishingTask[Shard]):
    """Ability: publish statistics that are added up before training, so that nobody sees those of one client.

    All clients get the same back. What the ability of `PublishingTask` publishes has no part in it.

    Args:
        units: what can be hidden in such a sum by noise, such as "rating".
        summed_by: the option of a recipe by which statistics are added up, such as "task.share = 'sums'".
        reach: numbers of the sum, >= 1, that one unit's part changes at most.
    """

    units: ClassVar[tuple[str, ...]]
    summed_by: ClassVar[str]
    reach: ClassVar[int]

    @property
    @abstractmethod
    def summed_layout(self) -> Layout:
        """Layout of what is added up, float32 arrays of fixed shapes; empty where the options exclude it."""

    @abstractmethod
    def summed(self, shard: Shard, unit: str, longest: float) -> Arrays:
        """Return what a client adds, {name: float64 array}: the sum of its units' parts, each shortened to a length.

        `longest`, > 0, is the most Euclidean length of one unit's part. `unit` is one of `units`, "" for the smallest.
        """

    @abstractmethod
    def units_of(self, shard: Shard, unit: str) -> Sequence[Indices]:
        """Return the training examples of each unit of a client, int64 [examples] each: rows of its data."""

    @abstractmethod
    def left_out(self, shard: Shard, rows: Indices) -> Shard:
        """Return a client's data with some training examples in no split."""

    @abstractmethod
    def from_sum(self, total: Arrays, unit: str, longest: float, noise: float) -> Arrays:
        """Server: return what clients get back, arrays of `combined_layout`, from the sum of what they added.

        `noise`, >= 0, is the deviation of the noise on each number; others as of `summed`.
        """
