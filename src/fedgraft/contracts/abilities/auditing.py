"""The ability of tasks to have a run audited: examples with wrong labels, in training or not."""

from abc import ABC, abstractmethod
from typing import Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.task import Shard
from fedgraft.contracts.values import Indices


class Labelled(NamedTuple):
    """Examples of a client with their classes.

    Args:
        rows: int64 [n], which.
        label: int64 [n], the number of each one's class.
        classes: int, how many there are.
    """

    rows: Indices
    label: Indices
    classes: int


class AuditedTask(ABC, Generic[Shard]):
    """Ability: change which examples a client trains on, and their labels."""

    @abstractmethod
    def labelled(self, shard: Shard, split: str) -> Labelled:
        """Return the examples of a split, in the order in which the task takes them."""

    @abstractmethod
    def marked(self, shard: Shard, rows: Indices, label: Indices, trained: NDArray[np.bool_]) -> Shard:
        """Return a client's data with other labels of some rows, each of them in training or in no split.

        Args:
            shard: as it is; not changed.
            rows: int64 [n], each once.
            label: int64 [n], their new classes.
            trained: bool [n].
        """
