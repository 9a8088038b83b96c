"""Statistics that clients publish in several stages before training: the ability of a task that needs them."""

from abc import abstractmethod

from fedgraft.contracts.task import Prepared, Shard
from fedgraft.contracts.task_abilities import PublishingTask
from fedgraft.wire.layouts import Arrays, Layout


class StagedTask(PublishingTask[Shard, Prepared]):
    """Ability: let clients publish further statistics before training, in stages, each by what they got back so far.

    `combine` is called after each; what a client published in stage k has names that end in `.k` there. It answers with
    all of `combined_layout` each time, and has nothing yet of stages to come. The last answer is what clients keep.
    """

    @property
    @abstractmethod
    def stages(self) -> int:
        """How many stages follow the first statistics; 0 for none."""

    @property
    @abstractmethod
    def further_layout(self) -> Layout:
        """Layout of what a client publishes in a stage, charged as statistics."""

    @abstractmethod
    def further(self, shard: Shard, shared: Arrays, stage: int) -> Arrays:
        """Return what a client publishes in a stage, from 1, given what it got back last."""

    @abstractmethod
    def check_further(self, first: Arrays, further: Arrays) -> None:
        """Server: raise `WireError` for what no client that published `first` can have published in a stage."""


def of_stage(further: Arrays, stage: int) -> Arrays:
    """Return what a client published in a stage by the names that it has among what it published in all."""
    return {f"{name}.{stage}": array for name, array in further.items()}
