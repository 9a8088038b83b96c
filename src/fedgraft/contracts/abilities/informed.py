"""Questions about nodes that are joined to nodes of others: the ability of a task that asks these nodes' owners."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import torch

from fedgraft.contracts.abilities.tasks import PredictingTask
from fedgraft.contracts.task import Prepared, Shard


@dataclass(frozen=True, eq=False)
class Everybody(Generic[Shard]):
    """All clients of a run, where their data and what they remember are here.

    Args:
        shards: one per client.
        memory: returns what a client remembered at the end, by its number, as `PredictingTask.predict` takes it.
        model: returns the model that it answers with.
    """

    shards: Sequence[Shard]
    memory: Callable[[int], Mapping[str, Any]]
    model: Callable[[int], torch.nn.Module]


class InformedTask(PredictingTask[Shard, Prepared]):
    """Ability: answer with what other clients know of nodes of theirs, where the data of all are here.

    Elsewhere a client answers with what it was told in the run.
    """

    @abstractmethod
    def informed(self, asked: Any, everybody: Everybody[Shard]) -> Any:
        """Return the questions to one client with what others know of it."""
